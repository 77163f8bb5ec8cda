"""The gateway's OpenAPI description: valid, whole, and true of what is answered."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import openapi_spec_validator
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from support.gateways.gateways import produce_application, serve
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.openapi import describe
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import Service
from vibe_llms.plugins.specification.daemons import Arrival, Grant

_NOWHERE = "http://127.0.0.1:9"


async def _fetch(address: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"{address}/openapi.json") as got:
        assert got.status == 200
        assert got.content_type == "application/json"
        return await got.json()


def _describe(service: Service) -> Any:
    return msgspec.json.decode(msgspec.json.encode(describe(service.routes, "a gateway")))


def _validate(told: Any) -> None:
    openapi_spec_validator.validate(told, cls=openapi_spec_validator.OpenAPIV31SpecValidator)


def _list_operations(told: Any) -> set[tuple[str, str]]:
    return {(method, path) for path, item in told["paths"].items() for method in item}


async def test_description_is_valid_and_has_every_route(tmp_path: Path) -> None:
    service = produce_service(produce_application(tmp_path, _NOWHERE))
    async with serve(service) as address:
        told = await _fetch(address)
    _validate(told)
    known = {(each.method.lower(), each.pattern.replace(":path}", "}")) for each in service.routes}
    assert _list_operations(told) == known
    assert len(known) > 30
    names = [each["operationId"] for item in told["paths"].values() for each in item.values()]
    assert len(set(names)) == len(names)


def test_every_route_of_the_gateway_says_what_it_is_for(tmp_path: Path) -> None:
    told = _describe(produce_service(produce_application(tmp_path, _NOWHERE)))
    for path, item in told["paths"].items():
        for method, operation in item.items():
            assert operation["tags"], (method, path)
            assert operation["summary"].endswith("."), (method, path)


def test_what_a_table_lets_be_carried_is_described_too(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    paths = 'passthrough = ["/v1/embeddings", "/v1/files/{rest:path}"]'
    file.write_text(f'[models.small]\ntargets = [{{model = "openai_conversations:x"}}]\n{paths}\n')
    application = produce_application(tmp_path, _NOWHERE)
    told = _describe(produce_service(application, file=file))
    _validate(told)
    for path in ("/v1/embeddings", "/v1/files/{rest}"):
        assert {("get", path), ("post", path), ("delete", path)} <= _list_operations(told)


class _Nobody:
    async def authorize(self, arrival: Arrival) -> Grant:
        raise NotImplementedError

    async def close(self) -> None: ...


def test_keys_are_asked_for_where_somebody_asks_for_them(tmp_path: Path) -> None:
    application = produce_application(tmp_path, _NOWHERE)
    open_one = _describe(produce_service(application))
    guarded = _describe(produce_service(application, authorizer=_Nobody()))
    _validate(guarded)
    asked = guarded["paths"]["/v1/messages"]["post"]["security"]
    assert [name for each in asked for name in each] == ["bearer", "x-api-key", "x-goog-api-key"]
    assert "security" not in open_one["paths"]["/v1/messages"]["post"]
    assert "security" not in guarded["paths"]["/healthz"]["get"]


_ECHO = "scripted:echo"
_COMPACTING = _MODERATING = "openai_responses:x"
_EMBEDDING = "scripted:words"
_MODELS = {
    "CohereEmbeddingRequest": _EMBEDDING,
    "EmbeddingRequest": _EMBEDDING,
    "OllamaEmbeddingRequest": _EMBEDDING,
    "ModerationRequest": _MODERATING,
    "RankingRequest": _EMBEDDING,
    "IllustrationRequest": "scripted:squares",
    "EditRequest": "scripted:squares",
    "SpeechRequest": "scripted:tones",
    "TranscriptionRequest": "scripted:notes",
}
"""Models that answer, by the schema of the request; the others are answered by one more."""


_SETTINGS = """
[checks]
# What an upstream refuses is more than what is described.
positive_data_acceptance.enabled = false
[[operations]]
# GET asks for the model of that name, whose provider is what stands before the colon.
include-path-regex = ':(countTokens|\\w*[eE]mbedContents?|\\w*[gG]enerateContent)$'
checks.allow_header_conformance.enabled = false
"""
"""All other checks that there are hold."""


_DEPLOYED = {
    "embeddings": _EMBEDDING,
    "images/generations": "scripted:squares",
    "images/edits": "scripted:squares",
    "audio/speech": "scripted:tones",
    "audio/transcriptions": "scripted:notes",
    "audio/translations": "scripted:notes",
}
"""Models that answer where Azure's clients name one in the path, by the end of the path."""


