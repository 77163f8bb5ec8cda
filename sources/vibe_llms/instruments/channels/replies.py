"""The reply of a channel."""

from __future__ import annotations

from typing import Generic, TypeVar

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.engine.states import Reason, State
from vibe_llms.exceptions import ParseError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.instruments.outcomes import RunOutcome
from vibe_llms.instruments.parsers.modes import ModeChoice
from vibe_llms.invocables.approvals import ApprovalRequest
from vibe_llms.messages.canisters import AnyCanister, Usage
from vibe_llms.messages.views import add_usages

T = TypeVar("T")


@frozen(kw_only=True, eq=False)
class Reply(Generic[T]):
    """Reply of a channel.

    Attributes:
        outcomes: One entry per run: the first run, and a run for each answer that had to be
            corrected.
        choice: The mode of structured output; ``None`` without a parser.
    """

    outcomes: tuple[RunOutcome, ...]
    choice: ModeChoice | None = None
    _value: T | Absence = ABSENT

    @property
    def value(self) -> T:
        """The parsed answer; without a parser, its text.

        Raises:
            ParseError: There is no answer: the run is suspended, reached a limit, or was refused.
        """
        if not isinstance(self._value, Absence):
            return self._value
        raise ParseError(
            detail=f"The reply has no value: {self._explain_absence()}",
            remedy="Resume the channel." if self.is_resumable else "Ask in a different way.",
            text=self.text,
            stage=Stage.EXECUTE,
        )

    @property
    def has_value(self) -> bool:
        """True if :attr:`value` can be read: the model has answered, and the answer is valid."""
        return not isinstance(self._value, Absence)

    @property
    def outcome(self) -> RunOutcome:
        """Outcome of the last run."""
        return self.outcomes[-1]

    @property
    def conversation(self) -> Conversation:
        """The conversation after the last run; continue from here."""
        return self.outcome.conversation

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.outcome.text

    @property
    def requests(self) -> tuple[ApprovalRequest, ...]:
        """Open approval requests, for which the run is suspended."""
        return self.outcome.requests

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """The canisters that the runs added to the conversation."""
        return tuple(canister for outcome in self.outcomes for canister in outcome.canisters)

    @property
    def usage(self) -> Usage | None:
        """Usage of all runs; ``None`` if no vendor reported any."""
        return add_usages(outcome.usage for outcome in self.outcomes)

    @property
    def is_resumable(self) -> bool:
        """True if the run can be resumed: it waits for an approval, or reached a limit."""
        return self.outcome.state is State.AWAIT or self.outcome.reason is Reason.LIMIT

    def _explain_absence(self) -> str:
        if self.outcome.state is State.AWAIT:
            return f"{len(self.requests)} invocations await approval."
        return self.outcome.detail or f"the run ended ({self.outcome.reason})."
