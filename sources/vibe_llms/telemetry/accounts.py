"""Accounts of usage, which can be added: tokens, money and time, by model, by tool, by state.

These classes only hold values; :mod:`.odometer` and :mod:`.measuring` count. ``None`` means
unknown, which is not zero; if a total is known only in part, another field counts the missing
values.
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
    """Usage of one model.

    Attributes:
        model: ``provider:model``, as the answers report it.
        generations: Number of generations, without retries.
        failures: Number of those that failed or are incomplete.
        unreported: Number of generations of unknown usage.
        usage: The known tokens; ``None`` if all are unknown.
        prices: Cost of each bucket; empty if no price is known.
        unpriced: Reasons why the amount is not the whole price, each once.
        seconds: Duration of the generations, including reasoning.
        reasoning_seconds: The part from the beginning of reasoning to the next content; ``None``
            if the answers were not streamed.
        untimed: Number of generations of unknown duration.
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
        """The model's address; accounts with the same address are added."""
        return self.model

    @property
    def amount(self) -> Decimal | None:
        """The known part of the price, in US dollars, exact; ``None`` if nothing is known."""
        return _add_prices(self.prices)

    @property
    def generation_seconds(self) -> float | None:
        """The duration of generations without reasoning, as far as reasoning is known."""
        return None if self.seconds is None else self.seconds - (self.reasoning_seconds or 0.0)

    def __add__(self, other: ModelAccount) -> ModelAccount:
        """Add another account of the same model."""
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
    """Usage of one tool.

    Attributes:
        name: The name for the model.
        calls: Number of calls, whatever their result.
        failures: Number of calls whose result is an error.
        seconds: Sum of the durations of its calls; calls at the same time all count.
        untimed: Number of calls of unknown duration.
    """

    name: str
    calls: int = 0
    failures: int = 0
    seconds: float | None = None
    untimed: int = 0

    @property
    def key(self) -> str:
        """The tool's name; accounts with the same name are added."""
        return self.name

    def __add__(self, other: ToolAccount) -> ToolAccount:
        """Add another account of the same tool."""
        return ToolAccount(
            name=self.name,
            calls=self.calls + other.calls,
            failures=self.failures + other.failures,
            seconds=add_known((self.seconds, other.seconds)),
            untimed=self.untimed + other.untimed,
        )


@frozen(kw_only=True)
class StateAccount:
    """Usage of one state; ``None`` means unknown or not applicable.

    Attributes:
        state: ``reasoning``, ``generation`` (all other work of models), ``tools``, or
            ``approval`` (waiting for an approval).
        input_tokens: Input tokens; all of them count as generation.
        output_tokens: Output tokens.
        amount: Cost of the requests, in US dollars.
        seconds: Wall-clock time: tools that ran at the same time count once.
    """

    state: StateName
    input_tokens: int | None = None
    output_tokens: int | None = None
    amount: Decimal | None = None
    seconds: float | None = None


@frozen(kw_only=True)
class Account:
    """Usage by model and by tool. Accounts can be added; the empty one is the zero.

    Attributes:
        models: Sorted by name.
        tools: Sorted by name.
        tools_seconds: Wall-clock time of tools: those that ran at the same time count once.
        approvals: Number of requests for approvals.
        approval_seconds: Time spent waiting for their answers.
        retries: Number of retries.
        doubted: Number of generations in progress when a run broke off: each may have been
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
        """The known part of the total price, in US dollars, exact; ``None`` if nothing is known."""
        return _add_prices([price for model in self.models for price in model.prices])

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Reasons why the amount is not the whole price, each once; empty if it is."""
        return tuple(sorted({reason for model in self.models for reason in model.unpriced}))

    @property
    def generations(self) -> int:
        """The number of generations."""
        return sum(model.generations for model in self.models)

    @property
    def calls(self) -> int:
        """The number of tool calls."""
        return sum(tool.calls for tool in self.tools)

    @property
    def states(self) -> tuple[StateAccount, ...]:
        """Usage by state, in the order reasoning, generation, tools, approval."""
        prices = [price for model in self.models for price in model.prices]
        usage = self.usage or Usage()
        answer_tokens = add_known((usage.output_tokens, usage.output_audio_tokens))
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
                output_tokens=answer_tokens,
                amount=_add_prices([price for price in prices if price.bucket != _REASONING]),
                seconds=add_known(model.generation_seconds for model in self.models),
            ),
            StateAccount(state="tools", seconds=self.tools_seconds),
            StateAccount(state="approval", seconds=self.approval_seconds),
        )

    def __add__(self, other: Account) -> Account:
        """Add two accounts, model by model and tool by tool."""
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
    """Add up accounts of the same name; sorted by name."""
    joined: dict[str, _Part] = {}
    for part in parts:
        total = joined.get(part.key)
        joined[part.key] = part if total is None else total + part
    return tuple(joined[key] for key in sorted(joined))


def add_known(numbers: Iterable[_Number | None]) -> _Number | None:
    """Add up the known numbers; ``None`` if all are unknown."""
    total: _Number | None = None
    for number in numbers:
        if number is not None:
            total = number if total is None else total + number
    return total


def add_usages(usages: Iterable[Usage | None]) -> Usage | None:
    """Add up the known usages; ``None`` if all are unknown. Vendors' native data are omitted."""
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
        total = joined.get(
            price.bucket, BucketPrice(bucket=price.bucket, tokens=0, amount=Decimal(0))
        )
        joined[price.bucket] = attrs.evolve(
            total, tokens=total.tokens + price.tokens, amount=total.amount + price.amount
        )
    return tuple(joined[bucket] for bucket in sorted(joined))
