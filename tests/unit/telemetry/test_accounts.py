"""Accounts are values that add up."""

from __future__ import annotations

import functools
from decimal import Decimal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.messages.canisters import INPUT_BUCKETS, OUTPUT_BUCKETS, Usage
from vibe_llms.telemetry.accounts import Account, ModelAccount, ToolAccount, join_accounts
from vibe_llms.telemetry.prices import BucketPrice

counts = st.integers(0, 1000)
# Whole numbers and quarters add up exactly, so that equality can be asked for.
seconds = st.none() | st.integers(0, 4000).map(lambda quarters: quarters / 4)
usages = st.none() | st.builds(
    Usage, **dict.fromkeys((*INPUT_BUCKETS, *OUTPUT_BUCKETS), st.none() | counts)
)
prices = st.lists(
    st.builds(
        BucketPrice,
        bucket=st.sampled_from(["input_tokens", "reasoning_tokens", "output_tokens"]),
        tokens=counts,
        amount=st.decimals(0, 100, places=9),
    ),
    max_size=3,
    unique_by=lambda price: price.bucket,
).map(lambda found: tuple(sorted(found, key=lambda price: price.bucket)))
models = st.builds(
    ModelAccount,
    model=st.sampled_from(["a:x", "a:y", "b:x"]),
    generations=counts,
    failures=counts,
    unreported=counts,
    usage=usages,
    prices=prices,
    unpriced=st.sets(st.sampled_from(["one", "two"])).map(sorted).map(tuple),
    seconds=seconds,
    reasoning_seconds=seconds,
    untimed=counts,
)
tools = st.builds(
    ToolAccount,
    name=st.sampled_from(["read", "write"]),
    calls=counts,
    failures=counts,
    seconds=seconds,
    untimed=counts,
)
accounts = st.builds(
    Account,
    models=st.lists(models, max_size=3).map(join_accounts),
    tools=st.lists(tools, max_size=3).map(join_accounts),
    tools_seconds=seconds,
    approvals=counts,
    approval_seconds=seconds,
    retries=counts,
    doubted=counts,
)


@pytest.mark.slow
@given(accounts, accounts, accounts)
def test_the_order_of_adding_does_not_matter(a: Account, b: Account, c: Account) -> None:
    """Accounts of parts, in whatever order they come, make the same whole."""
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Account() == a


@pytest.mark.slow
@given(st.lists(accounts, max_size=4))
def test_the_whole_is_the_sum_of_its_parts(parts: list[Account]) -> None:
    """Money is exact, tokens and calls are all there, whichever way one looks."""
    whole = functools.reduce(lambda a, b: a + b, parts, Account())

    amounts = [part.amount for part in parts if part.amount is not None]
    assert whole.amount == (sum(amounts, Decimal(0)) if amounts else None)
    assert whole.generations == sum(part.generations for part in parts)
    assert whole.calls == sum(part.calls for part in parts)
    by_state = [state.amount for state in whole.states if state.amount is not None]
    assert whole.amount == (sum(by_state, Decimal(0)) if by_state else None)


@given(accounts)
def test_states_divide_tokens_and_time_without_rest(account: Account) -> None:
    """What is not reasoning is generation; each token and each second counts once."""
    reasoning, generation, tools, approval = account.states
    usage = account.usage or Usage()

    written = [state.output_tokens for state in (reasoning, generation)]
    known = [tokens for tokens in written if tokens is not None]
    assert usage.total_output_tokens == (sum(known) if known else None)
    assert generation.input_tokens == usage.total_input_tokens
    assert (tools.seconds, approval.seconds) == (account.tools_seconds, account.approval_seconds)


def test_what_nobody_knows_stays_unknown() -> None:
    """Not to know is not zero, and what is known in part says how much is missing."""
    silent = ModelAccount(model="a:x", generations=1, unreported=1, untimed=1)
    told = attrs.evolve(silent, unreported=0, untimed=0, seconds=2.0, usage=Usage(output_tokens=5))

    assert silent.amount is None
    assert silent.generation_seconds is None
    assert (silent + silent).usage is None
    both = silent + told
    assert both.usage == Usage(output_tokens=5)
    assert (both.seconds, both.untimed, both.unreported) == (2.0, 1, 1)