def _free_model(told: Any, body: Any) -> Any:
    """Returns the schema of a body, in which any text may be the model."""
    [content] = body["content"].values()
    name = content["schema"]["$ref"].rpartition("/")[2]
    schema = told["components"]["schemas"][name]
    return {**schema, "properties": {**schema["properties"], "model": {"type": "string"}}}


def _narrow(told: Any, there: dict[tuple[str, str], dict[str, str]]) -> None:
    """Lets made-up requests name models, responses and conversations that are here, too.

    Args:
        there: By operation: what its paths name.
    """
    for title, schema in told["components"]["schemas"].items():
        model = _MODELS.get(title, _ECHO)
        for example in schema.get("examples", ()):
            inner = example.get("request", example)
            inner["model"] = model
        for each in (schema, schema.get("properties", {}).get("request", {})):
            fields = each.get("properties", {})
            if "model" in fields:
                fields["model"]["enum"] = [model, "", "no:model"]
    for path, item in told["paths"].items():
        for method, operation in item.items():
            for parameter in operation.get("parameters", ()):
                name = parameter["name"]
                if name in ("model", "name"):
                    model = _EMBEDDING if "mbed" in path else _ECHO
                    model = _DEPLOYED.get(path.partition("{model}/")[2], model)
                    parameter["schema"]["enum"] = [model, "no:model"]
                elif found := there.get((method, path), {}).get(name):
                    parameter["schema"]["enum"] = [found, "none"]
    # The path of a deployment says which model is meant, and its body may say anything.
    for rest in ("chat/completions", "completions", *_DEPLOYED):
        azure = told["paths"][f"/openai/deployments/{{model}}/{rest}"]["post"]["requestBody"]
        [content] = azure["content"].values()
        content["schema"] = _free_model(told, azure)
    batch = told["components"]["schemas"]["BatchRequest"]["properties"]
    batch["input_file_id"]["enum"] = [there["post", "/v1/batches"]["input_file_id"], "none"]
    batch["endpoint"]["enum"] = ["/v1/chat/completions"]
    body = told["paths"]["/v1/responses/compact"]["post"]["requestBody"]["content"]
    body["application/json"]["schema"] = {
        "type": "object",
        "required": ["model"],
        "properties": {"model": {"enum": [_COMPACTING]}},
    }


async def _fill(session: aiohttp.ClientSession) -> dict[tuple[str, str], dict[str, str]]:
    """Has something kept for each operation by itself, as some of them remove it."""

    async def ask(path: str, **body: object) -> str:
        async with session.post(path, json=body) as answer:
            return str((await answer.json())["id"])

    there = {}
    response = "/v1/responses/{id}"
    for method, path in (("get", ""), ("delete", ""), ("post", "/cancel"), ("get", "/input_items")):
        identity = await ask("/v1/responses", model=_ECHO, input="On.", background=bool(path))
        there[method, response + path] = {"id": identity}
    for version in ("v1", "v1beta"):
        stored = f"/{version}/interactions"
        for method, path in (("get", ""), ("delete", ""), ("post", "/cancel")):
            identity = await ask(stored, model="google_interactions:x", input="On.")
            there[method, f"{stored}/{{id}}{path}"] = {"id": identity}
    begun = "/v1/conversations/{id}"
    said = {"type": "message", "role": "user", "content": "Good morning"}
    for path in ("", "/items", "/items/{item}"):
        for method in ("get", "post", "delete"):
            identity = await ask("/v1/conversations", items=[said])
            async with session.get(f"/v1/conversations/{identity}/items") as answer:
                item = (await answer.json())["data"][0]["id"]
            there[method, begun + path] = {"id": identity, "item": item}
    return there | await _fill_batches(session)


