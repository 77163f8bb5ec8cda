"""The dialogue with a model until its answer fits, or there have been enough attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import attrs

from vibe_llms.instruments.parsers.choosing import Choice, Mode
from vibe_llms.instruments.parsers.kinds import Unfit
from vibe_llms.instruments.parsers.parsers import Parser, is_hopeless
from vibe_llms.invocables.validation import Fault
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
from vibe_llms.messages.views import usage_of

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Attempt:
    """One answer, and what is wrong with it.

    Attributes:
        number: Counted from 1.
        faults: Nothing where the answer fits.
        is_last: No further answer is asked for.
    """

    number: int
    response: Response
    faults: tuple[Fault, ...] = ()
    is_last: bool


@attrs.frozen(kw_only=True)
class Parsed(Generic[T]):
    """A value, and how it came to be.

    Attributes:
        choice: By which mode, and why.
        attempts: All answers, the last of which became the value.
    """

    value: T
    choice: Choice
    attempts: tuple[Attempt, ...]

    @property
    def response(self) -> Response:
        """The answer that became the value."""
        return self.attempts[-1].response

    @property
    def usage(self) -> Usage | None:
        """What all attempts used together; ``None`` where no vendor said."""
        return usage_of([each for one in self.attempts for each in one.response.canisters])

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the translations lost on the way, such as parts of the schema."""
        return tuple(dict.fromkeys(each for one in self.attempts for each in one.response.losses))


Listener = Callable[[Attempt], object]


@attrs.define
class Dialogue(Generic[T]):
    """What has been asked and answered so far, and what is to be asked next.

    Attributes:
        request: To be sent next.
        listener: Hears of each attempt.
    """

    parser: Parser[T]
    request: Request
    choice: Choice
    listener: Listener | None = None
    attempts: list[Attempt] = attrs.field(factory=list, init=False)

    async def take(self, response: Response, *, is_last: bool = False) -> Parsed[T] | None:
        """Reads an answer; ``None`` where it does not fit and ``request`` asks to mend it.

        Args:
            is_last: There shall be no further attempt.

        Raises:
            ParseError: It does not fit, and that was the last attempt.
        """
        try:
            value = await self.parser.judge(response)
        except Unfit as unfit:
            is_last |= len(self.attempts) + 1 >= self.parser.attempts or is_hopeless(response)
            self._note(response, unfit.faults, is_last=is_last)
            if is_last:
                answers = [attempt.response for attempt in self.attempts]
                raise self.parser.fail(answers, unfit) from unfit
            words = self._compose_words(unfit.faults)
            canisters = (*self.request.canisters, *response.canisters, *reply(response, words))
            self.request = attrs.evolve(self.request, canisters=canisters)
            return None
        self._note(response, (), is_last=True)
        return Parsed(value=value, choice=self.choice, attempts=tuple(self.attempts))

    def _note(self, response: Response, faults: Sequence[Fault], *, is_last: bool) -> None:
        attempt = Attempt(
            number=len(self.attempts) + 1,
            response=response,
            faults=tuple(faults),
            is_last=is_last,
        )
        self.attempts.append(attempt)
        if self.listener is not None:
            self.listener(attempt)

    def _compose_words(self, faults: Sequence[Fault]) -> str:
        return compose_words(self.parser, self.choice.mode, faults)


def compose_words(parser: Parser[T], mode: Mode, faults: Sequence[Fault]) -> str:
    """Quotes what is wrong with an answer, and asks to mend it."""
    lines = "\n".join(f"- {fault}" for fault in faults)
    way = (
        f"Call {parser.name} again with the whole answer, mended."
        if mode is Mode.TOOL
        else "Give the whole answer again, mended, as JSON and with nothing else."
    )
    return f"Your answer does not fit:\n{lines}\n{way}"


def reply(response: Response, words: str) -> tuple[AnyCanister, ...]:
    """Says something to an answer: as the result of what it invoked, else as the user."""
    results = tuple(
        ResultCanister(
            words, invocation_id=canister.invocation_id, name=canister.name, is_error=True
        )
        for canister in response.canisters
        if isinstance(canister, InvocationCanister) and canister.owner is Owner.OURS
    )
    return results or (UserCanister(words),)


async def converse(
    ask: Callable[[Request], Awaitable[Response]], dialogue: Dialogue[T]
) -> Parsed[T]:
    """Asks until an answer fits.

    Raises:
        ParseError: None did.
        ConverseError: No answer, or not to its end.
    """
    while True:
        parsed = await dialogue.take(await ask(dialogue.request))
        if parsed is not None:
            return parsed
