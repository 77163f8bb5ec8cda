"""Requests that exceed the model's window: send them without their oldest turns.

A request is shortened if the estimate of its tokens exceeds the window. If the vendor nevertheless
rejects the request as too long, the request is shortened further and sent again.
:mod:`vibe_llms.models.windows` decides which turns to leave out; this module removes these turns,
or lets the model summarize them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

import attrs

from vibe_llms.events.stream import LossEvent, RetryEvent, StreamEvent
from vibe_llms.exceptions import ContextOverflowError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.losses import Loss, LossKind, Translation, refuse_losses
from vibe_llms.messages.requests import Request, replace_canisters
from vibe_llms.models.windows import (
    WINDOW_REASON,
    Cut,
    cut_oldest,
    measure_canisters,
    measure_room,
    surely_fits,
)
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.streams import EventSource, detach
from vibe_llms.providers.summaries import (
    SUMMARY_TOKENS,
    Summary,
    describe_usage,
    summarize,
)

_ATTEMPTS: Final = 4
"""Maximum number of times that a request is shortened further after the vendor rejected it."""
_KEPT_SUMMARIES: Final = 64

_summaries: OrderedDict[tuple[str, ...], Summary] = OrderedDict()
"""Cache of summaries, by the model and the ids of the canisters that they replace.

It avoids summarizing a conversation again at each turn. These summaries are of single requests and
runs; :mod:`vibe_llms.conversations.compaction` stores a summary at the beginning of a fork.
"""


class WindowedModel(ConverserModel, Protocol):
    """Model whose requests can be shortened to its window."""

    def complete_controls(self, request: Request) -> Mapping[str, JsonValue]:
        """Return the controls of a request, with the model's defaults."""

    async def open(self, request: Request, *, streaming: bool) -> Translation[EventSource]:
        """Translate and send an unchanged request. Raises ConverseError."""


def cut_request(request: Request, model: WindowedModel) -> Request:
    """Return the request without the turns that exceed the window by the estimate.

    Raises:
        TranslationLossError: Turns would be left out, and the request is strict.
    """
    attributes = model.descriptor.attributes
    room, _ = measure_room(attributes, model.complete_controls(request))
    if room is None or surely_fits(request, attributes, room):
        return request
    sizes, overhead = measure_canisters(request, attributes)
    cut = cut_oldest(request.canisters, sizes, room - overhead)
    if not cut.omitted:
        return request
    if request.strict:
        refuse_losses(tuple(cut.survey_losses(LossKind.DROPPED, _compose_reason(cut, room))))
    return replace_canisters(request, cut.keep(request.canisters))


