"""What a small answer costs is counted, for that is the same on every machine."""

from __future__ import annotations

import asyncio
import builtins
import gc
import json
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import attrs
import pytest

from support.vendors.hostility import produce_stream
from vibe_llms import Model
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.testing.simulator.scripts import Say

MODULES = {
    "chat_completions": "openai_conversations",
    "messages": "anthropic",
    "responses": "openai_responses",
}
PART = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}
ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
ANSWERS: dict[str, dict[str, Any]] = {
    "chat_completions": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    },
    "messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    },
    "responses": {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [{**ITEM, "content": [PART]}],
        "usage": {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10},
    },
}
AT_MOST = 190
AT_MOST_WITH_REACTORS = 231
"""Calls of functions of Python, asyncio's own among them: about fifty are its."""


AT_MOST_STREAMED = 204
AT_MOST_STREAMED_WITH_REACTORS = 245
"""The same as ``ask`` makes it by default, where the stream is short and comes at once."""


@contextmanager
def serve(body: bytes, kind: str = "application/json") -> Iterator[str]:
    """Serves one answer, over and over, in a thread of its own; gives the address."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}"
    answer = head.encode() + b"\r\n\r\n" + body
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                while connection.recv(65_536):  # a small request comes in one piece
                    connection.sendall(answer)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        thread.join(60)


def count_calls(
    url: str,
    folder: Path,
    module: str,
    reactors: ConversationReactors | None = None,
    *,
    stream: bool = False,
) -> int:
    """Asks a few times, and returns how many functions were called for each of the last answers.

    What comes once in many answers (ids are drawn for many) counts for none of them.
    """
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    watch(count, url, folder, module, reactors, stream=stream, answers=4)
    return calls // 4


def watch(
    count: Callable[[FrameType, str, Any], None],
    url: str,
    folder: Path,
    module: str,
    reactors: ConversationReactors | None = None,
    *,
    stream: bool = False,
    answers: int = 1,
) -> None:
    """Asks a few times, and tells of each call that is made for the last answers."""
    (folder / "config.toml").write_text(
        f'[providers.p]\nmodule = "vibe_llms.providers.{module}"\nbase_url = "{url}"\n'
        'api_key = "x"\n'
    )
    environment = {"VIBE_LLMS_CONFIG": str(folder / "config.toml")}
    application = Application(load_configuration(environment=environment, working_directory=folder))

    async def ask() -> None:
        async with Model("p:m", application=application) as model:
            for _ in range(4):  # what is made once is made
                await model.answer("Hello", reactors=reactors, stream=stream)
            gc.collect()
            gc.disable()  # else others' remains might be counted
            sys.setprofile(count)
            try:
                for _ in range(answers):
                    response = await model.answer("Hello", reactors=reactors, stream=stream)
                text = response.text
            finally:
                sys.setprofile(None)
                gc.enable()
            assert text == "Hi"

    asyncio.run(ask())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="its event loop reads and writes otherwise")
@pytest.mark.parametrize("protocol", sorted(ANSWERS))
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_asks_the_system_for_little(tmp_path: Path, protocol: str, stream: bool) -> None:
    """It is sent once and read once; all waits share one timer, and ids are drawn for many."""
    asked: Counter[str] = Counter()

    def count(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            name = called.__qualname__
            if called.__module__ == "posix" or name.startswith("socket."):
                asked[name] += 1
        elif event == "call" and frame.f_code.co_name in ("call_at", "call_later", "create_task"):
            asked[frame.f_code.co_name] += 1

    body, kind = json.dumps(ANSWERS[protocol]).encode(), "application/json"
    if stream:
        body, kind = produce_stream(protocol, Say("Hi")), "text/event-stream"
    with serve(body, kind) as url:
        watch(count, url, tmp_path, MODULES[protocol], stream=stream, answers=10)

    drawn = asked.pop("urandom", 0)
    assert asked == {"socket.send": 10, "socket.recv_into": 10}
    assert drawn <= 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_imports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """To take a name out of a module that is there costs more than to decode a small answer."""
    importing = builtins.__import__
    imported: set[str] = set()

    def note(name: str, *others: Any, **named: Any) -> ModuleType:
        if sys.getprofile() is not None:  # it is this thread that is watched, and by now
            imported.add(name)
        return importing(name, *others, **named)

    def ignore(frame: FrameType, event: str, called: object) -> None:
        pass

    monkeypatch.setattr(builtins, "__import__", note)
    body, kind = json.dumps(ANSWERS["messages"]).encode(), "application/json"
    if stream:
        body, kind = produce_stream("messages", Say("Hi")), "text/event-stream"
    with serve(body, kind) as url:
        watch(ignore, url, tmp_path, MODULES["messages"], stream=stream, answers=4)

    # Whoever only looks at an application does without that, and it is a quick one.
    assert imported <= {"asyncio"}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", sorted(ANSWERS))
def test_a_small_whole_answer_takes_few_calls(tmp_path: Path, protocol: str) -> None:
    """From the question to the response, with everything on: limits, retries, rates, timeouts."""
    with serve(json.dumps(ANSWERS[protocol]).encode()) as url:
        assert count_calls(url, tmp_path, MODULES[protocol]) <= AT_MOST


@pytest.mark.slow
@pytest.mark.parametrize("protocol", sorted(ANSWERS))
def test_a_short_stream_takes_few_calls(tmp_path: Path, protocol: str) -> None:
    """It costs hardly more than the same answer in one piece."""
    body = produce_stream(protocol, Say("Hi"))
    with serve(body, "text/event-stream") as url:
        assert count_calls(url, tmp_path, MODULES[protocol], stream=True) <= AT_MOST_STREAMED


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("protocol", sorted(ANSWERS))
def test_reactors_add_few_calls(tmp_path: Path, protocol: str, streamed: bool) -> None:
    """Where all six are told of everything."""
    heard: list[object] = []
    fields = attrs.fields(ConversationReactors)
    hear: dict[str, Any] = {field.name: heard.append for field in fields}
    reactors = ConversationReactors(**hear)
    body = json.dumps(ANSWERS[protocol]).encode()
    kind = "application/json"
    if streamed:
        body, kind = produce_stream(protocol, Say("Hi")), "text/event-stream"
    with serve(body, kind) as url:
        calls = count_calls(url, tmp_path, MODULES[protocol], reactors, stream=streamed)

    assert calls <= (AT_MOST_STREAMED_WITH_REACTORS if streamed else AT_MOST_WITH_REACTORS)
    assert len(heard) == 8 * 9
