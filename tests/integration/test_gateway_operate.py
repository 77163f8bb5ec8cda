"""An operator sees traffic, routing and spending over HTTP, and administers keys; no one else."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import openapi_spec_validator
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from jsonschema import Draft202012Validator

from support.gateways.authorizers import KeyAuthorizer as AnyKeyAuthorizer
from support.gateways.gateways import produce_application, serve
from support.gateways.key_holders import create_key
from support.gateways.operated import MODEL, OperatedGateway, operate
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.gateway.operate import routes
from vibe_llms.daemons.keys.register import MOST_BYTES
from vibe_llms.daemons.keys.texts import extract_identity
from vibe_llms.daemons.records import CallRecord
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.testing.simulator import Say, Simulator

PATHS = ("/operate/traffic", "/operate/requests", "/operate/models", "/operate/keys")
TABLES = """
[models.quick]
targets = ["openai_conversations:gpt-5.5"]
fallback = ["openai_responses:gpt-5.5"]
circuit = { failures = 2, window_seconds = 60, pause_seconds = 30 }
"""


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A vendor."""
    async with Simulator() as simulator:
        yield simulator


@pytest.fixture
async def gateway(tmp_path: Path, simulator: Simulator) -> AsyncIterator[OperatedGateway]:
    """A gateway without tables."""
    async with operate(tmp_path, simulator.url) as gateway:
        yield gateway


async def test_only_an_operators_key_in_a_header_is_admitted(gateway: OperatedGateway) -> None:
    client = create_key(gateway.keys, "ada")
    for path in (*PATHS, "/operate/spending"):
        assert (await gateway.ask("GET", path))[0] == 200, path
        for key, status in (("", 401), ("vk-nonsense", 401), (client, 403)):
            got, answer = await gateway.ask("GET", path, key=key)
            assert got == status, (path, key)
            assert answer["error"]["message"]
        for where in ({"params": {"key": gateway.key}}, {"cookies": {"key": gateway.key}}):
            async with gateway.session.get(gateway.url + path, **where) as got_there:
                assert got_there.status == 401, where
    identity = extract_identity(client)
    for method, path, body in (
        ("POST", "/operate/keys", {"name": "eve"}),
        ("PATCH", f"/operate/keys/{identity}", {"cents_per_day": 1}),
        ("POST", f"/operate/keys/{identity}/revoke", {}),
    ):
        assert (await gateway.ask(method, path, body, key=client))[0] == 403
    assert len((await gateway.ask("GET", "/operate/keys"))[1]["data"]) == 2
    revoked, _ = await gateway.ask("POST", f"/operate/keys/{extract_identity(gateway.key)}/revoke")
    assert revoked == 200
    assert (await gateway.ask("GET", "/operate/keys"))[0] == 401


async def test_pages_of_other_sites_are_refused_even_with_a_key(gateway: OperatedGateway) -> None:
    url = f"{gateway.url}/operate/keys"
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        headers |= {"Authorization": f"Bearer {gateway.key}"}
        async with gateway.session.post(url, json={"name": "eve"}, headers=headers) as answer:
            assert answer.status == 403, headers
            assert "access-control-allow-origin" not in answer.headers
    form = {"Authorization": f"Bearer {gateway.key}", "Content-Type": "text/plain"}
    async with gateway.session.post(url, data='{"name": "eve"}', headers=form) as answer:
        assert answer.status == 415
    own = {"Authorization": f"Bearer {gateway.key}", "Origin": gateway.url}
    async with gateway.session.post(url, json={"name": "bob"}, headers=own) as answer:
        assert answer.status == 201


async def test_a_document_of_a_vendor_is_no_page_of_the_gateway(tmp_path: Path) -> None:
    """Its scripts run in a sandbox, apart from the operator's page."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="<script>alert(1)</script>", content_type=request.query["type"])

    vendor = web.Application()
    vendor.router.add_get("/v1/reports", answer)
    tables = """[models.quick]