class WindowFitter:
    """Shortens one request to the window of a model, and sends the request.

    Args:
        assembler: Records the summaries that were requested.
    """

    def __init__(
        self, model: WindowedModel, request: Request, assembler: Assembler, *, streaming: bool
    ) -> None:
        attributes = model.descriptor.attributes
        self._model = model
        self._request = request
        self._assembler = assembler
        self._streaming = streaming
        self._room, self._output = measure_room(attributes, model.complete_controls(request))
        self._needs_cut = False
        self._omitted: tuple[int, ...] = ()
        self._reported_losses: set[Loss] = set()

    async def open(self) -> Translation[EventSource]:
        """Send the part that fits the window by the estimate. Raises ConverseError."""
        room, attributes = self._room, self._model.descriptor.attributes
        self._needs_cut = room is not None and not surely_fits(self._request, attributes, room)
        opened = await self._open()
        self._reported_losses.update(opened.losses)
        return Translation(_ShrinkingSource(self, opened.value), opened.losses)

    async def shrink(self, error: ContextOverflowError) -> Translation[EventSource]:
        """Send less, after the vendor has rejected the request.

        Raises:
            ContextOverflowError: Nothing more can be left out: the given error.
            ConverseError: Any other error of sending.
        """
        omitted = self._omitted
        self._learn_room(error)
        # Without a further turn to leave out, the request would be rejected again.
        if len(self._cut().omitted) <= len(omitted):
            raise error
        return await self._open()

    @cached_property
    def _measures(self) -> tuple[list[int], int]:
        """The sizes of the canisters and of the rest; measured only if turns must be left out."""
        return measure_canisters(self._request, self._model.descriptor.attributes)

    def _learn_room(self, error: ContextOverflowError) -> None:
        """Set the room for input by an error, in estimated tokens."""
        sizes, overhead = self._measures
        omitted = set(self._omitted)
        sent = overhead + sum(size for index, size in enumerate(sizes) if index not in omitted)
        # Our estimate was too low, and not every vendor says by how much: try a quarter less.
        room = sent * 3 // 4
        if error.tokens and error.limit and error.tokens > error.limit:
            # The limit includes the answer, which must not use the whole window.
            input_limit = max(error.limit - self._output, error.limit // 2)
            # The vendor's count and the local estimate are for one request, so their ratio converts
            # the vendor's limit to estimated tokens.
            room = min(room, sent * input_limit // error.tokens)
        self._room, self._needs_cut = max(room, 1), True

    def _cut(self) -> Cut:
        if self._room is None or not self._needs_cut:
            return Cut()
        sizes, overhead = self._measures
        room = self._room - overhead
        cut = cut_oldest(self._request.canisters, sizes, room)
        if not cut.omitted or self._request.window != "summarize":
            return cut
        # The summary needs room, too, for which more turns may have to be left out.
        return cut_oldest(self._request.canisters, sizes, max(room - SUMMARY_TOKENS, room // 2))

    async def _open(self) -> Translation[EventSource]:
        for _ in range(_ATTEMPTS):
            cut = self._cut()
            fitted, losses = await self._fit(cut)
            try:
                opened = await self._model.open(fitted, streaming=self._streaming)
            except ContextOverflowError as error:  # some models detect it before sending
                self._learn_room(error)
                if len(self._cut().omitted) <= len(cut.omitted):
                    raise
                continue
            restored = (self._restore_path(loss) for loss in opened.losses)
            return Translation(opened.value, (*losses, *restored))
        raise AssertionError

    async def _fit(self, cut: Cut) -> tuple[Request, tuple[Loss, ...]]:
        self._omitted = cut.omitted
        if not cut.omitted:
            return self._request, ()
        canisters = self._request.canisters
        room = self._room or 0
        reason = _compose_reason(cut, room)
        summarizes = self._request.window == "summarize"
        kind = LossKind.COERCED if summarizes else LossKind.DROPPED
        if self._request.strict:
            refuse_losses(tuple(cut.survey_losses(kind, reason)))
        kept_canisters = cut.keep(canisters)
        if summarizes:
            summary = await self._summarize(cut)
            omitted = [canisters[index] for index in cut.omitted]
            document = summary.produce_document(
                omitted, self._request.conversation_id, room=self._room
            )
            kept_canisters = (
                *kept_canisters[: cut.omitted[0]],
                document,
                *kept_canisters[cut.omitted[0] :],
            )
            reason = _compose_reason(cut, room, summary)
        return replace_canisters(self._request, kept_canisters), tuple(
            cut.survey_losses(kind, reason)
        )

    async def _summarize(self, cut: Cut) -> Summary:
        omitted = [self._request.canisters[index] for index in cut.omitted]
        cached, rest = self._find_cached(omitted)
        if not rest:
            return cached
        summary = await summarize(
            self._model.converse,
            self._model.descriptor,
            self._request,
            rest,
            earlier_summary=cached.text,
            room=self._room,
        )
        self._assembler.summaries += summary.origins
        _cache_summary(self._compose_key(omitted), summary)
        return summary

    def _find_cached(self, omitted: Sequence[AnyCanister]) -> tuple[Summary, Sequence[AnyCanister]]:
        """Return the cached summary of as many turns as possible, and the turns after it."""
        # Try the longest first, which leaves the fewest turns to summarize.
        for end in range(len(omitted), 0, -1):
            cached = _summaries.get(self._compose_key(omitted[:end]))
            if cached is not None:
                # Its cost was reported earlier.
                return attrs.evolve(cached, origins=()), omitted[end:]
        return Summary(text=""), omitted

    def _compose_key(self, omitted: Sequence[AnyCanister]) -> tuple[str, ...]:
        return (str(self._model.descriptor), omitted[0].id, omitted[-1].id, str(len(omitted)))

    def _restore_path(self, loss: Loss) -> Loss:
        """Change the path in a loss of the translation to that in the original conversation."""
        if not self._omitted:
            return loss
        omitted = set(self._omitted)
        indices: list[int] = [i for i in range(len(self._request.canisters)) if i not in omitted]
        if self._request.window == "summarize":
            # The summary is in place of the first of these turns.
            indices.insert(self._omitted[0], self._omitted[0])
        return attrs.evolve(
            loss,
            path=re.sub(
                r"^canisters\[(\d+)\]",
                lambda match: f"canisters[{indices[int(match[1])]}]",
                loss.path,
            ),
        )

    def report_new_losses(self, losses: Sequence[Loss]) -> list[StreamEvent]:
        """Return events for losses that were not reported yet."""
        new = [loss for loss in dict.fromkeys(losses) if loss not in self._reported_losses]
        self._reported_losses.update(new)
        return [LossEvent(loss=loss) for loss in new]


def _compose_reason(cut: Cut, room: int, summary: Summary | None = None) -> str:
    count = len(cut.omitted)
    oldest = f"the {count:,} oldest canisters" if count > 1 else "the oldest canister"
    used = "" if summary is None else describe_usage(summary.origins)
    done = "left out" if summary is None else f"summarized by the model{used}"
    return (
        f"{oldest} {'are' if count > 1 else 'is'} {done}: {WINDOW_REASON}, "
        f"which has room for {room:,} tokens of input"
    )


def _cache_summary(key: tuple[str, ...], summary: Summary) -> None:
    _summaries[key] = summary
    while len(_summaries) > _KEPT_SUMMARIES:
        _summaries.popitem(last=False)


class _ShrinkingSource:
    """Event source that shortens the request if the vendor rejects it as too long."""

    def __init__(self, fitter: WindowFitter, source: EventSource) -> None:
        self._fitter = fitter
        self._source = source
        self._has_begun = False
        self._remaining_attempts = _ATTEMPTS

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events. Raises ConverseError."""
        try:
            events = await self._source.receive()
        except ContextOverflowError as error:
            if self._has_begun or not self._remaining_attempts:
                raise
            self._remaining_attempts -= 1
            return await self._send_less(error)
        self._has_begun = self._has_begun or any(
            not isinstance(event, (RetryEvent, LossEvent)) for event in events or ()
        )
        return events

    async def _send_less(self, error: ContextOverflowError) -> Sequence[StreamEvent] | None:
        opened = await self._fitter.shrink(error)
        rejected, self._source = self._source, opened.value
        await rejected.close()
        events = self._fitter.report_new_losses(opened.losses)
        return events or await self.receive()

    def detach(self, when: Callable[[], bool]) -> None:
        """Let the vendor continue a response in the background."""
        detach(self._source, when)

    async def close(self) -> None:
        """Release everything."""
        await self._source.close()

    @property
    def is_spent(self) -> bool:
        """True if there is nothing to release."""
        return bool(getattr(self._source, "is_spent", False))
