"""Dialogue with a model until its answer is valid, or no attempts are left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, cast

import attrs

from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.instruments.answering import Answer
from vibe_llms.instruments.parsers.modes import Mode, ModeChoice
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.instruments.parsers.target_types import InvalidAnswer
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
    """One answer with its faults.

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
        attempts: All answers; the last one is valid.
    """

    value: T
    choice: ModeChoice
    attempts: tuple[ParseAttempt, ...]

    @property
    def response(self) -> Response:
        """The valid answer."""
        return self.attempts[-1].response

    @property
    def usage(self) -> Usage | None:
        """Usage of all attempts; ``None`` if no vendor reported any."""
        return add_usages(attempt.response.usage for attempt in self.attempts)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses in the translations, such as parts of the schema."""
        losses = (loss for attempt in self.attempts for loss in attempt.response.losses)
        return tuple(dict.fromkeys(losses))  # each loss once


Listener = Callable[[ParseAttempt], object]

AddAndAnswer = Callable[[Sequence[AnyCanister]], Awaitable[_Out]]
"""Function that adds canisters to a conversation, at first possibly none, and answers it."""


@define(kw_only=True)
class Repair(Generic[T, _Out]):
    """Corrects answers until one is valid; wraps a model as well as an engine.

    Attributes:
        outcomes: All answers so far.
        correction: The message that asks to correct the last answer, if it is invalid.
        value: The value of the valid answer; ``ABSENT`` as long as there is none.
    """

    parser: Parser[T]
    choice: ModeChoice
    outcomes: list[_Out] = attrs.field(factory=list, init=False)
    correction: Sequence[AnyCanister] = attrs.field(default=(), init=False)
    value: T | Absence = attrs.field(default=ABSENT, init=False)

    async def answer(self, answer: AddAndAnswer[_Out], canisters: Sequence[AnyCanister] = ()) -> T:
        """Ask until an answer is valid, and return its value.

        Args:
            answer: Answers the conversation with further canisters.
            canisters: The first canisters to add.

        Raises:
            ParseError: No answer is valid.
            ConverseError: No answer, or an incomplete one.
        """
        while not await self.check(await answer(canisters)):
            canisters = self.correction
        return cast("T", self.value)

    async def check(self, outcome: _Out, *, is_last: bool = False) -> bool:
        """Return whether an answer is valid; set the value, or else ``correction``.

        Args:
            is_last: No further attempt follows, even if some are left.

        Raises:
            ParseError: The answer is invalid, and that was the last attempt.
        """
        self.outcomes.append(outcome)
        try:
            self.value = await self.parser.validate(outcome.answer)
        except InvalidAnswer as invalid:
            no_attempts_left = len(self.outcomes) >= self.parser.attempts
            is_last = is_last or no_attempts_left or not outcome.is_answered
            self.record(outcome, invalid.faults, is_last=is_last)
            if is_last:
                raise self.parser.produce_error(self.outcomes, invalid) from invalid
            text = compose_correction(self.parser, self.choice.mode, invalid.faults)
            self.correction = compose_reply(outcome.canisters, text)
            return False
        self.record(outcome, (), is_last=True)
        return True

    def record(self, outcome: _Out, faults: Sequence[ArgumentFault], *, is_last: bool) -> None:
        """Called with each answer and its faults; does nothing by default."""


@define(kw_only=True)
class Dialogue(Repair[T, Response], Generic[T]):
    """Corrects the answers of a model: each attempt is a request.

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

    async def check(self, outcome: Response, *, is_last: bool = False) -> bool:
        """Return whether an answer is valid; if not, ``request`` asks to correct it."""
        is_valid = await super().check(outcome, is_last=is_last)
        if not is_valid:
            self.request = self.request.extend((*outcome.canisters, *self.correction))
        return is_valid

    def record(self, outcome: Response, faults: Sequence[ArgumentFault], *, is_last: bool) -> None:
        """Store an attempt, and pass it to the listener."""
        number = len(self.outcomes)
        attempt = ParseAttempt(
            number=number, response=outcome, faults=tuple(faults), is_last=is_last
        )
        self.attempts.append(attempt)
        if self.listener is not None:
            self.listener(attempt)


def compose_correction(parser: Parser[T], mode: Mode, faults: Sequence[ArgumentFault]) -> str:
    """Return a text for the model that lists the faults of its answer and asks for a correction."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    instruction = (
        f"Call {parser.name} again with the whole, corrected answer."
        if mode is Mode.TOOL
        else "Give the whole, corrected answer again, as JSON and nothing else."
    )
    return f"Your answer is invalid:\n{lines}\n{instruction}"


def compose_reply(answer: Sequence[AnyCanister], text: str) -> tuple[AnyCanister, ...]:
    """Reply with a text to an answer: as the result of each of its calls, else as the user."""
    with_result = {each.invocation_id for each in answer if isinstance(each, ResultCanister)}
    # Each call needs a result: vendors reject conversations with a missing result.
    results = tuple(
        ResultCanister(
            text, invocation_id=canister.invocation_id, name=canister.name, is_error=True
        )
        for canister in answer
        if isinstance(canister, InvocationCanister)
        and canister.owner is Owner.OURS
        and canister.invocation_id not in with_result
    )
    return results or (UserCanister(text),)
