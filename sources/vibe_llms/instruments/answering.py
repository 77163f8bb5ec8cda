"""The protocol that all instruments share: answering a conversation.

A :class:`.Model` answers in one call, an :class:`.Engine` in a loop. Wrappers accept either: a
channel continues a conversation, a parser asks again until an answer is valid, and a batch answers
thousands of inputs.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from vibe_llms.instruments.inputs import Input
from vibe_llms.messages.canisters import AnyCanister, Origin, Usage
from vibe_llms.messages.endings import Shortfall
from vibe_llms.messages.losses import Loss


class Answer(Protocol):
    """Result of answering: a :class:`.Response`, or the :class:`.RunOutcome` of an engine."""

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """The canisters added to the conversation."""

    @property
    def answer(self) -> tuple[AnyCanister, ...]:
        """The canisters of the answer; empty without an answer."""

    @property
    def text(self) -> str:
        """The text of the answer."""

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses: changes and omissions by translations."""

    @property
    def origin(self) -> Origin | None:
        """Origin of the answer; ``None`` if no model was asked."""

    @property
    def usage(self) -> Usage | None:
        """Usage of all requests, including summaries; ``None`` if no vendor reported any."""

    @property
    def is_answered(self) -> bool:
        """True if this is an answer: not suspended, cut off, refused or failed."""

    @property
    def shortfall(self) -> Shortfall | None:
        """The reason why the model's turn is not an answer.

        ``None`` if the turn is an answer, or if the reason is outside of the turn.
        """


O_co = TypeVar("O_co", bound=Answer, covariant=True)


class Answering(Protocol[O_co]):
    """An object that answers. Implementations add options of their own."""

    async def answer(self, conversation: Input, /) -> O_co:
        """Answer a conversation or another input, which is not modified.

        Raises:
            ConverseError: No answer, or an incomplete one.
        """

    async def close(self) -> None:
        """Free resources that nothing else uses."""
