"""What was used, as values that add up: tokens, money and time, by model, by tool, by state.

Nothing here counts; :mod:`.odometer` and :mod:`.measuring` do. ``None`` is what nobody knows, which
is not zero; beside what is known in part stands how much is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final, Literal, Protocol, Self, TypeAlias, TypeVar

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import Usage
from vibe_llms.telemetry.prices import BucketPrice

StateName: TypeAlias = Literal["reasoning", "generation", "tools", "approval"]

_REASONING: Final = "reasoning_tokens"


@frozen(kw_only=True)
class ModelAccount:
    """What one model used.

    Attributes:
        model: ``provider:model``, as it called itself when it answered.
        generations: How often it was asked, retries not counted.
        failures: How often it did not answer, or not to its end.
        unreported: Of how many generations it is not known what they used.
        usage: What is known of the tokens; ``None`` where nothing is.
        prices: What each bucket cost; empty where no price is known.
        unpriced: Why the amount is not the whole price, each reason once.
        seconds: How long it took to answer, reasoning included.
        reasoning_seconds: How much of that went by from the beginning of its reasoning to
            whatever came next; ``None`` where the answers did not come piece by piece.
        untimed: Of how many generations it is not known how long they took.
    """

    model: str
    generations: int = 0
    failures: int = 0
    unreported: int = 0
    usage: Usage | None = None
    prices: tuple[BucketPrice, ...] = ()
    unpriced: tuple[str, ...] = ()
    seconds: float | None = None
    reasoning_seconds: float | None = None
    untimed: int = 0

    @property
    def key(self) -> str:
        """The model's address, by which accounts of the same model are added up."""
        return self.model

    @property
    def amount(self) -> Decimal | None:
        """What is known of the price, in US dollars, exact; ``None`` where nothing is."""
        return _add_prices(self.prices)

    @property
    def generation_seconds(self) -> float | None:
        """How long it took to answer, without reasoning as far as that is known."""
        return None if self.seconds is None else self.seconds - (self.reasoning_seconds or 0.0)

    def __add__(self, other: ModelAccount) -> ModelAccount:
        """Adds what the same model used at other times."""
        return ModelAccount(
            model=self.model,
            generations=self.generations + other.generations,
            failures=self.failures + other.failures,
            unreported=self.unreported + other.unreported,
            usage=add_usages((self.usage, other.usage)),
            prices=_join_prices((*self.prices, *other.prices)),
            unpriced=tuple(sorted({*self.unpriced, *other.unpriced})),
            seconds=add_known((self.seconds, other.seconds)),
            reasoning_seconds=add_known((self.reasoning_seconds, other.reasoning_seconds)),
            untimed=self.untimed + other.untimed,
        )


@frozen(kw_only=True)
class ToolAccount:
    """What one tool did.

    Attributes:
        name: What the model calls it.
        calls: How often it was called, whatever came of it.
        failures: How often its result was an error.
        seconds: How long its calls took, one after the other: where two ran at the same time,
            both count.
        untimed: Of how many calls it is not known how long they took.
    """

    name: str
    calls: int = 0
    failures: int = 0
    seconds: float | None = None
    untimed: int = 0

    @property
    def key(self) -> str:
        """The tool's name, by which accounts of the same tool are added up."""
        return self.name

    def __add__(self, other: ToolAccount) -> ToolAccount:
        """Adds what the same tool did at other times."""
        return ToolAccount(
            name=self.name,
            calls=self.calls + other.calls,
            failures=self.failures + other.failures,
            seconds=add_known((self.seconds, other.seconds)),
            untimed=self.untimed + other.untimed,
        )


@frozen(kw_only=True)
class StateAccount:
    """What was used in one state; ``None`` where it is not known, or does not apply.

    Attributes:
        state: ``reasoning``, ``generation`` (all else that models did), ``tools``, or
            ``approval`` (somebody was waited for).
        input_tokens: What was read; all of it counts as generation.
        output_tokens: What was written.
        amount: What that cost, in US dollars.
        seconds: How long it took by the clock on the wall: tools that ran at the same time
            count once.
    """

    state: StateName
    input_tokens: int | None = None
    output_tokens: int | None = None
    amount: Decimal | None = None
    seconds: float | None = None


