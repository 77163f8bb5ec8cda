"""What stored canisters tell of their use."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.telemetry.accounts import Account, ModelAccount, ToolAccount
from vibe_llms.telemetry.measuring import add_times, measure_canisters

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def _produce_origin(usage: Usage | None, **changes: object) -> Origin:
    fields = {"provider": "anthropic", "model": "claude-opus-5-5", "usage": usage, **changes}
    return Origin(**fields)  # type: ignore[arg-type]


def _produce_turn(number: int, *canisters: tuple[str, str], usage: Usage) -> list[AnyCanister]:
    """A turn that calls the tools named, by id and name."""
    origin, turn = _produce_origin(usage), f"turn{number}"
    said = AssistantCanister("Let me see.", origin=origin, turn_id=turn, timestamp=NOON)
    calls = [
        InvocationCanister(
            invocation_id=identity, name=name, origin=origin, turn_id=turn, timestamp=NOON
        )
        for identity, name in canisters
    ]
    return [said, *calls]


def test_an_answer_of_several_canisters_counts_once() -> None:
    """All canisters of a turn bear the same usage; its price is that of the vendor's list."""
    usage = Usage(input_tokens=1000, cache_read_tokens=500, output_tokens=100, native="{}")
    canisters = [
        UserCanister("Go", timestamp=NOON),
        *_produce_turn(1, ("c1", "read"), ("c2", "read"), usage=usage),
        ResultCanister("x", invocation_id="c1", name="read"),
        ResultCanister("No such file.", invocation_id="c2", name="read", is_error=True),
        *_produce_turn(2, usage=usage),
    ]

    account = measure_canisters(canisters)

    (model,) = account.models
    assert (model.model, model.generations) == ("anthropic:claude-opus-5-5", 2)
    assert model.usage == Usage(input_tokens=2000, cache_read_tokens=1000, output_tokens=200)
    # Per million: 4 in, 0.20 from the cache, 20 out.
    assert account.amount == Decimal("0.008") + Decimal("0.0002") + Decimal("0.004")
    assert account.unpriced == ()
    assert account.tools == (ToolAccount(name="read", calls=2, failures=1, untimed=2),)


def test_canisters_do_not_tell_how_long_anything_took() -> None:
    """Between two canisters somebody may have thought, or slept: the time stays unknown."""
    account = measure_canisters(_produce_turn(1, ("c1", "read"), usage=Usage(output_tokens=1)))

    assert account.models[0].seconds is None
    assert account.models[0].untimed == 1
    assert [state.seconds for state in account.states] == [None] * 4


def test_a_silent_vendor_and_an_unknown_price_are_said() -> None:
    """Unknown is not zero: neither the tokens nor the money."""
    silent = AssistantCanister("x", origin=_produce_origin(None))
    strange = AssistantCanister(
        "x", origin=_produce_origin(Usage(output_tokens=7), provider="mine", model="m")
    )

    account = measure_canisters([silent, strange])

    assert account.amount is None
    assert [model.unreported for model in account.models] == [1, 0]
    assert any("'mine'" in reason for reason in account.unpriced)


@pytest.mark.parametrize("reason", [StopReason.INTERRUPTED, StopReason.FAILED])
def test_an_answer_that_broke_off_is_a_failure(reason: StopReason) -> None:
    """What had arrived is stored, and so is that it was not all."""
    broken = _produce_origin(Usage(output_tokens=3), stop_reason=reason)

    (model,) = measure_canisters([AssistantCanister("x", origin=broken)]).models

    assert (model.generations, model.failures) == (1, 1)


def test_what_nobody_asked_a_model_for_costs_nothing() -> None:
    """A conversation of the user alone has an empty account."""
    assert measure_canisters([UserCanister("Hello?")]) == Account()


def test_times_come_from_whoever_watched() -> None:
    """Tokens stay those of the canisters; what was not watched counts as untimed."""
    usage = Usage(output_tokens=1)
    account = measure_canisters(
        [*_produce_turn(1, ("a", "read"), usage=usage), *_produce_turn(2, usage=usage)]
    )
    name = "anthropic:claude-opus-5-5"
    heard = Account(
        models=(ModelAccount(model=name, generations=1, seconds=2.0, reasoning_seconds=0.5),),
        tools=(ToolAccount(name="read", calls=1, seconds=3.0),),
        tools_seconds=3.0,
    )

    timed = add_times(account, heard)

    (model,) = timed.models
    assert model.usage == Usage(output_tokens=2)
    assert (model.seconds, model.generation_seconds, model.untimed) == (2.0, 1.5, 1)
    assert timed.tools == (ToolAccount(name="read", calls=1, seconds=3.0),)
    assert [state.seconds for state in timed.states] == [0.5, 1.5, 3.0, None]
