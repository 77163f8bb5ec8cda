"""The one assembler for all vendors: normalized stream events in, canisters out.

It does no I/O. Decoders may leave out the value of a finished content and the canisters of the
response; the assembler adds them. It rejects invalid sequences of events, so that bugs in decoders
are noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import attrs

from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    LossEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    RetryEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, LimitError, RequestError, Stage
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.slotted_classes import find_copier
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import (
    AnyContent,
    Citation,
    Native,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

_copy_origin = find_copier(Origin)
_FOLDED_CHARACTERS = 256
"""Characters to receive before the pieces of a content are joined: a string of five characters
takes as much memory as one of fifty."""

_Item = AnyContent | InvocationCanister | ResultCanister


@define
class _GrowingContent:
    """A content in progress.

    Attributes:
        pieces: The received texts, by channel.
        tail: The list of ``pieces`` for the current channel.
        folded: Number of elements at the beginning of the tail that are already joined.
        size: Number of characters received.
        unchecked: Size up to which no limit needs to be checked.
        item: The complete value; ``None`` until the content ends.
    """

    start: ContentStartedEvent
    identity: str
    timestamp: datetime
    pieces: dict[str, list[str]] = attrs.field(factory=dict)
    channel: str | None = None
    tail: list[str] = attrs.field(factory=list)
    citations: list[Citation] = attrs.field(factory=list)
    folded: int = 0
    size: int = 0
    unchecked: int = 0
    item: _Item | None = None
    native: Native | None = None

    def join(self, channel: str) -> str:
        """Return the text of a channel."""
        return "".join(self.pieces.get(channel, ()))

    def fold(self) -> None:
        """Join the pieces of the tail that are not joined yet."""
        tail, folded = self.tail, self.folded
        if len(tail) > folded + 1:
            tail[folded:] = ["".join(tail[folded:])]
        self.folded = len(tail)


class Assembler:
    """Assembles a response from its events.

    Args:
        provider: The provider's name, for the origin of the canisters; kept as an attribute.
        model: The model of the request; replaced by the name that the vendor reports. Also an
            attribute.
        protocol: The name of the dialect.
        limits: ``content_characters``, ``arguments_characters`` and ``response_contents`` apply.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        protocol: str | None = None,
        limits: Limits | None = None,
        produce_id: Callable[[], str] = produce_identity,
        now: Callable[[], datetime] = access_now,
    ) -> None:
        self.provider = provider
        self.model = model
        self._protocol = protocol
        self._limits = limits or Limits()
        self._produce_id = produce_id
        self._now = now
        self._turn_id = ""  # until canisters are made
        self._contents: dict[int, _GrowingContent] = {}
        self._group_natives: dict[int, Native] = {}
        self._finish: ResponseFinishedEvent | None = None
        self._origin: Origin | None = None  # cached until a content changes
        self.usage: Usage | None = None
        self.response_id: str | None = None
        self.request_id: str | None = None
        self.attempts = 1
        self.missed = 0
        self.losses: list[Loss] = []
        self._has_natives = False
        self.summaries: tuple[Origin, ...] = ()

    def feed(self, event: StreamEvent) -> StreamEvent:
        """Process an event and return it, completed where the decoder left fields open.

        Raises:
            ConverseError: The event is invalid after the events before it: an error of the decoder
                or the vendor.
            LimitError: A content exceeds its limit.
        """
        if isinstance(event, ContentDeltaEvent):
            return self.feed_delta(event)
        if self._finish is not None:
            raise _refuse(f"{event.type} after the end of the response")
        try:
            return self._process(event)
        except RequestError as error:  # an invalid value from the vendor, not from the user
            raise _refuse(error.detail.rstrip(".")) from error

    def _process(self, event: StreamEvent) -> StreamEvent:
        match event:
            case ContentStartedEvent():
                return self._start(event)
            case ContentFinishedEvent():
                return self._complete(event)
            case ContentCitedEvent():
                self._access_open_content(event.index).citations.append(event.citation)
            case UsageEvent():
                # The origin includes the usage, so it must be made again.
                self.usage, self._origin = event.usage, None
            case LossEvent():
                self.losses.append(event.loss)
            case RetryEvent() if not event.resumes:
                self.attempts = event.attempt
                if event.error.stage is Stage.CONNECT:
                    self.missed += 1
            case ResponseStartedEvent():
                self._begin(event)
            case ResponseFinishedEvent():
                self._end(event)
            case _:
                pass
        return event

    @property
    def is_complete(self) -> bool:
        """True if the response has ended."""
        return self._finish is not None

    @property
    def native(self) -> Native | None:
        """Vendor data about the response without a common field."""
        return self._finish.native if self._finish else None

    @property
    def origin(self) -> Origin:
        """The origin of the canisters, as far as it is known."""
        if self._origin is None:
            self._origin = self._produce_origin(self._finish)
        return self._origin

    def _produce_origin(self, finish: ResponseFinishedEvent | None) -> Origin:
        return Origin(
            provider=self.provider,
            model=self.model,
            protocol=self._protocol,
            response_id=self.response_id,
            stop_reason=finish.stop_reason if finish else StopReason.INTERRUPTED,
            native_stop_reason=finish.native_stop_reason if finish else None,
            usage=self.usage,
        )

    def produce_canisters(self) -> tuple[AnyCanister, ...]:
        """Make the canisters of the received contents, in the order in which they began.

        Adjacent contents of the assistant share a canister if they have one group. Each invocation
        and each result has a separate canister. An invocation with truncated arguments is left out,
        because its meaning is unknown.
        """
        origin = self.origin
        # Set the id only once: canisters during the stream and at the end belong to one turn.
        self._turn_id = self._turn_id or self._produce_id()
        groups: list[AnyCanister | list[tuple[_GrowingContent, AnyContent]]] = []
        for content in self._contents.values():
            item = content.item
            if item is None:
                if content.start.kind in ("invocation", "result"):
                    continue
                item = _build(content)
                if item is None:
                    continue
            if isinstance(item, (InvocationCanister, ResultCanister)):
                copy = find_copier(type(item))
                groups.append(copy(item, origin=origin, turn_id=self._turn_id))
            elif groups and isinstance(groups[-1], list) and _shares_canister(groups[-1], content):
                groups[-1].append((content, item))
            else:
                groups.append([(content, item)])
        return tuple(
            self._produce_assistant(group, origin) if isinstance(group, list) else group
            for group in groups
        )

    def produce_response(
        self, request: Request, *, duration_seconds: float, first_seconds: float | None
    ) -> Response:
        """Make the response from the received events, when it has ended.

        Raises:
            ConverseError: There is no content, because the vendor stopped before any.
        """
        origin = self._origin = _copy_origin(self.origin, seconds=round(duration_seconds, 6))
        canisters = self.produce_canisters()
        losses = tuple(self.losses)
        if self._has_natives:
            # A relayed answer comes with the loss.
            compactions = _survey_compactions(canisters, origin)
            losses += tuple(each for each in compactions if each not in losses)
        if not canisters and origin.stop_reason is StopReason.INTERRUPTED:
            raise _refuse_unanswered(origin)
        return Response(
            request=request,
            canisters=canisters,
            metadata=ResponseMetadata(
                origin=origin,
                duration_seconds=duration_seconds,
                first_seconds=first_seconds,
                attempts=self.attempts,
                request_id=self.request_id,
                summaries=self.summaries,
                native=self.native,
            ),
            losses=losses,
        )

    def _produce_assistant(
        self, group: list[tuple[_GrowingContent, AnyContent]], origin: Origin
    ) -> AssistantCanister:
        first = group[0][0]
        return AssistantCanister(
            tuple(item for _, item in group),
            id=first.identity,
            timestamp=first.timestamp,
            origin=origin,
            turn_id=self._turn_id,
            native=self._group_natives.get(first.start.group),
        )

    def _begin(self, event: ResponseStartedEvent) -> None:
        origin = Origin(
            provider=self.provider,
            model=event.model or self.model,
            response_id=event.response_id or self.response_id,
        )  # validates the names before they are stored
        self.response_id, self.model = origin.response_id, origin.model
        self.request_id = event.request_id or self.request_id
        self._origin = None

    def _start(self, event: ContentStartedEvent) -> ContentStartedEvent:
        self._has_natives = self._has_natives or event.kind == "native"
        if event.index in self._contents:
            raise _refuse(f"content {event.index} begins twice")
        if len(self._contents) >= self._limits.response_contents:
            raise _exceed("response_contents", self._limits.response_contents)
        if event.kind == "invocation" and not event.invocation_id:
            event = attrs.evolve(event, invocation_id=self._produce_id())
            self.losses.append(
                Loss(
                    kind=LossKind.SYNTHESIZED,
                    path=f"contents[{event.index}].invocation_id",
                    reason="The vendor sent no id of the invocation; one was generated.",
                )
            )
        self._contents[event.index] = _GrowingContent(event, self._produce_id(), self._now())
        return event

    def feed_delta(self, event: ContentDeltaEvent) -> ContentDeltaEvent:
        """Process a content delta like :meth:`feed`, but faster: deltas are frequent."""
        content = self._contents.get(event.index)
        if content is None or content.item is not None:
            raise _refuse(f"content {event.index} continues, but it has not begun or has ended")
        text = event.text
        if text.__class__ is not str:
            raise _refuse(f"a piece of content {event.index} is not a text")
        kind = content.start.kind
        if event.kind != kind:
            event = ContentDeltaEvent(event.index, text, event.channel, kind)
        if not text:
            return event  # do not store it: a million empty pieces would use memory
        content.size = size = content.size + len(text)
        if size > content.unchecked:
            self._check_size(content, event.channel)
        # Fast path: the channel has not changed, so its list needs no lookup.
        if event.channel == content.channel:
            content.tail.append(text)
        else:
            self._switch_channel(content, event)
        return event

    def _check_size(self, content: _GrowingContent, channel: str) -> None:
        limits = self._limits
        limit, maximum = "content_characters", limits.content_characters
        if channel == "arguments" and limits.arguments_characters <= maximum:
            limit, maximum = "arguments_characters", limits.arguments_characters
        if content.size > maximum:
            raise _exceed(limit, maximum)
        content.fold()
        content.unchecked = min(content.size + _FOLDED_CHARACTERS, maximum)

    def _switch_channel(self, content: _GrowingContent, event: ContentDeltaEvent) -> None:
        self._check_size(content, event.channel)  # the limit for arguments may be smaller
        if event.channel == "signature":  # each signature replaces the one before
            content.pieces["signature"] = [event.text]
            content.channel = None  # so that the next signature is stored in this content
            return
        content.channel = event.channel
        content.tail = content.pieces.setdefault(event.channel, [])
        content.folded = len(content.tail)
        content.tail.append(event.text)

    def _complete(self, event: ContentFinishedEvent) -> ContentFinishedEvent:
        content = self._access_open_content(event.index)
        content.native = event.native
        if event.group_native is not None:
            self._group_natives[content.start.group] = event.group_native
        item = event.item if event.item is not None else _build(content)
        if item is None:
            raise _refuse(f"content {event.index} ({content.start.kind}) ends without a value")
        if isinstance(item, (InvocationCanister, ResultCanister)):
            # Keep the id and the time from the start of the content.
            copy = find_copier(type(item))
            item = copy(item, id=content.identity, timestamp=content.timestamp)
        content.item = item
        if item is event.item:
            return event
        return ContentFinishedEvent(
            index=event.index, item=item, native=event.native, group_native=event.group_native
        )

    def _access_open_content(self, index: int) -> _GrowingContent:
        content = self._contents.get(index)
        if content is None or content.item is not None:
            raise _refuse(f"content {index} ends or is cited, but it has not begun or has ended")
        return content

    def _end(self, event: ResponseFinishedEvent) -> None:
        for index, content in self._contents.items():
            if content.item is None:
                raise _refuse(f"the response ends before content {index}")
        self._origin = self._produce_origin(event)  # raises if a value is invalid
        self._finish = event


