"""Every fault of the simulator is seen on the wire."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import wait_until
from vibe_llms.testing.simulator import (
    FAULTS,
    QUIRKS,
    Invoke,
    Say,
    ScriptedAnswer,
    Simulator,
    Think,
)

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("first", "second")
]
HEADERS = {
    "authorization": "Bearer k",
    "x-api-key": "k",
    "x-goog-api-key": "k",
    "anthropic-version": "2023-06-01",
}
PROTOCOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": "a b c d e f"}]},
    ),
    "responses": ("/v1/responses", {"model": "m", "stream": True, "input": "a b c d e f"}),
    "messages": (
        "/v1/messages",
        {
            "model": "m",
            "stream": True,
            "max_tokens": 99,
            "messages": [{"role": "user", "content": "a b c d e f"}],
        },
    ),
    "gemini": (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "a b c d e f"}]}]},
    ),
    "ollama": ("/api/chat", {"model": "m", "messages": [{"role": "user", "content": "a b c d"}]}),
}
SEEN: set[str] = set()
"""The faults that a test has tried; the last test wants all of them here."""


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A simulator without conditions."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that knows nothing of vendors."""
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(headers=HEADERS, timeout=timeout) as session:
        yield session


class Answer:
    """What came back, as far as it came."""

    def __init__(self, status: int, headers: Any) -> None:
        self.status = status
        self.headers = headers
        self.chunks: list[bytes] = []
        self.is_broken = False

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def events(self) -> list[Any]:
        """The JSON of all events or lines; what is none is left out."""
        found = []
        for line in self.data.decode("utf-8", "replace").splitlines():
            try:
                found.append(json.loads(line.removeprefix("data:")))
            except ValueError:
                continue
        return [event for event in found if isinstance(event, dict)]


async def ask(
    simulator: Simulator,
    client: aiohttp.ClientSession,
    fault: str,
    protocol: str = "chat",
    **fields: Any,
) -> Answer:
    """Sends a request under a fault."""
    SEEN.update(item.partition("=")[0] for item in fault.split(","))
    path, body = PROTOCOLS[protocol]
    url = f"{simulator.url}{path}"
    headers = {"x-simulate": fault}
    body = {**body, **fields}
    async with client.post(url, json=body, headers=headers, allow_redirects=False) as response:
        answer = Answer(response.status, response.headers)
        try:
            async for chunk, _ in response.content.iter_chunks():
                answer.chunks.append(chunk)
        except aiohttp.ClientPayloadError:
            answer.is_broken = True
        return answer


def collect_text(events: list[Any]) -> str:
    """All text of a stream of Chat Completions."""
    deltas = [choice["delta"] for event in events for choice in event.get("choices", ())]
    return "".join(delta.get("content") or "" for delta in deltas)


def collect_calls(events: list[Any]) -> list[Any]:
    """All deltas of invocations of a stream of Chat Completions."""
    deltas = [choice["delta"] for event in events for choice in event.get("choices", ())]
    return [call for delta in deltas for call in delta.get("tool_calls", ())]


EVERY = pytest.mark.parametrize("protocol", PROTOCOLS)


@EVERY
async def test_a_stream_without_faults_says_that_it_is_complete(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str
) -> None:
    """And one without its terminator does not, though it ends in good order."""
    words = {
        "chat": b"[DONE]",
        "responses": b"response.completed",
        "messages": b"message_stop",
        "gemini": b"finishReason",
        "ollama": b'"done":true',
    }
    plain = await ask(simulator, client, "", protocol)
    assert plain.status == 200
    assert words[protocol] in plain.data
    cut = await ask(simulator, client, "no_terminator", protocol)
    assert not cut.is_broken
    assert words[protocol] not in cut.data
    assert not [c for e in cut.events for c in e.get("choices", ()) if c["finish_reason"]]
    assert len(cut.events) >= 4


@EVERY
async def test_a_cut_stream_breaks_off(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str
) -> None:
    """As many chunks as were promised, and then the socket is closed."""
    answer = await ask(simulator, client, "cut_at_chunk=3", protocol)
    assert answer.is_broken
    assert len(answer.events) == 3


