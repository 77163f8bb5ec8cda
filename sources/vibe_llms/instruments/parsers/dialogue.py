"""Dialogue with a model until its answer is valid, or the attempts are used up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, cast

import attrs

from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.instruments.answering import Answer
from vibe_llms.instruments.parsers.modes import Mode, ModeChoice
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.instruments.parsers.target_types import Unfit
from vibe_llms.invocables.argument_faults import ArgumentFault
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
    """One answer, and its faults.

    Attributes:
        number: Number of the attempt, from 1.
        response: The answer.
        faults: The faults of the answer; empty if it is valid.
        is_last: True if no further answer is requested.
    """

    number: int
    response: Response
    faults: tuple[ArgumentFault, ...] = ()
    is_last: bool


@frozen(kw_only=True)
class Parsed(Generic[T]):
    """A value with the attempts that led to it.

    Attributes:
        value: The value, of the requested type.
        choice: The mode, and its reason.
        attempts: All answers; the last one became the value.
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
        """Usage of all attempts; ``None`` if no vendor reported any."""
        return add_usages(attempt.response.usage for attempt in self.attempts)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses in the translations, such as parts of the schema."""
        return tuple(dict.fromkeys(each for one in self.attempts for each in one.response.losses))


Listener = Callable[[ParseAttempt], object]


Say = Callable[[Sequence[AnyCanister]], Awaitable[_Out]]
"""Function that adds canisters to a conversation and has it answered; at first there may be none to
add."""


@define(kw_only=True)
class Repair(Generic[T, _Out]):
    """Corrects answers until one is valid; wraps a model as well as an engine.

    Attributes:
        outcomes: All answers; the last one is valid, or was the last attempt.
        mending: The message that asks to correct the last answer, if it is invalid.
        value: Of the valid answer; ``ABSENT`` before.
    """

    parser: Parser[T]
    choice: ModeChoice
    outcomes: list[_Out] = attrs.field(factory=list, init=False)
    mending: Sequence[AnyCanister] = attrs.field(default=(), init=False)
    value: T | Absence = attrs.field(default=ABSENT, init=False)

    async def answer(self, answer: Say[_Out], said: Sequence[AnyCanister] = ()) -> T:
        """Ask until an answer is valid, and return its value.

        Raises:
            ParseError: No answer is valid.
            ConverseError: No answer, or an incomplete one.
        """
        while not await self.take(await answer(said)):
            said = self.mending
        return cast("T", self.value)

    async def take(self, outcome: _Out, *, is_last: bool = False) -> bool:
        """Check an answer; if it is valid set the value, else set ``mending``.

        Args:
            is_last: No further attempt follows.

        Raises:
            ParseError: The answer is invalid, and that was the last attempt.
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
        """Called with each answer and its faults."""


@define(kw_only=True)
class Dialogue(Repair[T, Response], Generic[T]):
    """Requests to a model with their answers, and the next request.

    Attributes:
        request: The next request.
        listener: Called with each attempt.
        attempts: The attempts so far.
    """

    request: Request
    listener: Listener | None = None
    attempts: list[ParseAttempt] = attrs.field(factory=list, init=False)

    @property
    def parsed(self) -> Parsed[T] | None:
        """The value with its attempts; ``None`` while no answer is valid."""
        if isinstance(self.value, Absence):
            return None
        return Parsed(value=self.value, choice=self.choice, attempts=tuple(self.attempts))

    async def converse(self, ask: Callable[[Request], Awaitable[Response]]) -> Parsed[T]:
        """Ask until an answer is valid. Raises as :meth:`answer` does."""
        await self.answer(lambda _: ask(self.request))
        return cast("Parsed[T]", self.parsed)

    async def take(self, outcome: Response, *, is_last: bool = False) -> bool:
        """Check an answer; if it is invalid, ``request`` asks to correct it."""
        fits = await super().take(outcome, is_last=is_last)
        if not fits:
            self.request = self.request.extend((*outcome.canisters, *self.mending))
        return fits

    def note(self, outcome: Response, faults: Sequence[ArgumentFault], *, is_last: bool) -> None:
        """Keep an attempt, and pass it to the listener."""
        number = len(self.outcomes)
        attempt = ParseAttempt(
            number=number, response=outcome, faults=tuple(faults), is_last=is_last
        )
        self.attempts.append(attempt)
        if self.listener is not None:
            self.listener(attempt)


def compose_words(parser: Parser[T], mode: Mode, faults: Sequence[ArgumentFault]) -> str:
    """Quote the faults of an answer, and ask to correct it."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    way = (
        f"Call {parser.name} again with the whole, corrected answer."
        if mode is Mode.TOOL
        else "Give the whole, corrected answer again, as JSON and nothing else."
    )
    return f"Your answer is invalid:\n{lines}\n{way}"


def reply(answer: Sequence[AnyCanister], words: str) -> tuple[AnyCanister, ...]:
    """Reply to an answer: as the result of its call, else as the user."""
    done = {each.invocation_id for each in answer if isinstance(each, ResultCanister)}
    # Each call needs a result: vendors reject conversations with a missing result.
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
