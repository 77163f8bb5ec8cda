"""A message of a server that has too much of something is cut before objects are made of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.quality.working import LINEAR, measure
from vibe_llms.invocables.mcp.cutting import ENTRIES_LIMIT, cut_lines, cut_message
from vibe_llms.invocables.mcp.results import normalize_result
from vibe_llms.invocables.outcomes import CONTENTS_LIMIT

TEXT = {"type": "text", "text": "x"}


def write(**result: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 7, "result": result})


def read(data: bytes) -> dict[str, Any]:
    message = msgspec.json.decode(data)
    assert (message["jsonrpc"], message["id"]) == ("2.0", 7)
    result: dict[str, Any] = message["result"]
    return result


@pytest.mark.parametrize(
    ("name", "entry", "last"),
    [
        ("content", TEXT, {"type": "text", "text": "[199001 more contents left out]"}),
        (
            "contents",
            {"uri": "file:///a", "text": "x"},
            {"uri": "file:///a", "text": "[199001 more contents left out]"},
        ),
        (
            "messages",
            {"role": "user", "content": TEXT},
            {
                "role": "user",
                "content": {"type": "text", "text": "[199001 more messages left out]"},
            },
        ),
    ],
)
def test_what_is_left_out_of_a_result_is_told(name: str, entry: Any, last: Any) -> None:
    """In the place of the last that is kept; what else there is stays."""
    result = read(cut_message(write(**{name: [entry] * 200_000, "isError": True})))

    assert result == {name: [*[entry] * (CONTENTS_LIMIT - 1), last], "isError": True}


@pytest.mark.parametrize("name", ["tools", "prompts", "resources", "resourceTemplates"])
def test_lists_are_cut(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """And the log says so."""
    entries = [{"name": f"n{number}"} for number in range(ENTRIES_LIMIT + 5)]

    result = read(cut_message(write(**{name: entries, "nextCursor": "c"})))

    assert result == {name: entries[:ENTRIES_LIMIT], "nextCursor": "c"}
    assert f"5 more of the list {name}" in caplog.text


@pytest.mark.parametrize(
    "data",
    [
        write(content=[TEXT] * CONTENTS_LIMIT, more="x" * 200_000),
        write(content="x" * 200_000),
        write(content=[{"type": "text", "text": "[1,2,3]" * 50_000}]),
        b"x" * 200_000,
        b'{"jsonrpc":"2.0","method":"m","params":{"content":"' + b"x" * 200_000 + b'"}}',
        b'{"result":[' + b"1," * 100_000 + b"1]}",
    ],
    ids=["as many as may be", "a text", "one long text", "no JSON", "a request", "a list"],
)
def test_anything_else_stays_as_it_was(data: bytes) -> None:
    """Byte for byte: whoever reads it says what is wrong with it."""
    assert cut_message(data) == data


def test_events_and_bodies_are_cut_alike() -> None:
    """As the two transports have them: lines of an event, or a body that is one."""
    message = write(content=[TEXT] * 200_000)

    (name, event), body = (
        cut_lines(b"event: message\ndata: " + message + b"\n\n").split(b"\n")[:2],
        cut_lines(message),
    )

    assert name == b"event: message"
    assert read(event.removeprefix(b"data:")) == read(body) == read(cut_message(message))


@pytest.mark.slow
def test_the_work_with_a_result_does_not_grow_with_its_contents() -> None:
    """Of reading it with the official package, and of making an outcome of it."""
    from mcp_types import CallToolResult, jsonrpc_message_adapter

    def receive(count: int) -> tuple[int, int]:
        data = write(content=[TEXT] * count)

        def work() -> None:
            message: Any = jsonrpc_message_adapter.validate_json(cut_message(data))
            normalize_result(CallToolResult.model_validate(message.result))

        return measure(work)

    receive(6_000)
    few, many = receive(6_000), receive(60_000)

    assert many[0] <= 1.01 * few[0] + 100
    assert many[1] - few[1] <= LINEAR * 54_000 * 60  # of skimming: no object of each content