async def _fill_batches(session: aiohttp.ClientSession) -> dict[tuple[str, str], dict[str, str]]:
    """Have a file or a batch for each operation; those of Anthropic's have ended."""

    async def upload() -> str:
        question = {"model": _ECHO, "messages": [{"role": "user", "content": "On."}]}
        line = {"custom_id": "1", "url": "/v1/chat/completions", "body": question}
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", json.dumps(line), filename="in.jsonl")
        async with session.post("/v1/files", data=form) as answer:
            return str((await answer.json())["id"])

    async def start(path: str, body: dict[str, object]) -> str:
        async with session.post(path, json=body) as answer:
            return str((await answer.json())["id"])

    there = {("post", "/v1/batches"): {"input_file_id": await upload()}}
    for method, path in (("get", ""), ("delete", ""), ("get", "/content")):
        there[method, "/v1/files/{id}" + path] = {"id": await upload()}
    for method, path in (("get", ""), ("post", "/cancel")):
        body: dict[str, object] = {"endpoint": "/v1/chat/completions"}
        identity = await start("/v1/batches", {**body, "input_file_id": await upload()})
        there[method, "/v1/batches/{id}" + path] = {"id": identity}
    begun, params = "/v1/messages/batches", {"model": _ECHO, "max_tokens": 9}
    request = {
        "custom_id": "1",
        "params": {**params, "messages": [{"role": "user", "content": "On."}]},
    }
    for method, path in (("get", ""), ("delete", ""), ("post", "/cancel"), ("get", "/results")):
        identity = await start(begun, {"requests": [request]})
        there[method, begun + "/{id}" + path] = {"id": identity}
        async with asyncio.timeout(60):
            while True:
                async with session.get(f"{begun}/{identity}") as answer:
                    if (await answer.json())["processing_status"] == "ended":
                        break
                await asyncio.sleep(0.02)
    return there


async def _compact(request: web.Request) -> web.Response:
    return web.json_response({"id": "resp_1", "object": "response.compaction", "output": []})


async def _interact(request: web.Request) -> web.Response:
    identity = request.match_info.get("id") or f"interaction-{uuid.uuid4().hex}"
    return web.json_response({"id": identity, "object": "interaction", "status": "completed"})


async def _moderate(request: web.Request) -> web.Response:
    asked = (await request.json()).get("input")
    texts = asked if isinstance(asked, list) and asked else [asked]
    if not all(isinstance(text, str) and text for text in texts):
        return web.json_response(
            {"error": {"message": "input is invalid", "type": "invalid"}}, status=400
        )
    return web.json_response({"id": "modr_1", "model": "x", "results": []})


@pytest.mark.schemathesis
@pytest.mark.slow
async def test_what_is_answered_is_as_described(tmp_path: Path) -> None:
    vendor = web.Application()
    vendor.router.add_post("/v1/responses/compact", _compact)
    vendor.router.add_post("/v1/moderations", _moderate)
    for path in ("", "/{id}", "/{id}/cancel"):
        vendor.router.add_route("*", f"/v1beta/interactions{path}", _interact)
    records: list[CallRecord] = []
    async with TestServer(vendor) as upstream:
        application = produce_application(tmp_path, str(upstream.make_url("")).rstrip("/"))
        service = produce_service(application, listeners=[records.append])
        async with serve(service) as address:
            told = await _fetch(address)
            async with aiohttp.ClientSession(address) as session:
                _narrow(told, await _fill(session))
            records.clear()
            (tmp_path / "told.json").write_text(json.dumps(told), encoding="utf-8")
            (tmp_path / "schemathesis.toml").write_text(_SETTINGS, encoding="utf-8")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "schemathesis.cli", "run", "told.json", "--url", address),
                *("--seed", "1", "--phases", "examples,coverage,fuzzing", "--max-examples", "5"),
                *("--no-color", "--warnings", "off"),
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await process.communicate()
    text = re.sub(r"\n\n+", "\n", said.decode("utf-8", "replace"))
    assert process.returncode == 0, text[-6000:]
    answered = {(each.method, each.route) for each in records if each.status == 200}
    described = {(each.method, each.pattern) for each in service.routes}
    assert described - answered == set()
