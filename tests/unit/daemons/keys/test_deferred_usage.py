"""Usage that is known only later, such as that of an answer in the background, counts once."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.gateways.key_holders import (
    ManualClocks,
    count_open_requests,
    create_key,
    open_authorizer,
    open_grant,
    produce_demand,
    produce_usage,
    sum_spending,
)
from vibe_llms.daemons.keys.authorizer import KeyAuthorizer
from vibe_llms.daemons.keys.charges import KeySpending
from vibe_llms.daemons.keys.ledger import KeyLedger
from vibe_llms.exceptions import AccessError, StoreError
from vibe_llms.plugins.specification.daemons import Authorizer
from vibe_llms.testing.contracts import AuthorizerContract
from vibe_llms.testing.contracts.promises import BrokenPromise

ESTIMATE = KeySpending(
    perhaps_requests=1,
    perhaps_input_tokens=10,
    perhaps_output_tokens=20,
    perhaps_cents=Decimal("0.5"),
)
ACTUAL = KeySpending(requests=1, input_tokens=7, output_tokens=5, cents=Decimal("0.25"))


def survey(directory: Path) -> KeySpending:
    """Reads the sums from another process; no request is under way."""
    clocks = ManualClocks()
    ledger = KeyLedger(directory, read_clock=clocks.read, read_time=clocks.read_time)
    with closing(ledger):
        account = ledger.survey()
    assert count_open_requests(account) == 0
    return sum_spending(account)


@pytest.fixture(params=[{}, {"cents_per_day": 1, "tokens_per_minute": 100}], ids=["free", "bound"])
def key(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return create_key(tmp_path, **request.param)


@pytest.fixture
async def authorizer(tmp_path: Path) -> AsyncIterator[KeyAuthorizer]:
    made = open_authorizer(tmp_path, ManualClocks())
    yield made
    await made.close()


async def defer(authorizer: KeyAuthorizer, key: str, name: str = "one", **demand: Any) -> Any:
    """Defers a request; returns its reservation."""
    reservation: Any = await (await open_grant(authorizer, key)).reserve(produce_demand(**demand))
    await reservation.defer(name)
    return reservation


async def test_the_estimate_stands_until_the_usage_is_known(
    authorizer: KeyAuthorizer, key: str, tmp_path: Path
) -> None:
    reservation = await defer(authorizer, key)
    await reservation.settle(None, None)  # the request is over, without its usage
    assert survey(tmp_path) == ESTIMATE

    grant: Any = await open_grant(authorizer, key)
    assert await grant.settle_deferred("one", produce_usage(), Decimal("0.25"))
    assert survey(tmp_path) == ACTUAL
    assert not await grant.settle_deferred("one", produce_usage(), Decimal("0.25"))
    assert not await grant.settle_deferred("two", produce_usage(), Decimal("0.25"))
    assert survey(tmp_path) == ACTUAL


async def test_its_stream_may_report_the_usage(
    authorizer: KeyAuthorizer, key: str, tmp_path: Path
) -> None:
    reservation = await defer(authorizer, key)
    await reservation.settle(produce_usage(), Decimal("0.25"))
    await reservation.settle(produce_usage(), Decimal("0.25"))
    grant: Any = await open_grant(authorizer, key)
    assert not await grant.settle_deferred("one", produce_usage(), Decimal("0.25"))

    assert survey(tmp_path) == ACTUAL


async def test_what_remains_unknown_keeps_its_estimate(
    authorizer: KeyAuthorizer, key: str, tmp_path: Path
) -> None:
    await defer(authorizer, key)
    grant: Any = await open_grant(authorizer, key)
    assert await grant.settle_deferred("one", produce_usage(), None)

    assert survey(tmp_path) == ACTUAL._replace(cents=Decimal(0), perhaps_cents=Decimal("0.5"))


async def test_another_process_settles_it_on_its_day(
    authorizer: KeyAuthorizer, key: str, tmp_path: Path
) -> None:
    await defer(authorizer, key)
    await authorizer.close()
    assert survey(tmp_path) == ESTIMATE

    clocks = ManualClocks()
    clocks.advance(86_400)
    other = open_authorizer(tmp_path, clocks)
    grant: Any = await open_grant(other, key)
    assert await grant.settle_deferred("one", produce_usage(), Decimal("0.25"))
    await other.close()

    assert survey(tmp_path) == ACTUAL
    with closing(sqlite3.connect(tmp_path / "spending.sqlite")) as database:
        assert database.execute("SELECT DISTINCT day FROM spending").fetchall() == [("2026-11-24",)]


async def test_the_budget_counts_the_actual_usage(
    authorizer: KeyAuthorizer, tmp_path: Path
) -> None:
    key = create_key(tmp_path, "small", cents_per_day=1)
    await defer(authorizer, key, cents="0.9")
    grant: Any = await open_grant(authorizer, key)
    with pytest.raises(AccessError):
        await grant.reserve(produce_demand())
    await grant.settle_deferred("one", produce_usage(), Decimal("0.1"))

    await (await grant.reserve(produce_demand(cents="0.9"))).release()


async def test_if_it_cannot_be_deferred_it_is_settled_as_any_other(
    authorizer: KeyAuthorizer, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError(path="x", detail="The disk is full.")

    reservation: Any = await (await open_grant(authorizer, key)).reserve(produce_demand())
    monkeypatch.setattr(KeyLedger, "defer", refuse)
    with pytest.raises(StoreError):
        await reservation.defer("one")
    await reservation.settle(produce_usage(), Decimal("0.25"))

    assert survey(tmp_path) == ACTUAL


async def test_an_old_journal_is_closed_after_its_last_deferred_request(
    authorizer: KeyAuthorizer, key: str, tmp_path: Path
) -> None:
    reservation: Any = await (await open_grant(authorizer, key)).reserve(produce_demand())
    journal = authorizer._journal
    journal.retire()
    await reservation.defer("one")

    assert journal._is_closed
    assert survey(tmp_path) == ESTIMATE


async def test_a_database_without_deferred_requests_gets_their_table(tmp_path: Path) -> None:
    key = create_key(tmp_path)
    await open_authorizer(tmp_path, ManualClocks()).close()
    with closing(sqlite3.connect(tmp_path / "spending.sqlite")) as database:
        database.execute("DROP TABLE deferred")

    authorizer = open_authorizer(tmp_path, ManualClocks())
    await defer(authorizer, key)
    await authorizer.close()

    assert survey(tmp_path) == ESTIMATE


def test_an_authorizer_that_counts_it_twice_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Contract(AuthorizerContract):
        def produce_authorizer(self, directory: Path) -> Authorizer:
            self.credential = create_key(directory)
            return open_authorizer(directory, ManualClocks())

    monkeypatch.setattr(KeyLedger, "correct", lambda *_: True)
    with pytest.raises(BrokenPromise, match="effects are"):
        Contract().test_usage_that_is_known_later_counts_once(tmp_path)


async def test_names_are_forgotten_after_a_year(tmp_path: Path) -> None:
    key, clocks = create_key(tmp_path), ManualClocks()
    authorizer = open_authorizer(tmp_path, clocks)
    await defer(authorizer, key, "old")
    clocks.advance(400 * 86_400)
    await defer(authorizer, key, "new")
    grant: Any = await open_grant(authorizer, key)

    assert not await grant.settle_deferred("old", produce_usage(), Decimal(1))
    assert await grant.settle_deferred("new", produce_usage(), Decimal("0.25"))
    await authorizer.close()
