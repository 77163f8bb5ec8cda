"""Accounts of stored conversations: usage as recorded in their canisters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import attrs

from vibe_llms.messages.canisters import (
    BROKEN_OFF,
    AnyCanister,
    DocumentCanister,
    Origin,
    Usage,
)
from vibe_llms.messages.views import pairs_of
from vibe_llms.telemetry.accounts import Account, ModelAccount, ToolAccount, join_accounts
from vibe_llms.telemetry.prices import Price, price_usage


def measure_canisters(canisters: Sequence[AnyCanister]) -> Account:
    """Make an account of stored canisters, as far as possible.

    Canisters record tokens, from which money is computed (at the prices of each answer's day),
    durations of answers, and calls. They do not record the durations of calls: the time between two
    canisters may also be time in which the run waited for a person.

    Args:
        canisters: Canisters of one conversation, oldest first. All canisters of a turn have the
            same usage, which counts once.
    """
    models = join_accounts(
        measure_generation(
            provider=origin.provider,
            model=origin.model,
            usage=origin.usage,
            at=at,
            seconds=origin.seconds,
            is_failure=origin.stop_reason in BROKEN_OFF,
        )
        for origin, at in _survey_answers(canisters)
    )
    tools = join_accounts(
        ToolAccount(
            name=pair.invocation.name,
            calls=1,
            failures=int(pair.result is not None and pair.result.is_error),
            untimed=1,
        )
        for pair in pairs_of(canisters)
    )
    return Account(models=models, tools=tools)


def measure_generation(
    *,
    provider: str,
    model: str,
    usage: Usage | None,
    at: datetime | None = None,
    seconds: float | None = None,
    reasoning_seconds: float | None = None,
    is_failure: bool = False,
    tier: str = "",
) -> ModelAccount:
    """Make the account of one answer, at the prices of its day; today by default."""
    price = price_usage(usage, provider=provider, model=model, at=at, tier=tier)
    if isinstance(price, Price):
        prices = price.buckets
        unpriced = tuple(f"No price is known for {bucket} of {model}." for bucket in price.unpriced)
    else:
        prices, unpriced = (), (price.reason,)
    return ModelAccount(
        model=f"{provider}:{model}" if provider else model,
        generations=1,
        failures=int(is_failure),
        unreported=int(usage is None),
        # Vendors' native data cannot be added up.
        usage=None if usage is None else attrs.evolve(usage, native=None),
        prices=prices,
        unpriced=unpriced,
        seconds=seconds,
        reasoning_seconds=reasoning_seconds,
        untimed=int(seconds is None),
    )


def _survey_answers(canisters: Iterable[AnyCanister]) -> Iterable[tuple[Origin, datetime]]:
    """Yield the origin and the time of each answer, once, and of each call for a summary."""
    seen: set[str] = set()
    for canister in canisters:
        if isinstance(canister, DocumentCanister) and canister.summarizes is not None:
            yield from ((origin, canister.timestamp) for origin in canister.summarizes.origins)
        origin: Origin | None = canister.origin
        if origin is None:
            continue
        name = canister.turn_id or canister.id
        if name not in seen:
            seen.add(name)
            yield origin, canister.timestamp


def add_times(account: Account, timed: Account) -> Account:
    """Add the recorded times to an account of stored canisters, and nothing else.

    Args:
        account: Account of the conversation's canisters.
        timed: Account from an odometer or a log, for all of the conversation or a part.
    """
    models = {model.key: model for model in timed.models}
    tools = {tool.key: tool for tool in timed.tools}
    return attrs.evolve(
        account,
        models=tuple(_time_model(model, models.get(model.key)) for model in account.models),
        tools=tuple(_time_tool(tool, tools.get(tool.key)) for tool in account.tools),
        tools_seconds=timed.tools_seconds,
        approvals=timed.approvals,
        approval_seconds=timed.approval_seconds,
        retries=timed.retries,
        doubted=timed.doubted,
    )


def _time_model(model: ModelAccount, timed: ModelAccount | None) -> ModelAccount:
    if timed is None:
        return model
    if model.seconds is not None and not model.untimed:  # the canisters cover everything
        return attrs.evolve(model, reasoning_seconds=timed.reasoning_seconds)
    return attrs.evolve(
        model,
        seconds=timed.seconds,
        reasoning_seconds=timed.reasoning_seconds,
        untimed=max(0, model.generations - timed.generations + timed.untimed),
    )


def _time_tool(tool: ToolAccount, timed: ToolAccount | None) -> ToolAccount:
    if timed is None:
        return tool
    untimed = max(0, tool.calls - timed.calls + timed.untimed)
    return attrs.evolve(tool, seconds=timed.seconds, untimed=untimed)
