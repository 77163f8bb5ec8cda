"""The page of a gateway with several worker processes shows the sum of all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateway_processes import run_gateway
from support.gateways.gateways import produce_application
from support.gateways.key_holders import create_key
from vibe_llms.testing.simulator import Simulator

SETTINGS = """
authorizer = "keys"
page = true
[server]
workers = 2
[models.quick]
targets = ["openai_conversations:gpt-5.5"]
circuit = { failures = 1, window_seconds = 60, pause_seconds = 60 }
"""
REQUESTS = 24


@pytest.mark.slow
async def test_any_process_answers_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # the gateway is killed in the end
    keys = tmp_path / ".local" / "share" / "vibe-llms" / "authorizers" / "keys"
    key = create_key(keys, "root", operator=True)
    (tmp_path / "gateway.toml").write_text(SETTINGS)
    headers = {"Authorization": f"Bearer {key}"}
    async with Simulator() as simulator:
        produce_application(tmp_path, simulator.url)  # writes the configuration
        program = ("-m", "vibe_llms", "serve", "gateway", "--port", "0", "--yes")
        async with run_gateway(tmp_path, *program, "--config", "gateway.toml") as (_, url):

            async def ask(method: str, path: str, body: object = None) -> Any:
                # A connection of its own, which any of the processes may accept.
                async with (
                    aiohttp.ClientSession(headers=headers) as session,
                    session.request(method, url + path, json=body) as answer,
                ):
                    return await answer.json()

            body = {"model": "quick", "messages": [{"role": "user", "content": "A sea?"}]}
            await asyncio.gather(
                *(ask("POST", "/v1/chat/completions", body) for _ in range(REQUESTS))
            )
            async with asyncio.timeout(60):
                while True:
                    answers = [await ask("GET", "/operate/traffic") for _ in range(6)]
                    counted = {each["recent"]["requests"] for each in answers}
                    workers = {each["workers"] for each in answers}
                    # All of these may come from one process, and the next ones from the other.
                    listed = [await ask("GET", "/operate/requests") for _ in range(4)]
                    sizes = {len({row["id"] for row in each["data"]}) for each in listed}
                    if (counted, workers, sizes) == ({REQUESTS}, {2}, {REQUESTS}):
                        break
                    await asyncio.sleep(0.1)

            # A circuit opens in the process that met the failure, and any of them says so.
            simulator.switch("server_error")
            await ask("POST", "/v1/chat/completions", body)
            async with asyncio.timeout(60):
                while True:
                    models = [(await ask("GET", "/operate/models"))["data"] for _ in range(4)]
                    found = {
                        (each[0]["targets"][0]["circuit"], each[0]["targets"][0]["open_workers"])
                        for each in models
                    }
                    if found == {("open", 1)}:
                        break
                    await asyncio.sleep(0.1)
            assert models[0][0]["targets"][0]["workers"] == 2
