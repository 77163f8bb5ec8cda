"""Streamed answers: recorded and generated ones, and reading of what a dialect writes."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import attrs
from hypothesis import strategies as st

from support.vendors.messages_exchanges import RECORDINGS
from support.vendors.sdk_generation import split_randomly
from vibe_llms.dialects import (
    bedrock,
    chat_completions,
    generate_content,
    messages,
    ollama_chat,
    responses,
)
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    Citation,
    ImageContent,
    Native,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.providers.assembly import Assembler
from vibe_llms.wire.event_stream import EventStreamFramer
from vibe_llms.wire.ndjson import NdjsonFramer
from vibe_llms.wire.sse import SseFramer

RECORDED: Final[dict[str, tuple[ModuleType, type[Any]]]] = {
    "anthropic_messages": (messages, SseFramer),
    "gemini": (generate_content, SseFramer),
    "ollama_chat": (ollama_chat, NdjsonFramer),
    "openai_chat": (chat_completions, SseFramer),
    "openai_responses": (responses, SseFramer),
    "perplexity": (chat_completions, SseFramer),
}
REQUEST: Final = Request(canisters=(UserCanister("?"),))


def complete(events: Iterable[StreamEvent], protocol: str | None) -> list[StreamEvent]:
    """Return the events from the assembler; the last one has the response."""
    assembler = Assembler(provider="vendor", model="asked", protocol=protocol)
    completed = [assembler.feed(event) for event in events]
    last = completed[-1]
    assert isinstance(last, ResponseFinishedEvent)
    response = assembler.produce_response(REQUEST, duration_seconds=1, first_seconds=None)
    return [*completed[:-1], attrs.evolve(last, response=response)]


def get_response(events: Sequence[StreamEvent]) -> Response:
    """Return the response of the last event."""
    last = events[-1]
    assert isinstance(last, ResponseFinishedEvent)
    assert last.response is not None
    return last.response


def read_pieces(
    dialect: ModuleType, pieces: Iterable[bytes], framer: type[Any] | None = None
) -> list[StreamEvent]:
    """Decode a complete stream, framed as the dialect's own by default."""
    framer = framer or (EventStreamFramer if dialect is bedrock else SseFramer)
    cutter, decoder = framer(Limits()), dialect.Decoder(provider="vendor", model="asked")
    frames = [frame for piece in pieces for frame in cutter.feed(piece)] + list(cutter.finish())
    events = [event for frame in frames for event in decoder.decode(frame.data, frame.event)]
    return complete([*events, *decoder.finish()], dialect.PROTOCOL)


def survey_recorded() -> Iterator[tuple[str, list[StreamEvent]]]:
    """Yield the complete recorded answers of all protocols, with their ids."""
    for name, (dialect, framer) in RECORDED.items():
        with (Path(RECORDINGS) / f"{name}.jsonl").open(encoding="utf-8") as lines:
            for exchange in map(json.loads, lines):
                if exchange["status"] != 200:
                    continue
                data = exchange["body"].encode("utf-8")
                try:
                    yield exchange["id"], read_answer(dialect, framer, data, exchange["stream"])
                except ConverseError:
                    continue  # an error in the stream, or an incomplete stream


def read_answer(
    dialect: ModuleType, framer: type[Any], data: bytes, streamed: bool
) -> list[StreamEvent]:
    """Decode a recorded answer."""
    if streamed and data.lstrip()[:1] != b"[":
        return read_pieces(dialect, [data], framer)
    decoder = dialect.Decoder(provider="vendor", model="asked")
    return complete(decoder.decode_response(data), dialect.PROTOCOL)


def write_stream(
    dialect: ModuleType, events: Iterable[StreamEvent], native: Any = None, **options: Any
) -> tuple[bytes, Any]:
    """Return the bytes that a dialect writes for events, and the writer."""
    events = list(events)
    writer = dialect.StreamWriter(native or {}, model=options.pop("model", ""), **options)
    for event in events:
        if isinstance(event, ResponseFinishedEvent) and event.response is not None:
            writer.provider = event.response.metadata.origin.provider
    return b"".join(map(writer.write, events)), writer


def split(data: bytes, seed: int) -> list[bytes]:
    """Split bytes at random places."""
    chance = random.Random(seed)
    places = sorted(chance.randrange(len(data) + 1) for _ in range(min(40, len(data))))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def produce_events(response: Response, chance: random.Random) -> list[StreamEvent]:
    """Return events of a response, as a decoder could produce them.

    Contents end one after the other, or all with the response.
    """
    origin = response.metadata.origin
    events: list[StreamEvent] = []
    for group, canister in enumerate(response.canisters):
        is_own = isinstance(canister, InvocationCanister | ResultCanister)
        for item in (canister,) if is_own else canister.content:
            events += _play_item(len(events), group, item, canister, chance)
    if chance.random() < 0.5:
        events.sort(key=lambda event: isinstance(event, ContentFinishedEvent))
    if origin.usage is not None:
        events.insert(chance.choice([0, len(events)]), UsageEvent(usage=origin.usage))
    return [
        ResponseStartedEvent(response_id=origin.response_id, model=origin.model),
        *events,
        ResponseFinishedEvent(
            stop_reason=origin.stop_reason,
            native_stop_reason=origin.native_stop_reason,
            native=response.metadata.native,
        ),
    ]


