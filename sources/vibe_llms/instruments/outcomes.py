"""Outcome of a run of an engine."""

from __future__ import annotations

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.engine.driver import RunEnding
from vibe_llms.engine.states import Reason
from vibe_llms.engine.tails import read_tail
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.reprs import represent
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Origin, Usage
from vibe_llms.messages.views import add_usages, answer_text, text_of, usage_of


@frozen(kw_only=True, eq=False)
class RunOutcome(RunEnding):
    """Outcome of a run, with the fields of :class:`.RunEnding`.

    Attributes:
        conversation: The new state of the conversation; the given one is unchanged.
        canisters: The canisters that the run added, oldest first.
    """

    conversation: Conversation
    canisters: tuple[AnyCanister, ...] = ()

    def __repr__(self) -> str:
        return represent("RunOutcome", (("reason", str(self.reason)), ("text", self.text)))

    @property
    def answer(self) -> tuple[AnyCanister, ...]:
        """The last turn, or the final invocation; empty without an answer."""
        if self.final is not None:
            final_id = self.final.invocation_id
            calls = (each for each in self.canisters if isinstance(each, InvocationCanister))
            return tuple(call for call in calls if call.invocation_id == final_id)
        # Not only the new canisters: an earlier run may have stored the answer before a crash.
        canisters = self.conversation.canisters
        tail = read_tail(canisters)
        return tuple(canisters[tail.start :]) if tail.ends_with_assistant else ()

    @property
    def text(self) -> str:
        """The answer: the final result, or the text of the last turn."""
        return answer_text(self.answer) if self.final is None else text_of(self.final)

    @property
    def is_answered(self) -> bool:
        """True if the run has answered: it is not suspended and reached no limit."""
        return self.reason is Reason.ANSWERED

    @property
    def origin(self) -> Origin | None:
        """The origin of the last answer; ``None`` if the model was not asked."""
        origins = (canister.origin for canister in reversed(self.canisters))
        return next((origin for origin in origins if origin is not None), None)

    @property
    def usage(self) -> Usage | None:
        """Usage of the run, including summaries; ``None`` if no vendor reported any."""
        summaries = (summary.usage for summary in self.summaries)
        return add_usages((usage_of(self.canisters), *summaries))


def price_in_cents(origin: Origin, tier: str = "") -> float | None:
    """Return the cost of an answer, in US cents; ``None`` if no price is known.

    Args:
        tier: The vendor's price tier; empty for the standard tier.
    """
    from vibe_llms.telemetry.prices import Price, price_usage

    price = price_usage(origin.usage, provider=origin.provider, model=origin.model, tier=tier)
    return float(price.amount * 100) if isinstance(price, Price) else None
