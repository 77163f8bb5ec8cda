"""Clients of a daemon name models that its operator knows; they cause no load and no download."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from support.daemons.run_daemons import serving
from support.flows.flow_tasks import compose_task
from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateways import serve_gateway
from support.runs.scripting import write_script
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.testing.simulator import Simulator

TOLD = [{"role": "user", "content": "Hello"}]
FACES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat_completions": ("/v1/chat/completions", {"messages": TOLD}),
    "responses": ("/v1/responses", {"input": "Hello"}),
    "messages": ("/v1/messages", {"messages": TOLD, "max_tokens": 9}),
    "ollama": ("/api/chat", {"messages": TOLD, "stream": False}),
    "count": ("/v1/messages/count_tokens", {"messages": TOLD}),
    "show": ("/api/show", {}),
}


class _Asked:
    """A user who agrees to everything, and remembers to what."""

    def __init__(self) -> None:
        self.subjects: list[str] = []

    def ask(self, subject: str, question: str) -> bool:
        self.subjects.append(subject)
        return True


def produce_application(folder: Path, text: str, consent: _Asked | None = None) -> Application:
    (folder / "vibe.toml").write_text(f"[limits]\nattempts = 1\n{text}", encoding="utf-8")
    environment = {"HOME": str(folder), "VIBE_LLMS_CONFIG": str(folder / "vibe.toml")}
    configuration = load_configuration(environment=environment, working_directory=folder)
    return Application(configuration, consent=consent)


@asynccontextmanager
async def reach(application: Application, **options: Any) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        serve_gateway(application, **options) as address,
        aiohttp.ClientSession(address) as session,
    ):
        yield session


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("kind", ["script", "weights", "nothing"])
async def test_a_path_is_no_model_of_a_gateway_and_nobody_learns_what_is_there(
    tmp_path: Path, face: str, kind: str
) -> None:
    script = write_script(tmp_path, {"contents": [{"text": "Played."}]})
    (tmp_path / "w.gguf").write_bytes(b"GGUF")
    names = {
        "script": f"scripted:{script}",
        "weights": f"local:{tmp_path}/x/../w.gguf",
        "nothing": f"local:{tmp_path}/none.gguf",
    }
    path, body = FACES[face]
    async with (
        reach(produce_application(tmp_path, "")) as session,
        session.post(path, json={**body, "model": names[kind]}) as told,
    ):
        text = await told.text()
        assert told.status == 404, text
        assert json.dumps(names[kind])[1:-1] in text.replace("'", '"')


async def test_files_that_the_operator_has_named_are_models(tmp_path: Path) -> None:
    script = write_script(tmp_path, {"contents": [{"text": "Played."}]})
    text = f'[aliases]\nplay = "scripted:{script}"\nmine = "scripted"\n'
    path, body = FACES["chat_completions"]
    async with reach(produce_application(tmp_path, text)) as session:
        for name, status in (
            ("play", 200),
            (f"scripted:{script}", 200),
            ("scripted:echo", 200),
            (f"scripted:{tmp_path}/./script.toml", 404),
            (f"mine:{tmp_path}/./script.toml", 404),
        ):
            async with session.post(path, json={**body, "model": name}) as told:
                assert told.status == status, (name, await told.text())
    async with (
        reach(produce_application(tmp_path, "")) as session,
        session.post(path, json={**body, "model": "play"}) as told,
    ):
        assert told.status == 404


async def test_tables_name_files_and_their_successor_takes_them_back(tmp_path: Path) -> None:
    script = write_script(tmp_path, {"contents": [{"text": "Played."}]})
    table = f'[models.play]\ntargets = ["scripted:{script}"]\n'
    async with Simulator() as first, Simulator() as second:
        routed = RoutedGateway(tmp_path, first, second)
        async with routed.run(table):
            assert (await routed.ask(model="play")).status == 200
            assert (await routed.ask(model=f"scripted:{script}")).status == 404
            routed.file.write_text('[models.play]\ntargets = ["first:gpt-5.5"]\n')
            routed.service.reload()
            assert (await routed.ask(model="play")).status == 200
    assert len(first.requests) == 1


@pytest.mark.parametrize("left", ["", "[server]\nport = 0\n", "[models]\n"])
async def test_a_file_that_is_cut_does_not_open_all_models(
    tmp_path: Path, left: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither where it is read again, nor where a worker is begun again."""
    table = '[models.quick]\ntargets = ["first:gpt-5.5"]\n'
    async with Simulator() as first, Simulator() as second:
        routed = RoutedGateway(tmp_path, first, second)
        async with routed.run(table):
            for _ in range(2):
                routed.file.write_text(left)
                routed.service.reload()
            assert (await routed.ask()).status == 200
            assert (await routed.ask(model="second:gpt-5.5")).status == 404
        with pytest.raises(ConfigurationError, match="has no models"):
            routed.produce(needs_models=True)
        routed.produce()  # as an operator begins it who wants all of them open
    assert "has no models" in caplog.text
    assert not second.requests


@asynccontextmanager
async def ollama_without_models() -> AsyncIterator[tuple[str, list[str]]]:
    """A server that has no model, and could fetch any."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        if request.path == "/api/pull":
            return web.Response(text='{"status": "success"}\n')
        return web.json_response({"error": "model 'x' not found"}, status=404)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("yes", ["yes = true\n", ""])
async def test_a_client_has_nothing_pulled(tmp_path: Path, yes: str) -> None:
    user = _Asked()
    async with ollama_without_models() as (url, asked):
        text = f'[providers.ollama]\nbase_url = "{url}"\n'
        application = produce_application(tmp_path, text, None if yes else user)
        path, body = FACES["ollama"]
        async with (
            reach(application) as session,
            session.post(path, json={**body, "model": "ollama:nonexistent:latest"}) as told,
        ):
            assert told.status == 404, await told.text()
    assert "/api/show" in asked
    assert "/api/pull" not in asked
    assert not user.subjects


async def test_a_client_has_no_weights_fetched_and_no_package_installed(tmp_path: Path) -> None:
    user = _Asked()
    text = '[providers.far]\nmodule = "far_away"\npackage = "far-away >= 1"\n'
    path, body = FACES["chat_completions"]
    async with reach(produce_application(tmp_path, text, user)) as session:
        for model in ("far:any", "local:smollm2"):
            async with session.post(path, json={**body, "model": model}) as told:
                assert told.status == 404, await told.text()
    assert not user.subjects


async def test_orders_and_tasks_over_http_name_no_files(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('[[responses]]\ncontents = [{ text = "Played." }]\n')
    told = {"input": "Do it."}
    async with serving(tmp_path) as daemon:
        for order in (
            {"model": f"scripted:{other}", **told},
            {"model": f"local:{tmp_path}/w.gguf", **told},
            {"task": _compose_task(str(other))},
            {"task": _compose_task("echo"), "model": f"scripted:{other}"},
        ):
            status, said = await daemon.ask("POST", "/runs", order)
            assert status == 400, said
            assert "Unknown model" in said["error"]["message"]
        status, said = await daemon.ask("POST", "/runs", {"model": "play", **told})
        assert status == 201, said


def _compose_task(model: str) -> Any:
    task = compose_task("P0 --> End", "Go.")
    return {**task, "resource_llm": {"provider": "scripted", "model": model}}
