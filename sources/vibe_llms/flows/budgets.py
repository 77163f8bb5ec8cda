"""What the run of a flow has used, and what is left of it for the next who asks.

Each conversation of a visit is counted for itself, as a whole: so what is taken up again counts
once, and what was cut off counts, too. Subflows use what is left of the flow they are part of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

from vibe_llms.events.flow import FlowEndedEvent, NodeFinishedEvent
from vibe_llms.exceptions import LimitError, Stage
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.engines import price_in_cents
from vibe_llms.messages.canisters import AnyCanister, Origin, Usage
from vibe_llms.messages.views import add_usages

BUDGETS: Final[Mapping[str, str]] = {
    "max_requests": "run_steps",
    "max_tokens": "run_tokens",
    "max_cost_cents": "run_cents",
}
"""The budgets of a flow, and what each is called as a limit of a visit's engine."""


@frozen(kw_only=True)
class Spending:
    """What answers of models have used.

    Attributes:
        requests: How many there were.
        usage: ``None`` where no vendor said.
        cost_cents: In US cents; ``None`` where no price is known.
    """

    requests: int = 0
    usage: Usage | None = None
    cost_cents: float | None = None

    def __add__(self, other: Spending) -> Spending:
        if not other.requests:
            return self
        costs = [each for each in (self.cost_cents, other.cost_cents) if each is not None]
        return Spending(
            requests=self.requests + other.requests,
            usage=add_usages((self.usage, other.usage)),
            cost_cents=sum(costs) if costs else None,
        )

    @property
    def tokens(self) -> int:
        """Input and output, as far as vendors have said."""
        usage = self.usage
        if usage is None:
            return 0
        return (usage.total_input_tokens or 0) + (usage.total_output_tokens or 0)


def measure(canisters: Sequence[AnyCanister]) -> Spending:
    """Adds up what the answers in a conversation used."""
    origins: dict[str, Origin] = {}
    for canister in canisters:
        origin = canister.origin
        if origin is not None:
            # The canisters of a turn share one origin, which counts once.
            origins.setdefault(canister.turn_id or canister.id, origin)
    costs = [cost for each in origins.values() if (cost := price_in_cents(each)) is not None]
    return Spending(
        requests=len(origins),
        usage=add_usages(each.usage for each in origins.values()),
        cost_cents=sum(costs) if costs else None,
    )


def read_spending(event: NodeFinishedEvent | FlowEndedEvent) -> Spending:
    """Returns what an event says was used."""
    return Spending(requests=event.requests, usage=event.usage, cost_cents=event.cost_cents)


@frozen
class VisitGrant:
    """What one visit may use.

    Attributes:
        limits: For its engine.
        budgets: Those of the limits that stand for what is left of a budget, with its name.
        config: Has the budgets.
    """

    limits: Limits
    budgets: Mapping[str, str]
    config: AdapterConfig

    def find_error(self, limit: str) -> LimitError | None:
        """Returns why the flow cannot go on when a visit has reached a limit; if it cannot."""
        name = self.budgets.get(limit)
        return None if name is None else tell_limit(name, self.config)


def tell_limit(name: str, config: AdapterConfig) -> LimitError:
    """Says that a run has reached one of its bounds."""
    value = getattr(config, name)
    return LimitError(
        limit=name,
        value=value,
        detail=f"The limit {name} = {value} was reached.",
        remedy="Raise the limit and resume the run to continue.",
        stage=Stage.EXECUTE,
    )


@define(eq=False)
class Budget:
    """What a run has used so far, and what is left.

    Attributes:
        config: Has the budgets.
        settled: What finished visits have used.
        whole: That of the flow of which this is a part; ``None`` for one by itself.
        forgiven: What unfinished visits had used before the run was asked for anew: its limits
            begin anew then.
    """

    config: AdapterConfig
    settled: Spending = Spending()
    whole: Budget | None = None
    forgiven: Spending = Spending()
    _open: dict[str, Spending | Budget] = attrs.field(factory=dict)
    _asking: int = 0

    @property
    def open(self) -> Spending:
        """What visits have used that are not finished."""
        return self._add(self._open)

    @property
    def spending(self) -> Spending:
        """What all visits have used."""
        return self.settled + self.open

    def note(self, identity: str, spending: Spending) -> None:
        """Takes down what the answers in the conversation of a visit have used, all together."""
        self._open[identity] = spending

    def begin_part(self, identity: str) -> Budget:
        """Returns the budget of a subflow, which uses up this one."""
        part = self._open[identity] = Budget(self.config, whole=self)
        return part

    def settle(self, identities: Iterable[str]) -> Spending:
        """Returns what a visit has used that is finished, in all of its conversations."""
        identities = list(identities)
        spending = self._add(identities)
        for identity in identities:
            self._open.pop(identity, None)
        self.settled += spending
        return spending

    @contextmanager
    def grant(self, limits: Limits) -> Iterator[VisitGrant]:
        """Gives a visit what is left.

        Each that is on its way is expected to ask once; what else they use is not known before.
        """
        whole = self
        while whole.whole is not None:
            whole = whole.whole
        try:
            yield whole._share(limits)
        finally:
            whole._asking -= 1

    def _share(self, limits: Limits) -> VisitGrant:
        self._asking += 1
        config, known = self.config, {name: getattr(self.config, name) for name in BUDGETS}
        budgets = {name: value for name, value in known.items() if value is not None}
        if not budgets:  # what was used so far need not be added up
            return VisitGrant(limits, {}, config)
        spent, forgiven, granted = self.spending, self.forgiven, {}
        used = {
            "max_requests": spent.requests - forgiven.requests + self._asking - 1,
            "max_tokens": spent.tokens - forgiven.tokens,
            "max_cost_cents": (spent.cost_cents or 0.0) - (forgiven.cost_cents or 0.0),
        }
        for name, value in budgets.items():
            left = math.ceil(value - used[name])  # a visit may begin while anything is left
            if left <= 0:
                # An engine that may take no step stops before it asks.
                return VisitGrant(attrs.evolve(limits, run_steps=0), {"run_steps": name}, config)
            if left <= getattr(limits, BUDGETS[name]):
                granted[BUDGETS[name]] = left
        names = {BUDGETS[name]: name for name in budgets if BUDGETS[name] in granted}
        return VisitGrant(attrs.evolve(limits, **granted), names, config)

    def _add(self, identities: Iterable[str]) -> Spending:
        total = Spending()
        for identity in identities:
            each = self._open.get(identity, Spending())
            total += each.spending if isinstance(each, Budget) else each
        return total
