"""Requests that exceed the model's window: send them without their oldest turns.

Two signs show that one does: the estimate of its tokens, before it is sent, and the vendor's
error, after which it is shortened further and sent again. :mod:`vibe_llms.models.windows` decides
which turns to leave out; here they are left out, or summarized by the same model.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

import attrs

from vibe_llms.events.stream import LossEvent, RetryEvent, StreamEvent
from vibe_llms.exceptions import ContextOverflowError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister
from vibe_llms.messages.losses import Loss, LossKind, Translation, refuse_losses
from vibe_llms.messages.requests import Request, replace_canisters
from vibe_llms.models.windows import Cut, cut_oldest, measure_canisters, measure_room, surely_fits
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.streams import EventSource
from vibe_llms.providers.summaries import SUMMARY_TITLE, SUMMARY_TOKENS, Summary, summarize

_ATTEMPTS: Final = 4
"""How often a conversation is shortened further when the vendor still rejects it."""
_KEPT_SUMMARIES: Final = 64

_summaries: OrderedDict[tuple[str, ...], Summary] = OrderedDict()
"""This process's summaries, by the model and the ids of the canisters that they replace.

So a conversation is not summarized again at each turn. They are stored nowhere else: a summary is
not part of the conversation, and ``/compact`` makes a conversation that begins with one.
"""


class WindowedModel(ConverserModel, Protocol):
    """Model whose requests are fitted into its window."""

    def complete_controls(self, request: Request) -> Mapping[str, JsonValue]:
        """Return the controls of a request, with the model's defaults."""

    async def open(self, request: Request, *, streaming: bool) -> Translation[EventSource]:
        """Translate and send an unchanged request. Raises ConverseError."""


def cut_request(request: Request, model: WindowedModel) -> Request:
    """Return the request as it would be sent by the estimate: without the turns that are too much.

    Raises:
        TranslationLossError: Turns would be left out, and the request is strict.
    """
    attributes = model.descriptor.attributes
    room, _ = measure_room(attributes, model.complete_controls(request))
    if room is None or surely_fits(request, attributes, room):
        return request
    sizes, rest = measure_canisters(request, attributes)
    cut = cut_oldest(request.canisters, sizes, room - rest)
    if not cut.omitted:
        return request
    if request.strict:
        refuse_losses(tuple(cut.survey_losses(LossKind.DROPPED, _compose_reason(cut, room))))
    return replace_canisters(request, cut.keep(request.canisters))