@frozen(kw_only=True)
class Account:
    """What was used, by model and by tool. Accounts add up; the empty one adds nothing.

    Attributes:
        models: By their names, in order.
        tools: By their names, in order.
        tools_seconds: How long tools were at work by the clock on the wall: those that ran at
            the same time count once.
        approvals: How often somebody was asked for an approval.
        approval_seconds: How long answers to that were waited for.
        retries: How often a request was sent again.
        doubted: How many generations were in flight when a run broke off: each may have been
            billed.
    """

    models: tuple[ModelAccount, ...] = ()
    tools: tuple[ToolAccount, ...] = ()
    tools_seconds: float | None = None
    approvals: int = 0
    approval_seconds: float | None = None
    retries: int = 0
    doubted: int = 0

    @property
    def usage(self) -> Usage | None:
        """The tokens of all models."""
        return add_usages(model.usage for model in self.models)

    @property
    def amount(self) -> Decimal | None:
        """What is known of the price of it all, in US dollars, exact; ``None``: nothing is."""
        return _add_prices([price for model in self.models for price in model.prices])

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Why the amount is not the whole price, each reason once; empty where it is."""
        return tuple(sorted({reason for model in self.models for reason in model.unpriced}))

    @property
    def generations(self) -> int:
        """How often models were asked."""
        return sum(model.generations for model in self.models)

    @property
    def calls(self) -> int:
        """How often tools were called."""
        return sum(tool.calls for tool in self.tools)

    @property
    def states(self) -> tuple[StateAccount, ...]:
        """The same by state, in the order reasoning, generation, tools, approval."""
        prices = [price for model in self.models for price in model.prices]
        usage = self.usage or Usage()
        rest = add_known((usage.output_tokens, usage.output_audio_tokens))
        return (
            StateAccount(
                state="reasoning",
                output_tokens=usage.reasoning_tokens,
                amount=_add_prices([price for price in prices if price.bucket == _REASONING]),
                seconds=add_known(model.reasoning_seconds for model in self.models),
            ),
            StateAccount(
                state="generation",
                input_tokens=usage.total_input_tokens,
                output_tokens=rest,
                amount=_add_prices([price for price in prices if price.bucket != _REASONING]),
                seconds=add_known(model.generation_seconds for model in self.models),
            ),
            StateAccount(state="tools", seconds=self.tools_seconds),
            StateAccount(state="approval", seconds=self.approval_seconds),
        )

    def __add__(self, other: Account) -> Account:
        """Adds two accounts, model by model and tool by tool."""
        return Account(
            models=join_accounts((*self.models, *other.models)),
            tools=join_accounts((*self.tools, *other.tools)),
            tools_seconds=add_known((self.tools_seconds, other.tools_seconds)),
            approvals=self.approvals + other.approvals,
            approval_seconds=add_known((self.approval_seconds, other.approval_seconds)),
            retries=self.retries + other.retries,
            doubted=self.doubted + other.doubted,
        )


class _Addable(Protocol):
    @property
    def key(self) -> str: ...

    def __add__(self, other: Self, /) -> Self: ...


_Part = TypeVar("_Part", bound=_Addable)
_Number = TypeVar("_Number", int, float)


def join_accounts(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    """Adds up those of the same name; by their names, in order."""
    joined: dict[str, _Part] = {}
    for part in parts:
        known = joined.get(part.key)
        joined[part.key] = part if known is None else known + part
    return tuple(joined[key] for key in sorted(joined))


def add_known(numbers: Iterable[_Number | None]) -> _Number | None:
    """Adds up what is known; ``None`` where nothing is."""
    total: _Number | None = None
    for number in numbers:
        if number is not None:
            total = number if total is None else total + number
    return total


def add_usages(usages: Iterable[Usage | None]) -> Usage | None:
    """Adds up what is known; ``None`` where nothing is. The vendors' own words are left out."""
    total: Usage | None = None
    for usage in usages:
        if usage is not None:
            total = (total or Usage()) + usage
    return total


def _add_prices(prices: Sequence[BucketPrice]) -> Decimal | None:
    return sum((price.amount for price in prices), Decimal(0)) if prices else None


def _join_prices(prices: Iterable[BucketPrice]) -> tuple[BucketPrice, ...]:
    joined: dict[str, BucketPrice] = {}
    for price in prices:
        known = joined.get(
            price.bucket, BucketPrice(bucket=price.bucket, tokens=0, amount=Decimal(0))
        )
        joined[price.bucket] = attrs.evolve(
            known, tokens=known.tokens + price.tokens, amount=known.amount + price.amount
        )
    return tuple(joined[bucket] for bucket in sorted(joined))