def _shares_canister(
    group: list[tuple[_GrowingContent, AnyContent]], content: _GrowingContent
) -> bool:
    """Return whether a content belongs to the canister of the previous content."""
    return group[-1][0].start.group == content.start.group


def _build(content: _GrowingContent) -> _Item | None:
    """Make the content from the received deltas; ``None`` if that needs the vendor's final copy."""
    start = content.start
    match start.kind:
        case "text":
            text, native = content.join("text"), content.native
            return TextualContent(text, citations=content.citations, native=native)
        case "refusal":
            return RefusalContent(content.join("text"), native=content.native)
        case "reasoning":
            summary = content.join("summary")
            return ReasoningContent(
                text=content.join("text"),
                # Only the vendor's final copy shows where a part ends.
                summary=(summary,) if summary else (),
                signature=content.join("signature") or None,
                native=content.native,
            )
        case "invocation":
            return InvocationCanister(
                invocation_id=start.invocation_id or "",
                name=start.name or "",
                arguments=content.join("arguments"),
                form=start.form,
                owner=start.owner,
                native=content.native,
                id=content.identity,
                timestamp=content.timestamp,
            )
        case _:
            return None


def _exceed(limit: str, value: int) -> LimitError:
    return LimitError(
        limit=limit,
        value=value,
        remedy=f"Set limits.{limit} in the configuration to allow more.",
        stage=Stage.DECODE,
    )


def _refuse(reason: str) -> ConverseError:
    return ConverseError(
        detail=f"Invalid stream: {reason}.",
        remedy="This is an error of the provider's decoder or of its vendor.",
        stage=Stage.DECODE,
    )


def _refuse_unanswered(origin: Origin) -> ConverseError:
    of_response = f" of response {origin.response_id}" if origin.response_id else ""
    state = origin.native_stop_reason or origin.stop_reason
    return ConverseError(
        detail=f"{origin.provider} has not answered: state {state!r}{of_response}, no content.",
        remedy="Send the request again.",
        stage=Stage.DECODE,
    )


def _survey_compactions(canisters: Sequence[AnyCanister], origin: Origin) -> Iterator[Loss]:
    """Yield a loss for each compaction by the vendor, which other vendors cannot read."""
    for index, canister in enumerate(canisters):
        if any(isinstance(c, NativeContent) and c.kind == "compaction" for c in canister.content):
            yield Loss(
                kind=LossKind.COERCED,
                path=f"response.canisters[{index}]",
                reason=f"{origin.provider} has compacted the conversation into data that other "
                "vendors cannot read; the messages stay in the conversation",
            )
