"""Budgets of flows: usage of a run, and the rest that is left for further requests.

Each conversation of a visit is counted separately and as a whole: a resumed visit counts once, and
an interrupted one counts, too. Subflows use the rest of the budget of their flow.
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
from vibe_llms.instruments.outcomes import price_in_cents
from vibe_llms.messages.canisters import AnyCanister, Origin, Usage
from vibe_llms.messages.views import add_usages

BUDGETS: Final[Mapping[str, str]] = {
    "max_requests": "run_steps",
    "max_tokens": "run_tokens",
    "max_cost_cents": "run_cents",
}
"""Budgets of a flow, with the names of the corresponding engine limits of a visit."""


@frozen(kw_only=True)
class Spending:
    """Usage of model responses.

    Attributes:
        requests: Number of responses.
        usage: Usage; ``None`` if no vendor reported it.
        cost_cents: Cost in US cents; ``None`` if no price is known.
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
        """Number of input and output tokens, as far as vendors reported them."""
        usage = self.usage
        if usage is None:
            return 0
        return (usage.total_input_tokens or 0) + (usage.total_output_tokens or 0)


def measure(canisters: Sequence[AnyCanister]) -> Spending:
    """Add up the usage of the responses in a conversation."""
    origins: dict[str, Origin] = {}
    for canister in canisters:
        origin = canister.origin
        if origin is not None:
            # The canisters of a turn share one origin; count it once.
            origins.setdefault(canister.turn_id or canister.id, origin)
    costs = [cost for each in origins.values() if (cost := price_in_cents(each)) is not None]
    return Spending(
        requests=len(origins),
        usage=add_usages(each.usage for each in origins.values()),
        cost_cents=sum(costs) if costs else None,
    )


def read_spending(event: NodeFinishedEvent | FlowEndedEvent) -> Spending:
    """Return the usage that an event records."""
    return Spending(requests=event.requests, usage=event.usage, cost_cents=event.cost_cents)


@frozen
class VisitGrant:
    """Share of the budgets for one visit.

    Attributes:
        limits: Limits of its engine.
        budgets: Limits that represent the rest of a budget, with the name of that budget.
        config: Config with the budgets.
    """

    limits: Limits
    budgets: Mapping[str, str]
    config: AdapterConfig

    def find_error(self, limit: str) -> LimitError | None:
        """Return why the flow cannot continue after a visit has reached a limit, if it cannot."""
        name = self.budgets.get(limit)
        return None if name is None else produce_limit_error(name, self.config)


def produce_limit_error(name: str, config: AdapterConfig) -> LimitError:
    """Return the error of a run that has reached one of its limits."""
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
    """Usage of a run so far, and the rest of its budgets.

    Attributes:
        config: Config with the budgets.
        settled: Usage of finished visits.
        parent: Budget of the enclosing flow; ``None`` outside of subflows.
        excluded: Usage of unfinished visits before the run was requested again; it does not count,
            because a request resets the limits.
    """

    config: AdapterConfig
    settled: Spending = Spending()
    parent: Budget | None = None
    excluded: Spending = Spending()
    _open: dict[str, Spending | Budget] = attrs.field(factory=dict)
    _visits_in_progress: int = 0

    @property
    def open(self) -> Spending:
        """Usage of unfinished visits."""
        return self._add(self._open)

    @property
    def spending(self) -> Spending:
        """Usage of all visits."""
        return self.settled + self.open

    def note(self, identity: str, spending: Spending) -> None:
        """Record the total usage of the responses in the conversation of a visit."""
        self._open[identity] = spending

    def begin_subflow(self, identity: str) -> Budget:
        """Return the budget of a subflow, which is part of this one."""
        part = self._open[identity] = Budget(self.config, parent=self)
        return part

    def settle(self, identities: Iterable[str]) -> Spending:
        """Settle a finished visit; return the usage of all its conversations."""
        identities = list(identities)
        spending = self._add(identities)
        for identity in identities:
            self._open.pop(identity, None)
        self.settled += spending
        return spending

    @contextmanager
    def grant(self, limits: Limits) -> Iterator[VisitGrant]:
        """Grant a visit the rest of the budgets.

        One request is reserved for each visit in progress; their other usage is not known in
        advance.
        """
        parent = self
        while parent.parent is not None:
            parent = parent.parent
        try:
            yield parent._share(limits)
        finally:
            parent._visits_in_progress -= 1

    def _share(self, limits: Limits) -> VisitGrant:
        self._visits_in_progress += 1
        config, values = self.config, {name: getattr(self.config, name) for name in BUDGETS}
        budgets = {name: value for name, value in values.items() if value is not None}
        if not budgets:  # no need to add up the usage
            return VisitGrant(limits, {}, config)
        spending, excluded, limits_by_name = self.spending, self.excluded, {}
        usage = {
            "max_requests": spending.requests - excluded.requests + self._visits_in_progress - 1,
            "max_tokens": spending.tokens - excluded.tokens,
            "max_cost_cents": (spending.cost_cents or 0.0) - (excluded.cost_cents or 0.0),
        }
        for name, value in budgets.items():
            remaining = math.ceil(value - usage[name])  # a visit may start while anything is left
            if remaining <= 0:
                # An engine without steps stops before its first request.
                return VisitGrant(attrs.evolve(limits, run_steps=0), {"run_steps": name}, config)
            if remaining <= getattr(limits, BUDGETS[name]):
                limits_by_name[BUDGETS[name]] = remaining
        names = {BUDGETS[name]: name for name in budgets if BUDGETS[name] in limits_by_name}
        return VisitGrant(attrs.evolve(limits, **limits_by_name), names, config)

    def _add(self, identities: Iterable[str]) -> Spending:
        total = Spending()
        for identity in identities:
            each = self._open.get(identity, Spending())
            total += each.spending if isinstance(each, Budget) else each
        return total
