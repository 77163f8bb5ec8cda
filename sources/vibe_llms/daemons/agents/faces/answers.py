"""One answer of a model: its pieces as they arrive, reconciled with the answer that is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, cast

import attrs

from vibe_llms.daemons.agents.faces.steps import (
    CallEnded,
    PartBegun,
    PartEnded,
    PartGrown,
    PartsWithdrawn,
    ShownCall,
    Step,
)
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentKind,
    ContentStartedEvent,
    FinishedItem,
    StreamEvent,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import (
    AnyContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)

Item: TypeAlias = AnyContent | InvocationCanister | ResultCanister

_SENT_CHANNELS: Final = frozenset({"text", "summary", "arguments"})
"""Channels of pieces that are sent at once. Media and signatures are sent with the whole part."""

_STREAMED: Final = frozenset({"text", "reasoning", "refusal", "invocation"})
"""Kinds of parts that are sent piece by piece."""


@define(eq=False)
class _Part:
    """A part of the answer so far.

    Attributes:
        id: Id for clients.
        kind: Kind of the part.
        pieces: Text sent so far.
        channel: Channel of the pieces; empty before the first one.
        is_sent: Whether its beginning was sent.
        is_ended: Whether its end was sent.
    """

    id: str
    kind: ContentKind
    pieces: list[str] = attrs.field(factory=list)
    channel: str = ""
    is_sent: bool = False
    is_ended: bool = False


@define(eq=False)
class AnswerFold:
    """Fold of one answer.

    Args:
        prefix: Beginning of the ids of its parts.

    Attributes:
        calls: Calls of the stored answer, by the ids of their canisters.
    """

    _prefix: str
    calls: dict[str, ShownCall] = attrs.field(factory=dict)
    _parts: dict[int, _Part] = attrs.field(factory=dict)

    def feed(self, event: StreamEvent) -> Iterator[Step]:
        """Yield the steps of a piece; none if the beginning of its part was lost."""
        match event:
            case ContentStartedEvent() if event.index not in self._parts:
                part = _Part(self._name(event.index), event.kind)
                self._parts[event.index] = part
                if event.kind == "invocation":
                    is_vendors = event.owner is Owner.VENDOR
                    call = ShownCall(id=part.id, name=event.name or "", is_vendors=is_vendors)
                    yield from _begin(part, call)
            case ContentDeltaEvent() if event.channel in _SENT_CHANNELS and event.text:
                known = self._parts.get(event.index)
                if known is None or known.kind not in _STREAMED:
                    return
                if known.is_ended or known.channel not in ("", event.channel):
                    return
                known.channel = event.channel
                yield from _begin(known)
                yield from _grow(known, event.text)
            case ContentFinishedEvent(item=item) if item is not None:
                known = self._parts.get(event.index)
                if known is not None and not known.is_ended and _agrees(known, item):
                    yield from _end(known, item)

    def end(self, items: Sequence[Item]) -> Iterator[Step]:
        """Yield the rest of the answer.

        Args:
            items: The stored contents, calls and results.
        """
        matches = self._match(items)
        if matches is None:
            self._parts.clear()
            yield PartsWithdrawn()
            matches = {}
        calls: dict[str, ShownCall] = {}
        for index, item in enumerate(items):
            if isinstance(item, ResultCanister):
                if call := calls.get(item.invocation_id):
                    yield CallEnded(call=call, result=item)
                continue
            part = matches.get(index) or _Part(self._name(index), _find_kind(item))
            if isinstance(item, InvocationCanister):
                self.calls[item.id] = calls[item.invocation_id] = _produce_call(part, item)
            if not part.is_ended:
                yield from _end(part, item)

    def _match(self, items: Sequence[Item]) -> dict[int, _Part] | None:
        """Return the sent parts by the indices of their items; ``None`` if they contradict them."""
        sent = [part for _, part in sorted(self._parts.items()) if part.is_sent]
        matches: dict[int, _Part] = {}
        has_unsent = False
        for index, item in enumerate(items):
            if len(matches) == len(sent):
                break
            part = sent[len(matches)]
            if not isinstance(item, ResultCanister) and _agrees(part, item):
                if has_unsent:  # the parts would be in another order
                    return None
                matches[index] = part
            elif not isinstance(item, ResultCanister):
                has_unsent = True
        return matches if len(matches) == len(sent) else None

    def _name(self, index: int) -> str:
        return f"{self._prefix}.{index}"


def _begin(part: _Part, call: ShownCall | None = None) -> Iterator[Step]:
    if not part.is_sent:
        part.is_sent = True
        yield PartBegun(id=part.id, kind=part.kind, call=call)


def _grow(part: _Part, text: str) -> Iterator[Step]:
    if text:
        part.pieces.append(text)
        yield PartGrown(id=part.id, kind=part.kind, text=text)


def _end(part: _Part, item: FinishedItem) -> Iterator[Step]:
    """Yield the rest of a part, and its end."""
    call = _produce_call(part, item) if isinstance(item, InvocationCanister) else None
    yield from _begin(part, None if call is None else attrs.evolve(call, arguments=""))
    sent = "".join(part.pieces)
    yield from _grow(part, _read_text(item, part.channel)[len(sent) :])
    part.is_ended = True
    content = None if call is not None else cast(AnyContent, item)
    yield PartEnded(id=part.id, kind=part.kind, content=content, call=call)


def _produce_call(part: _Part, item: InvocationCanister) -> ShownCall:
    return ShownCall(
        id=part.id,
        name=item.name,
        arguments=item.arguments,
        is_vendors=item.owner is Owner.VENDOR,
    )


def _agrees(part: _Part, item: FinishedItem) -> bool:
    """Return whether the pieces of a part are the beginning of an item."""
    sent = "".join(part.pieces)
    return part.kind == _find_kind(item) and _read_text(item, part.channel).startswith(sent)


def _find_kind(item: FinishedItem) -> ContentKind:
    match item:
        case InvocationCanister():
            return "invocation"
        case ResultCanister():
            return "result"
        case _:
            return cast(ContentKind, cast(AnyContent, item).type)


def _read_text(item: FinishedItem, channel: str = "") -> str:
    """Return the text of an item that its pieces add up to; empty for media.

    Args:
        channel: Channel of the pieces; what reasoning has on another channel follows.
    """
    match item:
        case TextualContent() | RefusalContent():
            return item.text
        case ReasoningContent():
            parts = (item.text, "".join(item.summary))
            return "".join(reversed(parts) if channel == "summary" else parts)
        case InvocationCanister():
            return item.arguments
    return ""
