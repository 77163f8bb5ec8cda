"""Cost of writing an answer piece by piece, in each protocol of clients.

The events of an answer in many deltas, as they leave the assembler, go through the writer of each
dialect that has one. The comparison encodes each chunk from a dictionary as JSON. CPU time of this
process; the best of several runs.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.messages.canisters import StopReason, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.assembly import Assembler

DIALECTS = ("chat_completions", "responses", "messages", "generate_content", "ollama_chat")
DELTAS = 20_000
REPETITIONS = 5
LIMIT_MICROSECONDS = 2.0
"""For a delta of text, which is what comes in thousands."""


def compose_events(kind: Any, channel: Any, piece: str, deltas: int) -> list[StreamEvent]:
    """Returns the events of an answer of one content, as they leave the assembler."""
    named = {"invocation_id": "call_1", "name": "weather"} if kind == "invocation" else {}
    pieces = [ContentDeltaEvent(0, piece, channel) for _ in range(deltas)]
    if kind == "invocation":  # whose arguments are an object in the end
        pieces = [ContentDeltaEvent(0, '{"text":"', channel), *pieces]
        pieces.append(ContentDeltaEvent(0, '"}', channel))
    events = [
        ResponseStartedEvent(response_id="answer-1", model="a-model"),
        ContentStartedEvent(index=0, kind=kind, **named),
        *pieces,
        ContentFinishedEvent(index=0),
    ]
    assembler = Assembler(provider="vendor", model="a-model", protocol="another")
    completed = [assembler.feed(event) for event in events]
    ending = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)
    assembler.feed(ending)
    request = Request(canisters=[UserCanister("?")])
    response = assembler.produce_response(request, duration_seconds=1, first_seconds=None)
    stop = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED, response=response)
    return [*completed, stop]


def measure(run: Callable[[], None]) -> float:
    """Returns the CPU seconds of the best of several runs."""
    gc.collect()
    gc.freeze()  # exclude the prepared objects from garbage collection
    seconds = []
    for _ in range(REPETITIONS):
        begun = time.process_time()
        run()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def write_all(writer_class: Any, events: list[StreamEvent], times: int = 1) -> Callable[[], None]:
    """Returns what writes all events of an answer, by a new writer each time."""

    def run() -> None:
        for _ in range(times):
            write = writer_class({"stream": True}, model="a-model").write
            for event in events:
                write(event)

    return run


def write_usually(encode: Callable[[Any], object]) -> float:
    """Returns the microseconds of a chunk that is made as a dictionary each time."""

    def run() -> None:
        for _ in range(DELTAS):
            choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
            head = {"id": "answer-1", "object": "chat.completion.chunk", "model": "a-model"}
            encode({**head, "created": 1, "choices": [choice]})

    return measure(run) / DELTAS * 1e6


def main() -> int:
    """Prints the table; returns how many dialects take too long."""
    text = compose_events("text", "text", "word ", DELTAS)
    thought = compose_events("reasoning", "text", "word ", DELTAS)
    call = compose_events("invocation", "arguments", "word ", DELTAS)
    small = compose_events("text", "text", "word ", 20)
    print(f"{'µs':<18}{'text':>8}{'thought':>9}{'call':>8}{'answer of 20':>14}")
    slow = 0
    for name in DIALECTS:
        dialect = importlib.import_module(f"vibe_llms.dialects.{name}")
        if "StreamWriter" not in dialect.__all__:
            continue
        figures = [
            measure(write_all(dialect.StreamWriter, events)) / DELTAS * 1e6
            for events in (text, thought, call)
        ]
        whole = measure(write_all(dialect.StreamWriter, small, 200)) / 200 * 1e6
        print(f"{name:<18}{figures[0]:>8.2f}{figures[1]:>9.2f}{figures[2]:>8.2f}{whole:>14.0f}")
        slow += figures[0] > LIMIT_MICROSECONDS
    usual = write_usually(msgspec.json.encode), write_usually(json.dumps)
    print(f"a dictionary each: {usual[0]:.2f} by msgspec, {usual[1]:.2f} by json")
    return slow


if __name__ == "__main__":
    sys.exit(main())
