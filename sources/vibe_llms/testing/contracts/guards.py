"""Contract of guards: inherit it, implement the factory, and run it with pytest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import GuardError
from vibe_llms.guards.active import ActiveGuard, redact
from vibe_llms.guards.streams import watch_stream
from vibe_llms.messages.canisters import StopReason
from vibe_llms.plugins.specification.guards import (
    Guard,
    GuardedPart,
    GuardRefusal,
    Inspection,
    Redaction,
)
from vibe_llms.providers.assembly import Assembler
from vibe_llms.testing.contracts.promises import BrokenPromise, describe, require

_PARTS: tuple[GuardedPart, ...] = ("request", "answer", "arguments")
_SIZES = (1, 3, 17, 10_000)
_PADDING = "All is well, and so it goes on. " * 20


class GuardContract:
    """Contract of every guard; override ``produce_guard`` to make the one under test.

    Attributes:
        clean: A text in which the guard finds nothing.
        caught: A text in which it finds something.
        secret: The part of ``caught`` that may not pass, be it in a marked text or in a reason.
    """

    clean: ClassVar[str] = "The tide is low at noon."
    caught: ClassVar[str]
    secret: ClassVar[str]

    def produce_guard(self) -> Guard:
        """Make a guard."""
        raise NotImplementedError

    def test_its_window_is_a_number_or_the_whole_answer(self) -> None:
        """So much of a stream is held back."""
        window = self.produce_guard().window
        is_valid = window is None or (isinstance(window, int) and window > 0)
        remedy = "Return a positive number of characters, or None for the whole answer."
        require(is_valid, f"The window is {window!r}.", remedy)

    def test_a_clean_text_passes_in_every_part(self) -> None:
        """Nothing is found in it, nor in no texts."""
        for part in _PARTS:
            for texts in ((), (self.clean,), (self.clean, "", " \n")):
                verdict = self._examine(Inspection(part=part, texts=texts))
                problem = f"It finds {verdict!r} in {texts!r}."
                require(_is_empty(verdict), problem, "Return an empty list.")

    def test_a_secret_is_found_in_every_part(self) -> None:
        """Also if it is not in the first text."""
        for part in _PARTS:
            texts = (self.clean, self.caught)
            verdict = self._examine(Inspection(part=part, texts=texts))
            problem = f"It finds nothing in a text of the {part}."
            require(not _is_empty(verdict), problem, "Look at all texts of the inspection.")
            if not isinstance(verdict, GuardRefusal):
                self._check_redactions(texts, verdict)

    def test_marks_and_reasons_do_not_have_the_secret(self) -> None:
        """They are in losses and errors."""
        verdict = self._examine(Inspection(part="request", texts=(self.caught,)))
        problem = "A mark or a reason has the secret."
        remedy = "Say what was found, and not the text itself."
        require(self.secret not in repr(verdict), problem, remedy)

    def test_a_marked_text_is_clean(self) -> None:
        """Requests repeat what was marked in earlier answers."""
        marked = self._mark(self.caught)
        if marked is not None:
            problem = f"It finds something in its own mark: {marked!r}."
            require(self._mark(marked) == marked, problem, "Choose another mark.")

    def test_what_was_delivered_is_only_context(self) -> None:
        """Findings before ``begin`` are ignored, and do not hide later ones."""
        text = f"{self.caught} {self.caught}"
        begin = len(self.caught) + 1
        verdict = self._examine(Inspection(part="answer", texts=(text,), begin=begin))
        problem = "It does not find a secret after one that was delivered."
        found = verdict if isinstance(verdict, GuardRefusal) else self._select(verdict, begin)
        require(found, problem, "Search from inspection.begin on.")

    def test_a_stream_has_the_same_marks_however_it_is_split(self) -> None:
        """The window is long enough to recognize everything."""
        text = f"{_PADDING}{self.caught} {_PADDING}"
        whole = self._mark(text)
        splits = {f"pieces of {size} characters": _cut(text, size) for size in _SIZES}
        for form, pieces in {**splits, "lines": text.splitlines(keepends=True)}.items():
            streamed = asyncio.run(self._stream(pieces))
            problem = f"In {form}, the text is {streamed!r}, not {whole!r}."
            require(streamed == whole, problem, "Enlarge the window.")

    def test_several_examinations_at_once_do_not_mix(self) -> None:
        """Requests are examined concurrently."""

        async def check() -> list[bool]:
            guard = self.produce_guard()
            texts = [self.clean, self.caught] * 8
            inspections = [Inspection(part="request", texts=(text,)) for text in texts]
            return list(map(_is_empty, await asyncio.gather(*map(guard.examine, inspections))))

        found = asyncio.run(check())
        remedy = "Keep no state of an examination in the guard."
        require(found == [True, False] * 8, "Concurrent examinations mix up.", remedy)

    def _select(self, verdict: Sequence[Redaction], begin: int) -> list[Redaction]:
        return [each for each in verdict if each.start >= begin]

    def _check_redactions(self, texts: Sequence[str], verdict: Sequence[Redaction]) -> None:
        for each in verdict:
            is_valid = isinstance(each, Redaction) and 0 <= each.text < len(texts)
            is_valid = is_valid and 0 <= each.start < each.end <= len(texts[each.text])
            remedy = "Return spans of the text whose index is in Redaction.text."
            require(is_valid, f"The redaction {each!r} is not in a text.", remedy)
        marked = redact(texts[1], [each for each in verdict if each.text == 1])
        problem = f"The marked text still has the secret: {marked!r}."
        require(self.secret not in marked, problem, "Return the whole span.")

    def _examine(self, inspection: Inspection) -> GuardRefusal | Sequence[Redaction]:
        try:
            return asyncio.run(self.produce_guard().examine(inspection))
        except Exception as error:
            raise BrokenPromise(f"examine raises {describe(error)}. Return a verdict.") from error

    def _mark(self, text: str) -> str | None:
        """Return the marked text; ``None`` if the guard refuses it."""
        inspection = Inspection(part="answer", texts=(text,))
        try:
            return redact(text, asyncio.run(self._activate().examine(inspection)))
        except GuardError:
            return None

    def _activate(self) -> ActiveGuard:
        return ActiveGuard(name="guard", guard=self.produce_guard(), parts=frozenset(_PARTS))

    async def _stream(self, pieces: Sequence[str]) -> str | None:
        """Return the text of a stream that was held back; ``None`` if it is refused."""
        stream = watch_stream(self._activate(), Inspection(part="answer", texts=()))
        passed: list[str] = []
        try:
            for event in _tell(pieces):
                events = await stream.feed([event])
                passed += [each.text for each in events if isinstance(each, ContentDeltaEvent)]
        except GuardError:
            return self.secret if self.secret in "".join(passed) else None
        return "".join(passed)


def _is_empty(verdict: GuardRefusal | Sequence[Redaction]) -> bool:
    return not isinstance(verdict, GuardRefusal) and not verdict


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _tell(pieces: Sequence[str]) -> Iterator[StreamEvent]:
    """Yield the events of an answer in pieces."""
    assembler = Assembler(provider="contract", model="guard")
    yield assembler.feed(ContentStartedEvent(index=0, kind="text"))
    for piece in pieces:
        yield assembler.feed(ContentDeltaEvent(0, piece))
    yield assembler.feed(ContentFinishedEvent(index=0))
    yield assembler.feed(ResponseFinishedEvent(stop_reason=StopReason.ANSWERED))
