"""The description of the agents daemon: valid, whole, and true of what is answered."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import openapi_spec_validator
import pytest
from jsonschema import Draft202012Validator

from support.daemons.run_daemons import Daemon, serving
from support.flows.flow_tasks import compose_task
from support.runs.acting import invoke, say
from vibe_llms.conversations import Conversation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.contents import FileContent

DONE = [say("Done.")]
SETTINGS = """
[checks]
# What an order names has to be there, which is more than what is described.
positive_data_acceptance.enabled = false
# 412: a note has another version than any that is made up.
negative_data_rejection.expected-statuses = [
  400, 401, 403, 404, 405, 406, 409, 412, 415, 422, 428, 429, "5xx"
]
[[operations]]
# It would leave away that the stream shall end.
include-path-regex = "/events$"
phases.coverage.enabled = false
checks.negative_data_rejection.enabled = false
[[operations]]
# Fields of the protocol that are free, and a model that a thread at rest does not need.
include-path-regex = "^/(ag-ui|ai-sdk|a2a|.well-known/agent-card.json)$"
checks.negative_data_rejection.enabled = false
[[operations]]
include-path-regex = "^/ai-sdk/.*/stream$"
checks.status_code_conformance.enabled = false  # 204: there is no answer to follow
"""


def pay() -> str:
    """Pays."""
    return "paid"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@pytest.mark.slow
async def test_it_is_valid_and_has_every_route(tmp_path: Path) -> None:
    async with serving(tmp_path, memory=True) as daemon:
        _, told = await daemon.ask("GET", "/openapi.json")
    openapi_spec_validator.validate(told, cls=openapi_spec_validator.OpenAPIV31SpecValidator)
    described = {(method, path) for path, item in told["paths"].items() for method in item}
    shown = [each for each in daemon.service.routes if not each.pattern.startswith("/page")]
    patterns = {(each.method.lower(), each.pattern.replace(":path", "")) for each in shown}
    assert described == patterns
    for path, item in told["paths"].items():
        for method, operation in item.items():
            assert operation["summary"].endswith("."), (method, path)


async def test_what_is_answered_is_described(tmp_path: Path) -> None:
    """Each field of a run and of what waits; and the headers that a client may send."""
    async with serving(tmp_path, PAY, memory=True) as daemon:
        _, told = await daemon.ask("GET", "/openapi.json")
        await daemon.ask("PUT", "/notes/a.md", {"text": "x"}, If_None_Match="*")
        run_id = await daemon.start([invoke("pay")], DONE)
        await daemon.premises.wait(run_id, "waiting")
        answered = {
            path: (await daemon.ask("GET", path.replace("{id}", run_id)))[1]
            for path in (
                *("/runs", "/runs/{id}", "/runs/{id}/approvals", "/skills"),
                *("/conversations", "/conversations/{id}", "/conversations/{id}/family"),
            )
        }

    def find_schema(path: str) -> dict[str, Any]:
        content = told["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
        name = content["schema"]["$ref"].rpartition("/")[2]
        schema: dict[str, Any] = told["components"]["schemas"][name]
        return schema

    for path, answer in answered.items():
        schema = find_schema(path)
        Draft202012Validator(schema).validate(answer)
        assert {*schema["properties"]} == {*answer}, path
    assert {*find_schema("/runs/{id}")["properties"]} == {*answered["/runs"]["data"][0]}

    def list_headers(method: str, path: str) -> list[str]:
        parameters = told["paths"][path][method].get("parameters", [])
        return [each["name"] for each in parameters if each["in"] == "header"]

    assert list_headers("put", "/notes/{path}") == ["If-Match", "If-None-Match"]
    assert list_headers("post", "/runs") == ["Idempotency-Key"]
    assert list_headers("get", "/runs/{id}/events") == ["Last-Event-ID"]


async def fill(daemon: Daemon) -> dict[tuple[str, str], dict[str, str]]:
    """Has a run and a conversation for each operation by itself, as some of them remove it."""
    there, folder = {}, daemon.premises.folder
    scripts: list[str] = []
    for method, path in (
        *(("get", each) for each in ("", "/events", "/approvals", "/flow")),
        *(("post", each) for each in ("/approvals", "/messages", "/stop", "/detach")),
        *(("post", each) for each in ("/resume", "/fork")),
        ("delete", ""),
    ):
        if path == "/flow":
            task = compose_task("START --> P0 --> END", "Hello")
            _, run = await daemon.ask("POST", "/runs", {"task": task})
            run_id = run["id"]
        else:
            turns = [[invoke("pay")], DONE] if path == "/approvals" else [DONE]
            daemon.premises.folder = folder / f"{method}-{path[1:]}"  # of its script
            daemon.premises.folder.mkdir()
            scripts.append(f"scripted:{daemon.premises.folder / 'script.toml'}")
            daemon.premises.runs.application.restrict(scripts)  # as of an operator who named them
            run_id = await daemon.start(*turns)
        there[method, "/runs/{id}" + path] = {"id": run_id}
        state = "waiting" if path == "/approvals" else "ended"
        await daemon.premises.wait(run_id, state)
    for method, path in (
        ("get", ""),
        ("patch", ""),
        ("delete", ""),
        ("post", "/fork"),
        ("get", "/export"),
        ("get", "/contents/{content}"),
        ("get", "/family"),
        ("get", "/difference"),
    ):
        conversation = Conversation()
        said = FileContent(data=b"x", mime_type="text/plain", name="x.txt")
        conversation.add_user_message(said)
        conversation.save(daemon.premises.store)
        names = {"id": conversation.id, "content": str(said.content_id), "other": conversation.id}
        there[method, "/conversations/{id}" + path] = names
    for method in ("get", "put", "delete"):
        headers = {"If_None_Match": "*"}
        path = f"tags/t/{method}.md"
        await daemon.ask("PUT", f"/notes/{path}", {"text": "x"}, **headers)
        there[method, "/notes/{path}"] = {"path": path, "If-Match": "*"}
    return there


async def narrow(daemon: Daemon, told: Any) -> None:
    """Lets made-up requests name what is there, too."""
    there = await fill(daemon)
    spec = daemon.premises.spec(DONE).export()
    schema = told["paths"]["/runs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schema["properties"]["model"]["enum"] = [spec["model"], "no:model"]
    schema["properties"]["conversation"]["enum"] = [""]  # a new one
    for name in ("controls", "schema", "skills"):  # of which few are valid
        schema["properties"].pop(name, None)
    schemas = told["components"]["schemas"]
    for name, said in (
        ("RunAgentInput", {"content": "Hello"}),
        ("ChatRequest", {"parts": [{"type": "text", "text": "Hello"}]}),
    ):
        messages = schemas[name]["properties"]["messages"]
        messages["enum"] = [[{"id": "1", "role": "user", **said}]]
    path = "/runs/{id}/approvals"
    _, waiting = await daemon.ask("GET", path.format(**there["post", path]))
    answer = told["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    answer["properties"]["digest"]["enum"] = [waiting["data"][0]["request"]["digest"]]
    for name in ("key", "arguments"):  # of which few go with the rest
        del answer["properties"][name]
    for path, item in told["paths"].items():
        for method, operation in item.items():
            for parameter in operation.get("parameters", ()):
                found = there.get((method, path), {}).get(parameter["name"])
                if found and path.startswith("/notes"):  # other notes can be made up, too
                    parameter["example"] = found
                elif found:
                    parameter["schema"]["enum"] = [found, "none"]
                if parameter["name"] == "model" and method == "post":  # of a run
                    parameter["required"], parameter["schema"] = True, {"enum": [spec["model"]]}
                if parameter["name"] == "follow":  # else a stream goes on
                    parameter["required"], parameter["schema"] = True, {"enum": ["false"]}


@pytest.mark.schemathesis
@pytest.mark.slow
async def test_what_is_answered_is_as_described(tmp_path: Path) -> None:
    """By strangers who make up requests of the description."""
    records: list[CallRecord] = []
    async with serving(
        tmp_path, PAY, seconds=900, memory=True, listeners=[records.append]
    ) as daemon:
        _, told = await daemon.ask("GET", "/openapi.json")
        await narrow(daemon, told)
        records.clear()
        (tmp_path / "told.json").write_text(json.dumps(told), encoding="utf-8")
        (tmp_path / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", "told.json", "--url", daemon.url),
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
    routes = {(each.method, each.pattern) for each in daemon.service.routes}
    described = {each for each in routes if not each[1].startswith("/page")}  # that are files
    assert described - answered == set()