@EVERY
async def test_a_stalled_stream_sends_nothing_more_and_notices_who_leaves(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str
) -> None:
    """The chunks before it arrive; the simulator records when the client went away."""
    asking = asyncio.create_task(ask(simulator, client, "stall_at_chunk=2", protocol))
    await wait_until(lambda: simulator.requests)
    await asyncio.wait([asking], timeout=0.3)
    assert not asking.done()
    asking.cancel()
    await wait_until(lambda: simulator.requests[0].disconnected_at is not None)
    assert not simulator.requests[0].answered


@EVERY
@pytest.mark.parametrize("fault", ["midstream_rate_limit", "midstream_overloaded"])
async def test_errors_in_the_middle_of_a_stream_have_status_200(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str, fault: str
) -> None:
    """The error is the last event, in the vendor's shape."""
    answer = await ask(simulator, client, f"{fault}=2", protocol)
    assert answer.status == 200
    assert len(answer.events) == 3
    last = answer.events[-1]
    assert last.get("type") == "error" or "error" in last
    if protocol == "messages":
        kind = "rate_limit_error" if "rate" in fault else "overloaded_error"
        assert last["error"]["type"] == kind
    if protocol == "gemini":
        assert last["error"]["code"] == (429 if "rate" in fault else 503)


@pytest.mark.parametrize("protocol", ["chat", "ollama"])
async def test_garbage_stands_between_the_events(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str
) -> None:
    """One line is no JSON; the others are whole."""
    plain = await ask(simulator, client, "", protocol)
    answer = await ask(simulator, client, "garbage_line=2", protocol)
    assert b'{"oops' in answer.data
    assert len(answer.events) == len(plain.events)


@EVERY
async def test_bytes_that_are_no_utf_8_are_in_the_text(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str
) -> None:
    """Strict decoding fails, replacing does not."""
    answer = await ask(simulator, client, "invalid_utf8", protocol)
    assert b"\xff\xfe" in answer.data
    assert len(answer.events) >= 4


