"""Requests to a server of tools that make no sense, or nearly, in the words of both eras."""

from __future__ import annotations

import asyncio
import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.daemons.tool_servers import PLUGINS, produce_application, serve_tools
from support.quality.properties import examples

CONFIGURATION = '[ensembles.conformance]\nmodule = "conformance_ensemble"\n'
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("server/discover", {}),
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}),
    ("ping", {}),
    ("tools/list", {"cursor": "test_simple_text"}),
    ("tools/call", {"name": "test_simple_text", "arguments": {}}),
    ("tools/call", {"name": "test_elicitation", "arguments": {"message": "Who?"}}),
    (
        "tools/call",
        {
            "name": "test_input_required_result_elicitation",
            "inputResponses": {"user_name": {"action": "accept", "content": {"name": "Ada"}}},
            "requestState": "v1.AAAA",
        },
    ),
    ("resources/list", {}),
    ("resources/templates/list", {"cursor": "x"}),
    ("resources/read", {"uri": "test://template/1/data"}),
    ("resources/subscribe", {"uri": "test://watched-resource"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a"}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "p"},
            "context": {"arguments": {"arg2": "b"}},
        },
    ),
    ("logging/setLevel", {"level": "info"}),
    ("notifications/cancelled", {"requestId": 1}),
    ("notifications/progress", {"progressToken": 1, "progress": 1}),
    ("tasks/get", {"taskId": "1"}),
    ("no/such", {}),
)
ODD = st.sampled_from(
    [
        *(None, True, -1, 0, 2**70, 1e308, "", "x" * 5_000, "\ud800", "\x00", "..", "é", "💥"),
        *([], {}, [[]], {"": None}, [None] * 50, {"name": {}}, {"$ref": "#"}, "waiting:x"),
        *({"a": {"b": {"c": {"d": []}}}}, "test_simple_text", "test://{+x}", "v1.AAAA", "AAAA"),
    ]
)


@st.composite
def compose_messages(draw: st.DrawFn) -> Any:
    """Makes a message that was right until one or two places in it were changed."""
    method, params = copy.deepcopy(draw(st.sampled_from(REQUESTS)))
    if draw(st.booleans()):
        params["_meta"] = copy.deepcopy(META)
    message: Any = {"jsonrpc": "2.0", "id": draw(st.sampled_from([1, "a", 0])), "method": method}
    message["params"] = params
    for _ in range(draw(st.integers(0, 2))):
        spoil(draw, message)
    return draw(st.sampled_from([message, message, message, [message], [message, message]]))


def spoil(draw: st.DrawFn, message: dict[str, Any]) -> None:
    """Changes one place."""
    place: Any = message
    while True:
        key = draw(st.sampled_from(sorted(place)))
        if isinstance(place[key], dict) and place[key] and draw(st.integers(0, 3)):
            place = place[key]
            continue
        break
    match draw(st.integers(0, 2)):
        case 0:
            del place[key]
        case 1:
            place[draw(st.sampled_from(["extra", "_meta", "task", "cursor", "name"]))] = (
                copy.deepcopy(draw(ODD))
            )
        case _:
            place[key] = copy.deepcopy(draw(ODD))
    if not place:
        place["left"] = copy.deepcopy(draw(ODD))


BODIES = st.one_of(
    compose_messages().map(lambda message: json.dumps(message).encode()),
    st.tuples(compose_messages(), st.integers(0, 60)).map(
        lambda drawn: json.dumps(drawn[0]).encode()[: drawn[1]]
    ),
    st.binary(max_size=40),
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "mcp-protocol-version": st.sampled_from(
            ["2026-07-28", "2026-07-28", "2025-11-25", "1900-01-01", "", "x" * 300]
        ),
        "mcp-method": st.sampled_from(["tools/call", "ping", "", "=?base64?AAA?="]),
        "mcp-name": st.sampled_from(["test_simple_text", "", "=?base64?!?="]),
        "mcp-session-id": st.sampled_from(["x", "", "0" * 32]),
        "accept": st.sampled_from(["", "text/html", "application/json", "*/*"]),
        "content-type": st.sampled_from(["application/json", "text/plain", "", 'a;b="c']),
    },
)


def is_clear(status: int, text: str, folder: Path) -> bool:
    """Tells whether an answer says what is wrong, and nothing of what is inside."""
    inside = (
        "Traceback",
        "site-packages",
        ".py",
        "pydantic",
        "alidation",
        str(folder),
        "went wrong",
    )
    return status in {200, 202, 400, 404, 405, 406, 413, 415} and not any(
        each in text for each in inside
    )


@pytest.fixture(autouse=True, scope="module")
def plugins() -> Iterator[None]:
    """Lets the plugin be found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        yield


@pytest.mark.slow
@given(st.lists(st.tuples(BODIES, HEADERS), max_size=25))
@examples(20)
async def test_whatever_is_posted_gets_a_clear_answer(
    posted: list[tuple[bytes, dict[str, str]]],
) -> None:
    """Nothing internal is told, nothing is left behind, and what makes sense is answered after."""
    with tempfile.TemporaryDirectory() as folder:
        await judge(Path(folder), posted)


async def judge(folder: Path, posted: list[tuple[bytes, dict[str, str]]]) -> None:
    """Posts all of it."""
    application = produce_application(folder, CONFIGURATION)
    async with (
        serve_tools(application, ensembles=("conformance",), allowed=("all",)) as address,
        httpx2.AsyncClient(timeout=60) as client,
    ):

        async def post(body: bytes, headers: dict[str, str]) -> httpx2.Response:
            usual = {
                "accept": "application/json, text/event-stream",
                "content-type": "application/json",
            }
            return await client.post(address, content=body, headers=usual | headers)

        before = await count_tasks(post)
        for body, headers in posted:
            answer = await post(body, headers)
            assert is_clear(answer.status_code, answer.text, folder), (body, headers, answer.text)
            if answer.headers.get("content-type") == "application/json":
                assert isinstance(answer.json(), dict | list)
        assert await count_tasks(post) <= before + len(BOUNDED)


BOUNDED = range(40)
"""Sessions that were begun, and calls that wait for their clients, have tasks of their own."""


async def count_tasks(post: Any) -> int:
    """Has what makes sense answered, and says how many tasks there are then."""
    params = {"name": "test_simple_text", "arguments": {}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    head = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
    head["mcp-name"] = "test_simple_text"
    answer = await post(json.dumps(message).encode(), head)
    assert "This is a simple text response" in answer.text, answer.text
    return len(asyncio.all_tasks())