targets = ["openai_conversations:gpt-5.5"]
passthrough = ["/v1/reports"]
"""
    async with TestServer(vendor) as server:
        upstream = str(server.make_url("")).rstrip("/")
        async with operate(tmp_path, upstream, tables=tables) as gateway:
            for kind, policy in (
                ("text/html", "sandbox"),
                ("Image/SVG+xml", "sandbox"),
                ("application/atom+xml", "sandbox"),
                ("text/xsl", "sandbox"),
                ("application/unknown", "sandbox"),  # browsers guess what it is
                ("application/json", None),
            ):
                url = f"{gateway.url}/v1/reports?type={kind}&key={gateway.key}"
                async with gateway.session.get(url.replace("+", "%2B")) as got:
                    assert (got.status, got.content_type) == (200, kind.lower())
                    assert got.headers.get("content-security-policy") == policy


async def test_the_page_is_served_with_its_policy(gateway: OperatedGateway) -> None:
    accept = {"Accept": "text/html"}
    async with gateway.session.get(f"{gateway.url}/", headers=accept) as got:
        index = await got.text()
        assert (got.status, got.url.path) == (200, "/page/")
        assert "default-src 'none'" in got.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in got.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=|https?:", index)
    for name in re.findall(r'(?:src|href)="([\w.-]+)"', index):
        async with gateway.session.get(f"{gateway.url}/page/{name}") as got:
            assert got.status == 200, name
            assert got.headers["x-content-type-options"] == "nosniff"
    for name in ("index.html", "operate.html", "../operate"):
        async with gateway.session.get(f"{gateway.url}/page/{name}") as got:
            assert got.status == 404, name
    async with gateway.session.get(f"{gateway.url}/") as got:
        assert (await got.json())["name"] == "vibe-llms"


async def test_without_the_setting_there_is_nothing(tmp_path: Path, simulator: Simulator) -> None:
    application = produce_application(tmp_path, simulator.url)
    service = produce_service(application, authorizer=AnyKeyAuthorizer())
    async with serve(service) as url, aiohttp.ClientSession() as session:
        for path in (*PATHS, "/page/", "/page/operate.js"):
            async with session.get(url + path, headers={"x-api-key": "friend"}) as answer:
                assert answer.status == 404
    with pytest.raises(ConfigurationError, match="authorizer"):
        produce_service(application, has_page=True)


async def test_another_authorizer_names_its_operators(tmp_path: Path, simulator: Simulator) -> None:
    """Its keys are not administered here."""

    class Authorizer(AnyKeyAuthorizer):
        administration = "by the company's directory"

        class Grant(AnyKeyAuthorizer.Grant):
            @property
            def is_operator(self) -> bool:
                return self.subject == "friend"

    service = produce_service(
        produce_application(tmp_path, simulator.url), authorizer=Authorizer(), has_page=True
    )
    async with serve(service) as url, aiohttp.ClientSession() as session:
        for key, path, status in (
            ("friend", "/operate/traffic", 200),
            ("other", "/operate/traffic", 403),
            ("friend", "/operate/keys", 404),
        ):
            async with session.get(url + path, headers={"x-api-key": key}) as answer:
                assert answer.status == status, (key, path)


async def test_requests_are_counted_and_listed(
    gateway: OperatedGateway, simulator: Simulator
) -> None:
    client = create_key(gateway.keys, "ada")
    simulator.enqueue(Say("The North Sea."))
    assert (await gateway.converse(client))[0] == 200
    simulator.enqueue(Say("The Baltic Sea."))
    assert (await gateway.converse(client, stream=True))[0] == 200
    simulator.enqueue(Say("The Red Sea."))
    assert (await gateway.converse(client, "anthropic:claude-haiku-4-5", n=1, seed=3))[0] == 200
    assert (await gateway.converse("vk-nonsense"))[0] == 401
    simulator.switch("overloaded")
    assert (await gateway.converse(client))[0] >= 500

    _, traffic = await gateway.ask("GET", "/operate/traffic")
    recent = traffic["recent"]
    assert (recent["requests"], recent["failed"]) == (5, 2)
    assert 0 < recent["latency"]["median"] <= recent["latency"]["p99"] < 60
    assert recent["first_byte"]["median"] > 0
    assert len(traffic["requests"]) == len(traffic["latency"]["p95"]) == 360
    targets = {each["target"]: each for each in traffic["targets"]}
    assert {*targets} == {"", MODEL, "anthropic:claude-haiku-4-5"}
    assert (targets[MODEL]["requests"], targets[MODEL]["failed"]) == (3, 1)
    assert targets[""]["errors"] == [{"kind": "401 access", "count": 1}]

    _, listed = await gateway.ask("GET", "/operate/requests")
    failed, refused, translated, streamed, first = listed["data"]
    assert (first["key"], first["model"], first["target"]) == ("ada", MODEL, MODEL)
    assert (first["way"], first["status"], first["losses"]) == ("passthrough", 200, [])
    assert first["input_tokens"] > 0
    assert Decimal(first["cents"]) > 0
    assert streamed["streamed"] is True
    assert (refused["status"], refused["key"]) == (401, "")
    assert "anthropic" in translated["target"]
    assert {"kind", "grade", "path", "reason"} == {*translated["losses"][0]}
    assert any("seed" in loss["path"] for loss in translated["losses"])
    assert failed["status"] >= 500
    assert len({each["id"] for each in listed["data"]}) == 5


async def test_a_failing_target_is_shown_with_its_circuit(
    tmp_path: Path, simulator: Simulator
) -> None:
    async with operate(tmp_path, simulator.url, tables=TABLES) as gateway:
        _, before = await gateway.ask("GET", "/operate/models")
        [model] = before["data"]
        assert [each["circuit"] for each in model["targets"]] == ["closed", "closed"]
        assert [each["level"] for each in model["targets"]] == [0, 1]
        for fault in ("server_error", "server_error", ""):
            if fault:
                simulator.switch(fault)
            simulator.enqueue(Say("The North Sea."))
            assert (await gateway.converse(gateway.key, "quick"))[0] == 200
        _, after = await gateway.ask("GET", "/operate/models")
        first = after["data"][0]["targets"][0]
        assert (first["circuit"], first["open_workers"], first["workers"]) == ("open", 1, 1)
        assert first["failure"] == "500 server"
        assert first["open_until"] > first["failed_at"]
        _, traffic = await gateway.ask("GET", "/operate/traffic")
        kinds = {
            each["target"]: {error["kind"]: error["count"] for error in each["errors"]}
            for each in traffic["targets"]
        }
        assert kinds[MODEL] == {"500 server": 2, "skipped: circuit": 1}
        _, listed = await gateway.ask("GET", "/operate/requests")
        assert [len(each["attempts"]) for each in listed["data"]] == [2, 2, 2]
        assert listed["data"][-1]["attempts"][0]["error"] == "500 server"


async def test_a_key_is_created_limited_and_revoked(
    gateway: OperatedGateway, simulator: Simulator
) -> None:
    limits = {"models": ["openai*"], "cents_per_day": 500, "expires": "30d"}
    status, created = await gateway.ask("POST", "/operate/keys", {"name": "ada", **limits})
    assert status == 201
    key, identity = created["key"], created["description"]["id"]
    assert created["description"]["operator"] is False
    simulator.enqueue(Say("The North Sea."))
    assert (await gateway.converse(key, max_completion_tokens=9))[0] == 200
    assert (await gateway.converse(key, "anthropic:claude-haiku-4-5"))[0] == 403

    status, limited = await gateway.ask(
        "PATCH", f"/operate/keys/{identity}", {"cents_per_day": 0, "models": None, "expires": None}
    )
    assert (status, limited["cents_per_day"], limited["models"]) == (200, 0, [])
    assert limited["expires"] is None
    status, body = await gateway.converse(key, max_completion_tokens=9)
    assert status == 429
    assert "'ada'" in json.loads(body)["error"]["message"]

    _, listed = await gateway.ask("GET", "/operate/keys")
    ada = next(each for each in listed["data"] if each["name"] == "ada")
    assert Decimal(ada["today_cents"]) > 0
    assert (await gateway.ask("POST", f"/operate/keys/{identity}/revoke", {}))[1][
        "state"
    ] == "revoked"
    status, body = await gateway.converse(key)
    assert status == 401
    assert "was revoked" in json.loads(body)["error"]["message"]
    assert key not in json.dumps(listed)
    for path in PATHS:
        answer = json.dumps((await gateway.ask("GET", path))[1])
        assert key not in answer
        assert gateway.key not in answer


async def test_what_is_wrong_with_a_key_is_said(gateway: OperatedGateway) -> None:
    create_key(gateway.keys, "ada")
    path = f"/operate/keys/{extract_identity(gateway.key)}"
    for method, where, body, status, part in (
        ("POST", "/operate/keys", {}, 400, "name"),
        ("POST", "/operate/keys", {"name": "a\nb"}, 400, "visible"),
        ("POST", "/operate/keys", {"name": "ada"}, 400, "already exists"),
        ("POST", "/operate/keys", {"name": "x", "cents_per_day": -1}, 400, "cents_per_day"),
        ("POST", "/operate/keys", {"name": "x", "expires": "soon"}, 400, "soon"),
        ("POST", "/operate/keys", {"name": "x", "expires": "2020-01-01"}, 400, "past"),
        ("POST", "/operate/keys", {"name": "x", "operator": True}, 400, "operator"),
        ("POST", "/operate/keys", [], 400, ""),
        ("PATCH", path, {}, 400, "cents_per_day"),
        ("PATCH", path, {"models": ["x" * 301]}, 400, "300 characters"),
        ("PATCH", path, {"digest": "0" * 64}, 400, "digest"),
        ("PATCH", path, {"revoked": None}, 400, "revoked"),
        ("PATCH", path, {"requests_per_minute": 0}, 400, "requests_per_minute"),
        ("PATCH", path, {"tokens_per_minute": 2**70}, 400, "tokens_per_minute"),
        ("PATCH", "/operate/keys/root", {"cents_per_day": 1}, 404, "root"),
        ("POST", "/operate/keys/nonsense/revoke", {}, 404, "nonsense"),
    ):
        got, answer = await gateway.ask(method, where, body)
        assert got == status, (method, where, body, answer)
        assert part in answer["error"]["message"]
    for query in ("days=0", "days=93", "days=x", "days=-1", "days=٣"):
        assert (await gateway.ask("GET", f"/operate/spending?{query}"))[0] == 400
    assert len((await gateway.ask("GET", "/operate/keys"))[1]["data"]) == 2


@pytest.mark.slow
async def test_no_route_makes_a_file_of_keys_that_cannot_be_read(
    gateway: OperatedGateway, simulator: Simulator
) -> None:
    """Otherwise one request would lock out all clients and the operator."""
    file = gateway.keys / "keys.toml"
    file.write_bytes(file.read_bytes() + b"#" * (MOST_BYTES - file.stat().st_size - 50))
    path = f"/operate/keys/{extract_identity(gateway.key)}"
    for method, where, body in (
        ("POST", "/operate/keys", {"name": "ada"}),
        ("PATCH", path, {"models": ["x" * 100]}),
    ):
        status, answer = await gateway.ask(method, where, body)
        assert status >= 400
        assert "bytes" in answer["error"]["message"]
    _, listed = await gateway.ask("GET", "/operate/keys")
    assert [(each["name"], each["models"]) for each in listed["data"]] == [("root", [])]
    simulator.enqueue(Say("The North Sea."))
    assert (await gateway.converse(gateway.key))[0] == 200


async def test_many_keys_and_days_are_summed_in_a_thread(
    gateway: OperatedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other requests are answered at the same time."""
    threads = []
    for name in ("compose_spending", "sum_by_key"):
        original = getattr(routes, name)

        def record(*arguments: Any, original: Any = original) -> Any:
            threads.append(threading.current_thread())
            return original(*arguments)

        monkeypatch.setattr(routes, name, record)
    for path in ("/operate/spending", "/operate/keys"):
        assert (await gateway.ask("GET", path))[0] == 200
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_spending_is_summed_by_key_model_and_day(
    gateway: OperatedGateway, simulator: Simulator
) -> None:
    keys = [create_key(gateway.keys, name) for name in ("ada", "bob")]
    for key, count in zip(keys, (3, 1), strict=True):
        for _ in range(count):
            simulator.enqueue(Say("The North Sea."))
            assert (await gateway.converse(key))[0] == 200
    _, spending = await gateway.ask("GET", "/operate/spending?days=7")
    assert len(spending["days"]) == len(spending["total"]["days"]) == 7
    assert [each["name"] for each in spending["keys"]] == ["ada", "bob"]
    assert [each["requests"] for each in spending["keys"]] == [3, 1]
    assert [each["name"] for each in spending["models"]] == [MODEL]
    total = Decimal(spending["total"]["cents"])
    assert total == sum(Decimal(each["cents"]) for each in spending["keys"]) > 0
    assert Decimal(spending["total"]["days"][-1]) == total
    only = extract_identity(keys[1])
    _, own = await gateway.ask("GET", f"/operate/spending?key={only}")
    assert [each["id"] for each in own["keys"]] == [only]
    assert len(own["days"]) == 30