class Fitting:
    """Fits one request into the window of a model.

    Args:
        assembler: Notes the summaries that were requested.
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
        self._gone: tuple[int, ...] = ()
        self._told: set[Loss] = set()

    async def open(self) -> Translation[EventSource]:
        """Send the part that fits by the estimate. Raises ConverseError."""
        room, attributes = self._room, self._model.descriptor.attributes
        self._needs_cut = room is not None and not surely_fits(self._request, attributes, room)
        opened = await self._open()
        self._told.update(opened.losses)
        return Translation(_FittingSource(self, opened.value), opened.losses)

    async def shrink(self, error: ContextOverflowError) -> Translation[EventSource]:
        """Send less, after the vendor has rejected the request.

        Raises:
            ContextOverflowError: Nothing more can be left out: the given error.
            ConverseError: Any other error of sending.
        """
        former = self._gone
        self._learn_room(error)
        cut = self._cut()
        # The same request would be rejected again.
        if len(cut.omitted) <= len(former):
            raise error
        return await self._open()

    @cached_property
    def _measures(self) -> tuple[list[int], int]:
        """The sizes of the canisters, and of the rest; counted when turns must be left out."""
        return measure_canisters(self._request, self._model.descriptor.attributes)

    def _learn_room(self, error: ContextOverflowError) -> None:
        """Learn the available room from an error, in tokens as estimated here."""
        sizes, rest = self._measures
        gone = set(self._gone)
        sent = rest + sum(size for index, size in enumerate(sizes) if index not in gone)
        # Our estimate was too low, and not every vendor says by how much: a quarter less each time.
        room = sent * 3 // 4
        if error.tokens and error.limit and error.tokens > error.limit:
            # The limit includes the answer, but that must not take the whole window.
            told = max(error.limit - self._output, error.limit // 2)
            # The vendor's count and our estimate are of the same request, so scale one by the
            # other.
            room = min(room, sent * told // error.tokens)
        self._room, self._needs_cut = max(room, 1), True

    def _cut(self) -> Cut:
        if self._room is None or not self._needs_cut:
            return Cut()
        sizes, rest = self._measures
        room = self._room - rest
        cut = cut_oldest(self._request.canisters, sizes, room)
        if not cut.omitted or self._request.window != "summarize":
            return cut
        # If turns are left out, the summary needs room, too, for which more may have to be left
        # out.
        return cut_oldest(self._request.canisters, sizes, max(room - SUMMARY_TOKENS, room // 2))

    async def _open(self) -> Translation[EventSource]:
        for _ in range(_ATTEMPTS):
            cut = self._cut()
            fitted, losses = await self._fit(cut)
            try:
                opened = await self._model.open(fitted, streaming=self._streaming)
            except ContextOverflowError as error:  # some models know it before they send anything
                self._learn_room(error)
                if len(self._cut().omitted) <= len(cut.omitted):
                    raise
                continue
            moved = (self._restore_path(loss) for loss in opened.losses)
            return Translation(opened.value, (*losses, *moved))
        raise AssertionError

    async def _fit(self, cut: Cut) -> tuple[Request, tuple[Loss, ...]]:
        self._gone = cut.omitted
        if not cut.omitted:
            return self._request, ()
        canisters = self._request.canisters
        room = self._room or 0
        reason = _compose_reason(cut, room)
        summarizes = self._request.window == "summarize"
        kind = LossKind.COERCED if summarizes else LossKind.DROPPED
        if self._request.strict:
            refuse_losses(tuple(cut.survey_losses(kind, reason)))
        kept = cut.keep(canisters)
        if summarizes:
            summary = await self._summarize(cut)
            document = DocumentCanister(summary.text, title=SUMMARY_TITLE)
            kept = (*kept[: cut.omitted[0]], document, *kept[cut.omitted[0] :])
            reason = _compose_reason(cut, room, summary)
        return replace_canisters(self._request, kept), tuple(cut.survey_losses(kind, reason))

    async def _summarize(self, cut: Cut) -> Summary:
        gone = [self._request.canisters[index] for index in cut.omitted]
        known, rest = self._find_known(gone)
        if not rest:
            return known
        chunk = max((self._room or 0) // 2, 1)
        summary = await summarize(self._model, self._request, rest, known.text, chunk)
        self._assembler.summaries += summary.origins
        _keep(self._name(gone), summary)
        return summary

    def _find_known(self, gone: Sequence[AnyCanister]) -> tuple[Summary, Sequence[AnyCanister]]:
        """Return the cached summary of as many turns as possible, and the turns after it."""
        # The longest first, which leaves the least to summarize.
        for end in range(len(gone), 0, -1):
            known = _summaries.get(self._name(gone[:end]))
            if known is not None:
                return attrs.evolve(known, origins=()), gone[end:]  # it was paid for earlier
        return Summary(text=""), gone

    def _name(self, gone: Sequence[AnyCanister]) -> tuple[str, ...]:
        return (str(self._model.descriptor), gone[0].id, gone[-1].id, str(len(gone)))

    def _restore_path(self, loss: Loss) -> Loss:
        """Change the path in a loss of the translation to that in the original conversation."""
        if not self._gone:
            return loss
        gone = set(self._gone)
        places: list[int] = [i for i in range(len(self._request.canisters)) if i not in gone]
        if self._request.window == "summarize":
            places.insert(self._gone[0], self._gone[0])  # of the summary, which has no other path
        return attrs.evolve(
            loss,
            path=re.sub(
                r"^canisters\[(\d+)\]",
                lambda found: f"canisters[{places[int(found[1])]}]",
                loss.path,
            ),
        )

    def take_new(self, losses: Sequence[Loss]) -> list[StreamEvent]:
        """Return events for losses that were not reported yet."""
        new = [loss for loss in dict.fromkeys(losses) if loss not in self._told]
        self._told.update(new)
        return [LossEvent(loss=loss) for loss in new]


def _compose_reason(cut: Cut, room: int, summary: Summary | None = None) -> str:
    count = len(cut.omitted)
    oldest = f"the {count:,} oldest canisters" if count > 1 else "the oldest canister"
    done = "left out" if summary is None else f"summarized by the model{summary.describe_usage()}"
    return (
        f"{oldest} {'are' if count > 1 else 'is'} {done}: the conversation exceeds the model's "
        f"window, which has room for {room:,} tokens of input"
    )


def _keep(name: tuple[str, ...], summary: Summary) -> None:
    _summaries[name] = summary
    while len(_summaries) > _KEPT_SUMMARIES:
        _summaries.popitem(last=False)


class _FittingSource:
    """An event source that sends less if the vendor rejects the request before any answer."""

    def __init__(self, fitting: Fitting, source: EventSource) -> None:
        self._fitting = fitting
        self._source = source
        self._has_begun = False
        self._left = _ATTEMPTS

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events. Raises ConverseError."""
        try:
            events = await self._source.receive()
        except ContextOverflowError as error:
            if self._has_begun or not self._left:
                raise
            self._left -= 1
            return await self._send_less(error)
        self._has_begun = self._has_begun or any(
            not isinstance(event, (RetryEvent, LossEvent)) for event in events or ()
        )
        return events

    async def _send_less(self, error: ContextOverflowError) -> Sequence[StreamEvent] | None:
        opened = await self._fitting.shrink(error)
        refused, self._source = self._source, opened.value
        await refused.close()
        events = self._fitting.take_new(opened.losses)
        return events or await self.receive()

    async def close(self) -> None:
        """Release everything."""
        await self._source.close()

    @property
    def is_spent(self) -> bool:
        """True if there is nothing to release."""
        return bool(getattr(self._source, "is_spent", False))