def _play_item(
    index: int, group: int, item: Any, canister: AnyCanister, chance: random.Random
) -> Iterator[StreamEvent]:
    fields: dict[str, Any] = {"native": item.native, "group": group}
    around = None
    if isinstance(item, InvocationCanister | ResultCanister):
        kind: Any = "invocation" if isinstance(item, InvocationCanister) else "result"
        fields |= {"invocation_id": item.invocation_id, "name": item.name, "owner": item.owner}
        fields |= {"form": item.form} if isinstance(item, InvocationCanister) else {}
    else:
        kind, around = item.type, canister.native
    yield ContentStartedEvent(index=index, kind=kind, group_native=around, **fields)
    for channel, text in _list_texts(item):
        for piece in split_randomly(text, chance):
            yield ContentDeltaEvent(index, piece, channel)
    for citation in getattr(item, "citations", ()):
        yield ContentCitedEvent(index, citation)
    yield ContentFinishedEvent(index=index, item=item, group_native=around)


def _list_texts(item: AnyContent | InvocationCanister | ResultCanister) -> list[tuple[Any, str]]:
    match item:
        case TextualContent() | RefusalContent():
            return [("text", item.text)]
        case ReasoningContent():
            readable = ("text", item.text) if item.text else ("summary", "\n\n".join(item.summary))
            return [readable, ("signature", item.signature or "")]
        case InvocationCanister():
            return [("arguments", item.arguments)]
        case AudioContent():
            return [("transcript", item.transcript or "")]
    return []


_ELSEWHERE: Final = st.sampled_from([None, Native(protocol="elsewhere", data='{"field": 1}')])
_TEXTS: Final = st.text('aé∑🙂 {}"\\\n', max_size=9)
_PICTURE: Final = ImageContent(data=b"picture", mime_type="image/png")
_CITATIONS: Final = st.lists(
    st.builds(Citation, url=st.just("https://example.org"), title=st.none() | _TEXTS), max_size=2
)
_CONTENTS: Final = st.one_of(
    st.builds(TextualContent, _TEXTS, citations=_CITATIONS, native=_ELSEWHERE),
    st.builds(ReasoningContent, text=_TEXTS, signature=st.none() | _TEXTS, native=_ELSEWHERE),
    st.builds(ReasoningContent, summary=st.lists(_TEXTS.filter(bool), max_size=1),
              native=_ELSEWHERE),
    st.builds(RefusalContent, _TEXTS),
    st.just(_PICTURE),
    st.builds(AudioContent, data=st.just(b"sound"), mime_type=st.just("audio/wav"),
              transcript=st.none() | _TEXTS),
    st.builds(NativeContent, kind=st.just("novelty"),
              native=st.just(Native(protocol="elsewhere", data="{}"))),
)  # fmt: skip
_NAMES: Final = st.sampled_from(["weather", "query"])
_OBJECTS: Final = st.dictionaries(_TEXTS, st.none() | st.integers(-9, 9) | _TEXTS, max_size=2)
_call = functools.partial(st.builds, InvocationCanister, invocation_id=st.just("call"), name=_NAMES)
_CALLS: Final = st.one_of(
    _call(arguments=st.just("") | _OBJECTS.map(json.dumps), native=_ELSEWHERE),
    _call(arguments=_TEXTS, form=st.just("text")),
    _call(arguments=st.just("{}"), owner=st.just(Owner.VENDOR), native=_ELSEWHERE),
    st.builds(
        ResultCanister,
        st.builds(TextualContent, _TEXTS).map(lambda text: (text,)),
        invocation_id=st.just("call"),
        owner=st.just(Owner.VENDOR),
        native=_ELSEWHERE,
    ),
)
_MESSAGES: Final = st.builds(
    AssistantCanister, st.lists(_CONTENTS, min_size=1, max_size=3), native=_ELSEWHERE
)


@st.composite
def answers(draw: st.DrawFn) -> list[StreamEvent]:
    """Generate the events of an answer of another vendor, with any contents in any order.

    Answers have at most one summary, because a stream does not show where one ends.
    """
    canisters = draw(st.lists(_MESSAGES | _CALLS, min_size=1, max_size=4))
    named = [
        attrs.evolve(each, invocation_id=f"call_{place}") if hasattr(each, "owner") else each
        for place, each in enumerate(canisters)
    ]
    origin = Origin(
        provider="vendor",
        model="model",
        protocol="elsewhere",
        response_id=draw(st.sampled_from(["answer", None])),
        stop_reason=draw(st.sampled_from(StopReason)),
        usage=draw(st.sampled_from([None, Usage(input_tokens=3, output_tokens=5)])),
    )
    metadata = ResponseMetadata(origin=origin, native=draw(_ELSEWHERE))
    response = Response(request=REQUEST, canisters=named, metadata=metadata)
    events = produce_events(response, random.Random(draw(st.integers(0, 99))))
    return complete(events, "elsewhere")
