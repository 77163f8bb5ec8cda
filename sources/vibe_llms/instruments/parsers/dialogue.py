"""The dialogue with a model until its answer fits, or there have been enough attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, cast

import attrs

from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.instruments.answering import Answer
from vibe_llms.instruments.parsers.choosing import Mode, ModeChoice
from vibe_llms.instruments.parsers.kinds import Unfit
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.invocables.validation import ArgumentFault
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import add_usages

T = TypeVar("T")
_Out = TypeVar("_Out", bound=Answer)


@frozen(kw_only=True)
class ParseAttempt:
    """One answer, and what is wrong with it.

    Attributes:
        number: Which attempt, counted from 1.
        response: The answer.
        faults: What does not fit; empty where all does.
        is_last: Whether no further answer is asked for.
    """

    number: int
    response: Response
    faults: tuple[ArgumentFault, ...] = ()
    is_last: bool


@frozen(kw_only=True)
class Parsed(Generic[T]):
    """A value, and how it came to be.

    Attributes:
        value: The value, of the type that was asked for.
        choice: By which mode, and why.
        attempts: All answers, the last of which became the value.
    """

    value: T
    choice: ModeChoice
    attempts: tuple[ParseAttempt, ...]

    @property
    def response(self) -> Response:
        """The answer that became the value."""
        return self.attempts[-1].response

    @property
    def usage(self) -> Usage | None:
        """What all attempts used together; ``None`` where no vendor said."""
        return add_usages(attempt.response.usage for attempt in self.attempts)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the translations lost on the way, such as parts of the schema."""
        return tuple(dict.fromkeys(each for one in self.attempts for each in one.response.losses))


Listener = Callable[[ParseAttempt], object]


Say = Callable[[Sequence[AnyCanister]], Awaitable[_Out]]
"""Has a conversation answered after something more was said; at first there may be nothing."""


@define(kw_only=True)
class Repair(Generic[T, _Out]):
    """Has answers mended until one fits; goes around a model as well as around an engine.

    Attributes:
        outcomes: All answers, the last of which fits, or was the last attempt.
        mending: What is to be said to the last one, where that does not fit.
        value: Of the one that fits; ``ABSENT`` before.
    """

    parser: Parser[T]
    choice: ModeChoice
    outcomes: list[_Out] = attrs.field(factory=list, init=False)
    mending: Sequence[AnyCanister] = attrs.field(default=(), init=False)
    value: T | Absence = attrs.field(default=ABSENT, init=False)

    async def answer(self, answer: Say[_Out], said: Sequence[AnyCanister] = ()) -> T:
        """Asks until an answer fits, and returns its value.

        Raises:
            ParseError: None did.
            ConverseError: No answer, or not to its end.
        """
        while not await self.take(await answer(said)):
            said = self.mending
        return cast("T", self.value)

    async def take(self, outcome: _Out, *, is_last: bool = False) -> bool:
        """Tells whether an answer fits: then there is a value; else ``mending`` is to be said.

        Args:
            is_last: There shall be no further attempt.

        Raises:
            ParseError: It does not fit, and that was the last attempt.
        """
        self.outcomes.append(outcome)
        try:
            self.value = await self.parser.judge(outcome.answer)
        except Unfit as unfit:
            is_out = len(self.outcomes) >= self.parser.attempts
            is_last = is_last or is_out or not outcome.is_answered
            self.note(outcome, unfit.faults, is_last=is_last)
            if is_last:
                raise self.parser.fail(self.outcomes, unfit) from unfit
            words = compose_words(self.parser, self.choice.mode, unfit.faults)
            self.mending = reply(outcome.canisters, words)
            return False
        self.note(outcome, (), is_last=True)
        return True

    def note(self, outcome: _Out, faults: Sequence[ArgumentFault], *, is_last: bool) -> None:
        """Hears of each answer, and of what is wrong with it."""


@define(kw_only=True)
class Dialogue(Repair[T, Response], Generic[T]):
    """What has been asked of a model and answered so far, and what is to be asked next.

    Attributes:
        request: To be sent next.
        listener: Hears of each attempt.
        attempts: So far.
    """

    request: Request
    listener: Listener | None = None
    attempts: list[ParseAttempt] = attrs.field(factory=list, init=False)

    @property
    def parsed(self) -> Parsed[T] | None:
        """The value with all that led to it; ``None`` while no answer fits."""
        if isinstance(self.value, Absence):
            return None
        return Parsed(value=self.value, choice=self.choice, attempts=tuple(self.attempts))

    async def converse(self, ask: Callable[[Request], Awaitable[Response]]) -> Parsed[T]:
        """Asks until an answer fits. Raises what :meth:`answer` does."""
        await self.answer(lambda _: ask(self.request))
        return cast("Parsed[T]", self.parsed)

    async def take(self, outcome: Response, *, is_last: bool = False) -> bool:
        """The same; where an answer does not fit, ``request`` asks to mend it."""
        fits = await super().take(outcome, is_last=is_last)
        if not fits:
            self.request = self.request.extend((*outcome.canisters, *self.mending))
        return fits

    def note(self, outcome: Response, faults: Sequence[ArgumentFault], *, is_last: bool) -> None:
        """Keeps an attempt, and tells of it."""
        number = len(self.outcomes)
        attempt = ParseAttempt(
            number=number, response=outcome, faults=tuple(faults), is_last=is_last
        )
        self.attempts.append(attempt)
        if self.listener is not None:
            self.listener(attempt)


def compose_words(parser: Parser[T], mode: Mode, faults: Sequence[ArgumentFault]) -> str:
    """Quotes what is wrong with an answer, and asks to mend it."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    way = (
        f"Call {parser.name} again with the whole, corrected answer."
        if mode is Mode.TOOL
        else "Give the whole, corrected answer again, as JSON and nothing else."
    )
    return f"Your answer is invalid:\n{lines}\n{way}"


def reply(answer: Sequence[AnyCanister], words: str) -> tuple[AnyCanister, ...]:
    """Says something to an answer: as the result of what it invoked, else as the user."""
    done = {each.invocation_id for each in answer if isinstance(each, ResultCanister)}
    # Each has to get a result: vendors refuse conversations in which one is missing.
    results = tuple(
        ResultCanister(
            words, invocation_id=canister.invocation_id, name=canister.name, is_error=True
        )
        for canister in answer
        if isinstance(canister, InvocationCanister)
        and canister.owner is Owner.OURS
        and canister.invocation_id not in done
    )
    return results or (UserCanister(words),)
