"""The gateway's OpenAPI description: valid, whole, and true of what is answered."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.gateways import produce_application, serve

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.openapi import describe
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import Service
from vibe_llms.plugins.specification.daemons import Arrival, Grant

_NOWHERE = "http://127.0.0.1:9"

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)

_ANSWERED = {
    "/api/chat",
    "/v1/chat/completions",
    "/v1/conversations/{id}",
    "/v1/messages",
    "/v1beta/models/{model:path}:countTokens",
}
"""Where some of what is made up is right, so that more is tried than refusals."""


async def _fetch(address: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"{address}/openapi.json") as got:
        assert got.status == 200
        assert got.content_type == "application/json"
        return await got.json()


def _describe(service: Service) -> Any:
    return msgspec.json.decode(msgspec.json.encode(describe(service.routes, "a gateway")))


def _validate(told: Any) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(told, cls=validator.OpenAPIV31SpecValidator)


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
    carry = 'carry = ["/v1/embeddings", "/v1/files/{rest:path}"]'
    file.write_text(f'[models.small]\ntargets = [{{model = "openai_conversations:x"}}]\n{carry}\n')
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


def _narrow(told: Any) -> None:
    """Lets made-up requests name models that are here, and say what makes sense, more often."""
    for schema in told["components"]["schemas"].values():
        for each in (schema, schema.get("properties", {}).get("request", {})):
            fields = each.get("properties", {})
            if "model" in fields:
                fields["model"]["enum"] = ["scripted:echo", "", "no:model"]
            if "input" in fields:
                fields["input"] = {"type": "string"}
            if "messages" in fields:
                said = {"role": {"enum": ["user"]}, "content": {"type": "string"}}
                fields["messages"]["items"].update(required=list(said), properties=said)
    for item in told["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "model":
                    parameter["schema"]["enum"] = ["scripted:echo", "no:model"]


async def test_what_is_answered_is_as_described(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    environment = {"HOME": str(tmp_path), "VIBE_LLMS_MODEL": "scripted:echo"}
    configuration = load_configuration(environment=environment, working_directory=tmp_path)
    records: list[CallRecord] = []
    service = produce_service(Application(configuration), listeners=[records.append])
    async with serve(service) as address:
        told = await _fetch(address)
        _narrow(told)
        (tmp_path / "told.json").write_text(json.dumps(told), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", "told.json", "--url", address),
            *("--seed", "1", "--phases", "coverage,fuzzing", "--max-examples", "5"),
            *("--checks", ",".join(_CHECKS), "--no-color", "--warnings", "off"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    text = re.sub(r"\n\n+", "\n", said.decode("utf-8", "replace"))
    assert process.returncode == 0, text[-6000:]
    answered = {record.route for record in records if record.status == 200}
    assert answered >= _ANSWERED
