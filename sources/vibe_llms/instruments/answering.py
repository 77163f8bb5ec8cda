"""What every instrument does: it answers a conversation.

A :class:`.Model` does it in one call, an :class:`.Engine` in a loop. What is put around them takes
the one as well as the other: a channel adds a conversation that goes on, a parser has an answer
mended until it fits, a batch does it for thousands of inputs.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from vibe_llms.instruments.inputs import Input
from vibe_llms.messages.canisters import AnyCanister, Origin, Usage
from vibe_llms.messages.endings import Shortfall
from vibe_llms.messages.losses import Loss


class Answer(Protocol):
    """What came of answering: a :class:`.Response`, or the :class:`.RunOutcome` of an engine."""

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """What the conversation has grown by."""

    @property
    def answer(self) -> tuple[AnyCanister, ...]:
        """Which of these are the answer; none where there is none."""

    @property
    def text(self) -> str:
        """What was answered, in words."""

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What translations changed or left out."""

    @property
    def origin(self) -> Origin | None:
        """Where the answer came from; ``None`` where nobody was asked."""

    @property
    def usage(self) -> Usage | None:
        """What all of it used, with the summaries made for it; ``None`` where no vendor said."""

    @property
    def is_answered(self) -> bool:
        """Whether it is an answer: it does not wait, and was not cut off, refused or failed."""

    @property
    def shortfall(self) -> Shortfall | None:
        """Why the model's turn is not an answer; ``None`` where it is one, or for other reasons."""


O_co = TypeVar("O_co", bound=Answer, covariant=True)


class Answering(Protocol[O_co]):
    """What answers. How else it can be asked, each says by options of its own."""

    async def answer(self, conversation: Input, /) -> O_co:
        """Answers a conversation, or whatever else can be asked; the given one is as it was.

        Raises:
            ConverseError: No answer, or not to its end.
        """

    async def close(self) -> None:
        """Frees what nobody else needs."""