async def test_secrets_and_long_texts_do_not_reach_the_answers(
    gateway: OperatedGateway, simulator: Simulator
) -> None:
    """A client may send a key as a model, and names of any length."""
    client = create_key(gateway.keys, "ada")
    for model in (client, f"openai_conversations:{client}", "x" * 290 + client, "y" * 100_000):
        await gateway.converse(client, model)
    simulator.enqueue(Say("The North Sea."))
    assert (await gateway.converse(client, f"openai_conversations:sea/{client}"))[0] == 200
    contents = {"contents": [{"parts": [{"text": "A sea?"}]}]}
    await gateway.ask("POST", f"/v1beta/models/{client}:generateContent", contents, key=client)
    for path in (*PATHS, "/operate/spending"):
        answer = json.dumps((await gateway.ask("GET", path))[1])
        assert client[-20:] not in answer, path
        assert "y" * 400 not in answer
        assert "sk-upstream" not in answer


SETTINGS = """
[checks]
# A key has to exist, and a name to be free, which is more than what is described.
positive_data_acceptance.enabled = false
"""


@pytest.mark.schemathesis
@pytest.mark.slow
async def test_what_is_answered_is_as_described(tmp_path: Path, simulator: Simulator) -> None:
    records: list[CallRecord] = []
    async with operate(
        tmp_path, simulator.url, tables=TABLES, listeners=[records.append]
    ) as gateway:
        simulator.enqueue(Say("The North Sea."))
        await gateway.converse(gateway.key, "quick")
        _, told = await gateway.ask("GET", "/openapi.json")
        told["paths"] = {
            path: item for path, item in told["paths"].items() if path.startswith("/operate")
        }
        assert len(told["paths"]) == 7
        for path, item in told["paths"].items():
            for operation in item.values():
                assert operation["security"]
                for parameter in operation.get("parameters", ()):
                    if parameter["in"] == "path":
                        one = extract_identity(create_key(gateway.keys, path))
                        parameter["schema"]["enum"] = [one, "none"]
        records.clear()
        (tmp_path / "told.json").write_text(json.dumps(told), encoding="utf-8")
        (tmp_path / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", "told.json", "--url", gateway.url),
            *("-H", f"Authorization: Bearer {gateway.key}"),
            *("--seed", "1", "--phases", "coverage,fuzzing"),
            *("--max-examples", "25", "--no-color", "--warnings", "off"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    text = re.sub(r"\n\n+", "\n", said.decode("utf-8", "replace"))
    assert process.returncode == 0, text[-6000:]
    answered = {(each.method, each.route) for each in records if each.status < 300}
    described = {(method.upper(), path) for path, item in told["paths"].items() for method in item}
    assert described - answered == set()


@pytest.mark.slow
async def test_the_description_is_valid_and_each_field_is_described(
    gateway: OperatedGateway, simulator: Simulator
) -> None:
    simulator.enqueue(Say("The North Sea."))
    await gateway.converse(gateway.key)
    _, told = await gateway.ask("GET", "/openapi.json")
    openapi_spec_validator.validate(told, cls=openapi_spec_validator.OpenAPIV31SpecValidator)
    for path in (*PATHS, "/operate/spending"):
        _, answer = await gateway.ask("GET", path)
        content: Any = told["paths"][path]["get"]["responses"]["200"]["content"]
        name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        schema = told["components"]["schemas"][name]
        Draft202012Validator(schema).validate(answer)
        assert {*schema["properties"]} == {*answer}, path