async def test_bodies_are_delivered_in_small_pieces(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """Streamed or whole, the pieces are as small as was asked."""
    for streams in (True, False):
        answer = await ask(simulator, client, "split_bytes=3", stream=streams)
        plain = await ask(simulator, client, "", stream=streams)
        assert max(map(len, answer.chunks)) <= 3 < max(map(len, plain.chunks))
        assert len(answer.data) == len(plain.data)


async def test_lines_end_as_is_asked(simulator: Simulator, client: aiohttp.ClientSession) -> None:
    """CR LF, CR alone, a byte order mark and comments are all on the wire."""
    crlf = (await ask(simulator, client, "crlf,bom")).data
    assert crlf.startswith(b"\xef\xbb\xbfdata: ")
    assert crlf.count(b"\r\n") == crlf.count(b"\n")
    only = (await ask(simulator, client, "cr")).data
    assert b"\n" not in only
    assert only.count(b"\r\r") > 4
    assert (await ask(simulator, client, "comments")).data.startswith(b": keep-alive\n\n")
    blank = await ask(simulator, client, "comments", stream=False)
    assert blank.data.startswith(b"\n\n\n{")


@EVERY
async def test_a_page_is_no_answer(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str
) -> None:
    """HTML under status 200."""
    answer = await ask(simulator, client, "wrong_content_type", protocol)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")


CALLS = {"tools": TOOLS, "messages": [{"role": "user", "content": "use tools"}]}


async def test_invocations_lose_their_index_or_their_ids(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """Deltas have no index; ids are the same, or absent."""
    plain = collect_calls((await ask(simulator, client, "", **CALLS)).events)
    assert {call["index"] for call in plain} == {0, 1}
    assert len({call["id"] for call in plain if "id" in call}) == 2
    calls = collect_calls((await ask(simulator, client, "missing_index", **CALLS)).events)
    assert calls
    assert not [call for call in calls if "index" in call]
    calls = collect_calls((await ask(simulator, client, "reused_ids", **CALLS)).events)
    ids = [call["id"] for call in calls if "id" in call]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    calls = collect_calls((await ask(simulator, client, "missing_ids", **CALLS)).events)
    assert calls
    assert not [call for call in calls if "id" in call]
    whole = await ask(simulator, client, "missing_ids", stream=False, **CALLS)
    (event,) = whole.events
    assert "id" not in event["choices"][0]["message"]["tool_calls"][0]


async def test_invocations_are_addressed_as_hosts_do(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """Indexes, ids and names stand in the deltas as asked."""
    turn = ScriptedAnswer(parts=(Invoke("first", {"a": 123456}), Invoke("second", {"b": 7})))
    simulator.enqueue(*[turn] * 7)

    async def list_fields(fault: str, name: str) -> list[Any]:
        calls = collect_calls((await ask(simulator, client, fault, **CALLS)).events)
        fields = [{**call, **call.get("function", {})} for call in calls]
        return [call.get(name, "nowhere") for call in fields]

    assert set(await list_fields("null_index", "index")) == {None}
    assert set(await list_fields("zero_index", "index")) == {0}
    counted = await list_fields("counting_index", "index")
    assert len(set(counted)) == len(counted)
    assert "nowhere" not in await list_fields("repeated_ids", "id")
    assert set(await list_fields("empty_ids", "id")) == {"", "nowhere"}
    assert set(await list_fields("repeated_names", "name")) == {"first", "second"}
    assert (await list_fields("split_names", "name"))[:2] == ["fi", "rst"]


async def test_what_says_nothing_is_empty_null_or_absent(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """Arguments, and the siblings of what is said."""
    simulator.enqueue(*[ScriptedAnswer(parts=(Invoke("first", {"a": 1}),))] * 16)
    for protocol in PROTOCOLS:
        bodies = []
        for fault in ("empty_arguments", "null_arguments", "absent_arguments"):
            answer = await ask(simulator, client, fault, protocol, stream=False)
            bodies.append(json.dumps(answer.events[-1]))
        assert len(set(bodies)) == 3
        assert not [body for body in bodies if '"a"' in body]
    answer = await ask(simulator, client, "empty_siblings", stream=False)
    message = answer.events[0]["choices"][0]["message"]
    assert message["function_call"] == {"arguments": "", "name": ""}
    assert message["tool_calls"][0]["custom"] == {"input": "", "name": ""}


async def test_arguments_come_interleaved_whole_or_broken(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """The order and the pieces of arguments are as asked."""
    simulator.enqueue(
        *[ScriptedAnswer(parts=(Invoke("first", {"a": 123456}), Invoke("second", {"b": 7})))] * 3
    )
    calls = collect_calls((await ask(simulator, client, "interleaved_calls", **CALLS)).events)
    assert [call["index"] for call in calls][:4] == [0, 1, 0, 1]
    texts = ["".join(c["function"]["arguments"] for c in calls if c["index"] == i) for i in (0, 1)]
    assert [json.loads(text) for text in texts] == [{"a": 123456}, {"b": 7}]
    calls = collect_calls((await ask(simulator, client, "whole_arguments", **CALLS)).events)
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [
        {"a": 123456},
        {"b": 7},
    ]
    calls = collect_calls((await ask(simulator, client, "broken_arguments", **CALLS)).events)
    text = "".join(c["function"]["arguments"] for c in calls if c["index"] == 0)
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


async def test_gemini_and_ollama_stumble_over_broken_arguments(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """They parse arguments themselves, and say so when they cannot."""
    simulator.enqueue(*[ScriptedAnswer(parts=(Invoke("first"),))] * 3)
    gemini = await ask(simulator, client, "broken_arguments", "gemini")
    assert gemini.events[-1]["candidates"][0]["finishReason"] == "MALFORMED_FUNCTION_CALL"
    streamed = await ask(simulator, client, "broken_arguments", "ollama")
    assert "error" in streamed.events[-1]
    whole = await ask(simulator, client, "broken_arguments", "ollama", stream=False)
    assert whole.status == 500


async def test_usage_is_told_at_the_end_always_or_never(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """Which chunks tell tokens depends on the fault."""

    def told(answer: Answer) -> list[bool]:
        return [bool(event.get("usage")) for event in answer.events]

    assert not any(told(await ask(simulator, client, "")))
    assert told(await ask(simulator, client, "usage_only_at_end"))[-1:] == [True]
    assert all(told(await ask(simulator, client, "usage_every_chunk")))
    options = {"stream_options": {"include_usage": True}}
    assert any(told(await ask(simulator, client, "", **options)))
    assert not any(told(await ask(simulator, client, "no_usage", **options)))
    started = (await ask(simulator, client, "usage_only_at_end", "messages")).events[0]
    assert started["message"]["usage"]["input_tokens"] == 0
    assert b"usage" not in (await ask(simulator, client, "no_usage", "messages")).data
    gemini = (await ask(simulator, client, "usage_only_at_end", "gemini")).events
    assert ["usageMetadata" in event for event in gemini].count(True) == 1
    assert "usageMetadata" in gemini[-1]


async def test_chunks_without_choices_come_first(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """As Azure sends them."""
    assert (await ask(simulator, client, "empty_choices")).events[0]["choices"] == []
    assert (await ask(simulator, client, "empty_choices", "gemini")).events[0]["candidates"] == []


async def test_the_word_done_alone_may_be_missing(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """The finish_reason is there nevertheless."""
    answer = await ask(simulator, client, "no_done")
    assert b"[DONE]" not in answer.data
    assert answer.events[-1]["choices"][0]["finish_reason"] == "stop"


STATUSES = {
    "rate_limit": dict.fromkeys(PROTOCOLS, 429),
    "overloaded": {**dict.fromkeys(PROTOCOLS, 503), "messages": 529},
    "server_error": dict.fromkeys(PROTOCOLS, 500),
}


@EVERY
@pytest.mark.parametrize("fault", STATUSES)
async def test_the_first_requests_are_refused(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str, fault: str
) -> None:
    """As many as was asked, with retry-after; then an answer comes."""
    answers = [await ask(simulator, client, f"{fault}=2", protocol) for _ in range(3)]
    status = STATUSES[fault][protocol]
    assert [answer.status for answer in answers] == [status, status, 200]
    assert ("retry-after" in answers[0].headers) is (fault != "server_error")


async def test_chunks_come_slowly(simulator: Simulator, client: aiohttp.ClientSession) -> None:
    """Each chunk, or the whole body, is late by what was asked."""
    started = time.monotonic()
    answer = await ask(simulator, client, "slow=20")
    assert time.monotonic() - started >= 0.02 * len(answer.events)


OVERFLOWS = {
    "chat": "maximum context length",
    "responses": "exceeds the context window",
    "messages": "prompt is too long",
    "gemini": "exceeds the maximum number of tokens",
}


@pytest.mark.parametrize("protocol", OVERFLOWS)
async def test_a_prompt_that_is_too_long_is_refused(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str
) -> None:
    """By name, and by its length; each vendor says it in its own way."""
    answer = await ask(simulator, client, "context_overflow", protocol)
    assert answer.status == 400
    assert OVERFLOWS[protocol].encode() in answer.data
    async with Simulator(context_tokens=3) as small:
        answer = await ask(small, client, "", protocol)
    assert OVERFLOWS[protocol].encode() in answer.data


async def test_some_overflows_are_silent(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """A stop reason tells it, or with Ollama nothing but the count of tokens."""
    answer = await ask(simulator, client, "silent_overflow", "messages")
    assert answer.events[-2]["delta"]["stop_reason"] == "model_context_window_exceeded"
    answer = await ask(simulator, client, "silent_overflow", "responses")
    assert answer.events[-1]["response"]["status"] == "incomplete"
    messages = [{"role": "user", "content": f"{n} " + "word " * 500} for n in range(20)]
    answer = await ask(simulator, client, "", "ollama", messages=messages)
    assert answer.events[-1]["prompt_eval_count"] <= 4096


async def test_no_answer_comes_at_all(simulator: Simulator, client: aiohttp.ClientSession) -> None:
    """The socket is closed before the headers."""
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await ask(simulator, client, "drop_connection_before_headers")


async def test_requests_are_redirected(simulator: Simulator, client: aiohttp.ClientSession) -> None:
    """Once, and then answered; or for ever."""
    once = [(await ask(simulator, client, "redirect=1")).status for _ in range(2)]
    assert once == [307, 200]
    for _ in range(3):
        answer = await ask(simulator, client, "redirect")
        assert (answer.status, answer.headers["location"]) == (307, "/v1/chat/completions")


@EVERY
async def test_events_are_huge_deep_or_many(
    simulator: Simulator, client: aiohttp.ClientSession, protocol: str
) -> None:
    """What strains a client's bounds arrives as asked."""
    huge = await ask(simulator, client, "huge_event=300000", protocol)
    assert max(map(len, huge.data.splitlines())) >= 300_000
    deep = await ask(simulator, client, "deep_nesting=5000", protocol)
    assert b"[" * 5000 in deep.data
    many = await ask(simulator, client, "many_events=2000", protocol)
    assert many.data.count(b"\n") > 2000


VENDORS: dict[str, Callable[[list[Any]], object]] = {
    "reasoning": lambda deltas: deltas[0]["reasoning"],
    "reasoning_content": lambda deltas: deltas[0]["reasoning_content"],
    "reasoning_details": lambda deltas: deltas[0]["reasoning_details"][0]["text"],
    "vllm": lambda deltas: deltas[0]["reasoning"],
    "groq": lambda deltas: deltas[0]["reasoning"],
    "xai": lambda deltas: deltas[0]["reasoning_content"],
    "llama_cpp": lambda deltas: deltas[0]["reasoning_content"],
    "deepseek": lambda deltas: deltas[0]["reasoning_content"],
    "openrouter": lambda deltas: [
        detail["signature"]
        for delta in deltas
        for detail in delta.get("reasoning_details", ())
        if "signature" in detail
    ],
    "mistral": lambda deltas: deltas[0]["content"][0]["thinking"][0]["text"],
}


@pytest.mark.parametrize("vendor", VENDORS)
async def test_each_vendor_spells_reasoning_its_own_way(
    simulator: Simulator, client: aiohttp.ClientSession, vendor: str
) -> None:
    """The quirk of a vendor decides the field that reasoning comes in."""
    simulator.enqueue(Think("One two."), Say("Done."))
    events = (await ask(simulator, client, vendor)).events
    deltas = [event["choices"][0]["delta"] for event in events[1:] if event["choices"]]
    deltas = [delta for delta in deltas if any(delta.values())]
    assert VENDORS[vendor](deltas)


async def test_perplexity_and_azure_have_their_own_chunks(
    simulator: Simulator, client: aiohttp.ClientSession
) -> None:
    """Delta and whole message at once with citations; a first chunk with filter results."""
    last = (await ask(simulator, client, "perplexity")).events[-1]
    assert last["choices"][0]["message"]["content"] == "a b c d e f"
    assert last["citations"]
    assert last["search_results"][0]["url"] == last["citations"][0]
    first = (await ask(simulator, client, "azure")).events[0]
    assert first["prompt_filter_results"]


async def test_conditions_are_chosen_by_simulator_turn_and_address(
    client: aiohttp.ClientSession,
) -> None:
    """All four ways to switch them lead to the same."""
    async with Simulator("no_done") as simulator:
        assert b"[DONE]" not in (await ask(simulator, client, "")).data
        simulator.switch("")
        assert b"[DONE]" in (await ask(simulator, client, "")).data
        simulator.enqueue(Say("x"), simulate="no_done")
        assert b"[DONE]" not in (await ask(simulator, client, "")).data
        path, body = PROTOCOLS["chat"]
        url = simulator.access_url("no_done,crlf") + path
        async with client.post(url, json=body) as response:
            data = await response.read()
        assert b"[DONE]" not in data
        assert b"\r\n" in data
        with pytest.raises(ValueError, match="Unknown fault or quirk 'no_such'"):
            simulator.switch("no_such")


def test_every_fault_is_tried() -> None:
    """A fault that no test above sees on the wire is missing one. Run this file as a whole."""
    names = {name for name in FAULTS if name not in SEEN}
    if len(names) > len(FAULTS) // 2:
        pytest.skip("only a part of this file was run")
    assert not names
    assert all(line.endswith(".") for line in {**FAULTS, **QUIRKS}.values())
