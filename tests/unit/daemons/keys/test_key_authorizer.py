"""The authorizer that ships: who is let in, what is set aside, and what remains of it."""

from __future__ import annotations

import asyncio
import errno
import hmac
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.gateways.key_holders import (
    MODEL,
    NOON,
    ManualClocks,
    count_open_requests,
    create_key,
    open_authorizer,
    open_grant,
    produce_arrival,
    produce_demand,
    produce_usage,
    sum_spending,
)
from vibe_llms.application import Application
from vibe_llms.daemons.keys.charges import MAX_CENTS, MAX_TOKENS, KeySpending
from vibe_llms.daemons.keys.ledger import KeyAccount, KeyLedger
from vibe_llms.daemons.keys.register import Register
from vibe_llms.daemons.keys.texts import DUMMY_DIGEST, compute_digest, extract_identity
from vibe_llms.exceptions import AccessError, ConfigurationError, ProviderFault, StoreError
from vibe_llms.logs.disk import Disk
from vibe_llms.plugins.specification.daemons import Authorizer
from vibe_llms.testing.contracts import AuthorizerContract


def survey(directory: Path) -> KeyAccount:
    """Looks at the account as ``vibe keys usage`` does, from another process."""
    clocks = ManualClocks()
    ledger = KeyLedger(directory, read_clock=clocks.read, read_time=clocks.read_time)
    with closing(ledger):
        return ledger.survey()


class TestKeys(AuthorizerContract):
    """It keeps what authorizers promise, as a stranger's does."""

    def produce_authorizer(self, directory: Path) -> Authorizer:
        self.credential = create_key(directory, "ada", requests_per_minute=100)
        return open_authorizer(directory, ManualClocks())


async def test_it_ships_behind_the_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application makes it by its name; its keys are where the command line puts them."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    text = create_key(tmp_path / "vibe-llms" / "authorizers" / "keys")

    authorizer = await Application.load().produce_authorizer("keys")

    assert (await authorizer.authorize(produce_arrival(text))).subject == "ada"
    await authorizer.close()


async def test_what_is_used_takes_the_place_of_what_was_set_aside(tmp_path: Path) -> None:
    """By key, model and day, exactly; what nobody knows stays at its upper bound, and is told."""
    text = create_key(tmp_path)
    authorizer = open_authorizer(tmp_path, ManualClocks())
    grant = await open_grant(authorizer, text)
    cents = Decimal("0.000000000000000000123")

    await (await grant.reserve(produce_demand())).settle(produce_usage(), cents)
    await (await grant.reserve(produce_demand())).settle(produce_usage(), Decimal(1_000_000))
    await (await grant.reserve(produce_demand())).settle(produce_usage(), None)
    await (await grant.reserve(produce_demand())).settle(None, None)
    await (await grant.reserve(produce_demand(cents=None))).settle(produce_usage(), None)
    await (await grant.reserve(produce_demand())).release()
    await grant.reserve(produce_demand(1, 2, "0.25"))
    account = survey(tmp_path)
    await authorizer.close()

    (place,) = account.spent
    assert (place.key, place.day, place.model) == (extract_identity(text), "2026-11-24", MODEL)
    assert account.spent[place] == KeySpending(
        requests=4,
        input_tokens=28,
        output_tokens=20,
        cents=Decimal("1000000.000000000000000000123"),
        perhaps_requests=1,
        perhaps_input_tokens=10,
        perhaps_output_tokens=20,
        perhaps_cents=Decimal("1.0"),
        unpriced=1,
    )
    assert account.under_way[place] == KeySpending(
        perhaps_requests=1,
        perhaps_input_tokens=1,
        perhaps_output_tokens=2,
        perhaps_cents=Decimal("0.25"),
    )


async def test_what_was_under_way_at_the_end_counts_as_perhaps_billed(tmp_path: Path) -> None:
    """Once, however often it is looked at, and whoever goes on."""
    text = create_key(tmp_path, cents_per_day=100)
    authorizer = open_authorizer(tmp_path, ManualClocks())
    await (await open_grant(authorizer, text)).reserve(produce_demand())
    await authorizer.close()

    again = open_authorizer(tmp_path, ManualClocks())
    await again.close()

    assert survey(tmp_path) == survey(tmp_path)
    assert sum_spending(survey(tmp_path)) == KeySpending(
        perhaps_requests=1,
        perhaps_input_tokens=10,
        perhaps_output_tokens=20,
        perhaps_cents=Decimal("0.5"),
    )
    assert list((tmp_path / "journals").iterdir()) == []


async def test_what_ends_after_the_end_is_told_to_nobody(tmp_path: Path) -> None:
    """It counts as perhaps billed by then, and no other file gets its line."""
    authorizer = open_authorizer(tmp_path, ManualClocks())
    reservation = await (await open_grant(authorizer, create_key(tmp_path))).reserve(
        produce_demand()
    )

    await authorizer.close()
    with (tmp_path / "other").open("wb") as other:
        await reservation.settle(produce_usage(), Decimal(1))
        other.flush()

    assert (tmp_path / "other").read_bytes() == b""
    assert sum_spending(survey(tmp_path)).perhaps_requests == 1


async def test_a_reservation_ends_once(tmp_path: Path) -> None:
    """What is told of it later changes nothing."""
    text = create_key(tmp_path)
    authorizer = open_authorizer(tmp_path, ManualClocks())
    reservation = await (await open_grant(authorizer, text)).reserve(produce_demand())

    await reservation.settle(produce_usage(), Decimal(1))
    await reservation.settle(produce_usage(), Decimal(1))
    await reservation.release()
    await authorizer.close()

    assert sum_spending(survey(tmp_path)).cents == 1


async def test_what_is_found_is_compared_through_one_seam(tmp_path: Path) -> None:
    """In constant time, for keys that nobody gave out, too; what finds a key is public."""
    text = create_key(tmp_path)
    seen: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        seen.append((one, other))
        return hmac.compare_digest(one, other)

    authorizer = open_authorizer(tmp_path, ManualClocks(), compare=compare)
    stranger = "vk-00000000" + text[11:]
    forged = text[:-20] + "0" * 20
    await authorizer.authorize(produce_arrival(text))
    for other in (stranger, forged, ""):
        with pytest.raises(AccessError):
            await authorizer.authorize(produce_arrival(other))
    await authorizer.close()

    digest = compute_digest(text)
    assert seen == [
        (digest, digest),
        (compute_digest(stranger), DUMMY_DIGEST),
        (compute_digest(forged), digest),
        (compute_digest(""), DUMMY_DIGEST),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "", "API key is missing"),
        (lambda text: text[:-1], "Incomplete key"),
        (lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"), "Mistyped"),
        (lambda text: "sk-" + text[3:], "begin with vk-"),
    ],
)
async def test_whoever_shows_no_good_key_is_told_why(
    tmp_path: Path, change: Any, said: str
) -> None:
    """Without a word of the key."""
    text = create_key(tmp_path)
    authorizer = open_authorizer(tmp_path, ManualClocks())

    with pytest.raises(AccessError, match=said) as caught:
        await authorizer.authorize(produce_arrival(change(text)))
    await authorizer.close()

    assert caught.value.fault is ProviderFault.AUTHENTICATION
    assert text[12:30] not in str(caught.value)


async def test_a_key_ends_at_its_moment(tmp_path: Path) -> None:
    """And not before."""
    text = create_key(tmp_path, expires=datetime.fromtimestamp(NOON + 10, UTC))
    clocks = ManualClocks()
    authorizer = open_authorizer(tmp_path, clocks)

    clocks.advance(9.99)
    assert (await open_grant(authorizer, text)).subject == "ada"
    clocks.advance(0.01)
    with pytest.raises(AccessError, match="has expired") as caught:
        await open_grant(authorizer, text)
    await authorizer.close()

    assert caught.value.fault is ProviderFault.AUTHENTICATION


async def test_a_key_that_is_revoked_is_refused_at_the_next_request(tmp_path: Path) -> None:
    """And one that is given out is good at once."""
    text = create_key(tmp_path)
    authorizer = open_authorizer(tmp_path, ManualClocks())
    await open_grant(authorizer, text)

    Register(tmp_path).revoke("ada")
    with pytest.raises(AccessError, match="was revoked"):
        await open_grant(authorizer, text)
    other = create_key(tmp_path, "bob")

    assert (await open_grant(authorizer, other)).subject == "bob"
    await authorizer.close()


async def test_a_file_that_does_not_hold_lets_nobody_in(tmp_path: Path) -> None:
    """It could say that the key was taken back."""
    text = create_key(tmp_path)
    authorizer = open_authorizer(tmp_path, ManualClocks())
    await open_grant(authorizer, text)

    (tmp_path / "keys.toml").write_text("[")
    with pytest.raises(ConfigurationError):
        await open_grant(authorizer, text)
    await authorizer.close()


async def test_a_model_is_for_those_whose_patterns_fit(tmp_path: Path) -> None:
    """By the name that the client uses."""
    authorizer = open_authorizer(tmp_path, ManualClocks())
    grant = await open_grant(authorizer, create_key(tmp_path, models=("gpt-4*", "o[13]")))

    assert [grant.admits(name) for name in ("gpt-4o", "o1", "gpt-5.5", "GPT-4o")] == [
        True, True, False, False,
    ]  # fmt: skip
    with pytest.raises(AccessError, match=r"gpt-5\.5") as caught:
        await grant.reserve(produce_demand())
    await authorizer.close()

    assert caught.value.fault is ProviderFault.PERMISSION
    assert survey(tmp_path).spent == {}


async def test_bounds_hold_over_processes_and_many_at_once(tmp_path: Path) -> None:
    """Of all that ask at one moment so many are let in as may, wherever they ask."""
    text = create_key(tmp_path, requests_per_minute=7)
    clocks = ManualClocks()
    processes = [open_authorizer(tmp_path, clocks) for _ in range(3)]
    grants = [await open_grant(each, text) for each in processes]

    outcomes = await asyncio.gather(
        *(grant.reserve(produce_demand()) for grant in grants for _ in range(10)),
        return_exceptions=True,
    )

    refusals = [each for each in outcomes if isinstance(each, AccessError)]
    assert len(refusals) == 23
    assert {each.fault for each in refusals} == {ProviderFault.RATE_LIMITED}
    assert {each.retry_after_seconds for each in refusals} == {60.5}
    clocks.advance(60.5)
    await grants[0].reserve(produce_demand())
    for each in processes:
        await each.close()


async def test_what_was_not_used_or_not_sent_can_be_used_by_others(tmp_path: Path) -> None:
    """At once, in another process, too; of tokens and money."""
    text = create_key(tmp_path, tokens_per_minute=60, cents_per_day=1)
    clocks = ManualClocks()
    first, second = open_authorizer(tmp_path, clocks), open_authorizer(tmp_path, clocks)
    one, other = await open_grant(first, text), await open_grant(second, text)
    held = [await one.reserve(produce_demand()) for _ in range(2)]
    with pytest.raises(AccessError):
        await other.reserve(produce_demand())

    await held[0].settle(produce_usage(), Decimal("0.25"))
    await held[1].release()

    await other.reserve(produce_demand())
    with pytest.raises(AccessError) as caught:
        await other.reserve(produce_demand())
    assert caught.value.fault is ProviderFault.QUOTA
    assert caught.value.retry_after_seconds == 43_200
    clocks.advance(43_200)
    await other.reserve(produce_demand())
    await first.close()
    await second.close()


async def test_more_than_was_thought_counts_at_once(tmp_path: Path) -> None:
    """A request that said no bound has written a book, in another process."""
    text = create_key(tmp_path, tokens_per_minute=100)
    first, second = (
        open_authorizer(tmp_path, ManualClocks()),
        open_authorizer(tmp_path, ManualClocks()),
    )
    one, other = await open_grant(first, text), await open_grant(second, text)

    await (await one.reserve(produce_demand(output_tokens=None))).settle(produce_usage(5, 90), None)

    with pytest.raises(AccessError) as caught:
        await other.reserve(produce_demand(output_tokens=None))
    assert caught.value.fault is ProviderFault.RATE_LIMITED
    await first.close()
    await second.close()


async def test_what_nobody_waits_for_is_given_back(tmp_path: Path) -> None:
    """A client that leaves while it is let in has had nothing."""
    text = create_key(tmp_path, requests_per_minute=1)
    authorizer = open_authorizer(tmp_path, ManualClocks())
    grant = await open_grant(authorizer, text)

    task = asyncio.create_task(grant.reserve(produce_demand()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await authorizer.close()  # waits for what is in the transaction

    again = open_authorizer(tmp_path, ManualClocks())
    await (await open_grant(again, text)).reserve(produce_demand())
    await again.close()


class FullDisk(Disk):
    """Has no room, for as long as is said."""

    is_full = False

    def write(self, descriptor: int, data: bytes) -> None:
        if self.is_full:
            super().write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(descriptor, data)


async def test_a_full_disk_refuses_requests_and_forgets_none(tmp_path: Path) -> None:
    """What was sent is accounted for as soon as there is room; nothing passes unaccounted."""
    disk = FullDisk()
    authorizer = open_authorizer(tmp_path, ManualClocks(), disk=disk)
    grant = await open_grant(authorizer, create_key(tmp_path))
    held = await grant.reserve(produce_demand())

    disk.is_full = True
    with pytest.raises(StoreError, match="No space left"):
        await grant.reserve(produce_demand())
    await held.settle(produce_usage(), Decimal("0.25"))
    with pytest.raises(StoreError, match="No space left"):
        await grant.reserve(produce_demand())
    assert sum_spending(survey(tmp_path)) == KeySpending()
    disk.is_full = False
    await (await grant.reserve(produce_demand())).release()
    await authorizer.close()

    assert sum_spending(survey(tmp_path)) == KeySpending(1, 7, 5, Decimal("0.25"))


async def test_a_full_disk_refuses_requests_of_keys_with_bounds(tmp_path: Path) -> None:
    """Where the database can grow no more."""
    text = create_key(tmp_path, cents_per_day=100)
    authorizer = open_authorizer(tmp_path, ManualClocks())
    grant = await open_grant(authorizer, text)
    database = authorizer._ledger._database
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")

    outcomes = await asyncio.gather(
        *(grant.reserve(produce_demand()) for _ in range(500)), return_exceptions=True
    )
    assert {str(each)[-24:] for each in outcomes} == {"Free space on that disk."}
    assert count_open_requests(survey(tmp_path)) == 0
    database.execute("PRAGMA max_page_count = 1000000")
    await grant.reserve(produce_demand())

    assert count_open_requests(survey(tmp_path)) == 1
    await authorizer.close()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("spending.sqlite", b"nonsense " * 500, "not a database"),
        ("spending.sqlite", None, "is not a record of spending"),
        ("journals/a.journal", b"+\t1\tnonsense\n", "at byte 0"),
        ("journals/a.journal", b"=\t1\t-\n=\t1\t2\t3\tx\n", "at byte 6"),
        ("journals/a.journal", b"\xff\n", "at byte 0"),
    ],
)
async def test_nonsense_in_a_file_is_told_in_one_line(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    """It names the file, and what to do; nobody is let in."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if content is None:
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE songs (title TEXT)")
    else:
        path.write_bytes(content)

    with pytest.raises(StoreError, match=said) as caught:
        open_authorizer(tmp_path, ManualClocks())

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


async def test_a_long_journal_gives_way_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun in the former ends there; then it is gone."""
    monkeypatch.setattr("vibe_llms.daemons.keys.authorizer._JOURNAL_BYTES", 500)
    monkeypatch.setattr("vibe_llms.daemons.keys.authorizer._FOLDING_SECONDS", 0.001)
    authorizer = open_authorizer(tmp_path, ManualClocks())
    grant = await open_grant(authorizer, create_key(tmp_path))
    held = await grant.reserve(produce_demand())
    former = authorizer._journal

    while authorizer._journal is former:
        another = await grant.reserve(produce_demand())
        for _ in range(2):  # that it is told twice ends nothing else in its journal
            await another.settle(produce_usage(), Decimal("0.1"))
        await asyncio.sleep(0.002)
    count = sum_spending(survey(tmp_path)).requests
    await held.settle(produce_usage(), Decimal("0.1"))
    names = {former.name, authorizer._journal.name}
    assert {path.name for path in (tmp_path / "journals").iterdir()} == names
    account = survey(tmp_path)
    assert {path.name for path in (tmp_path / "journals").iterdir()} == names - {former.name}
    await authorizer.close()

    assert sum_spending(account).requests == count + 1
    assert sum_spending(account) == sum_spending(survey(tmp_path))


async def test_a_models_name_cannot_write_lines_of_its_own(tmp_path: Path) -> None:
    """Clients choose names."""
    import attrs

    authorizer = open_authorizer(tmp_path, ManualClocks())
    grant = await open_grant(authorizer, create_key(tmp_path))
    for name in ("a\t1\n=\t1\t-\n", "\udcff", "", "x" * 5000, "\u2028"):
        demand = attrs.evolve(produce_demand(), address=name)
        await (await grant.reserve(demand)).settle(produce_usage(), Decimal(1))
    await authorizer.close()

    assert sum_spending(survey(tmp_path)).requests == 5
    assert max(len(place.model) for place in survey(tmp_path).spent) == 200


@pytest.mark.parametrize("bounds", [{}, {"requests_per_minute": 100}], ids=["free", "bounded"])
async def test_no_number_is_too_large_for_the_sums(tmp_path: Path, bounds: dict[str, int]) -> None:
    """Whatever a client wants and a vendor says: nobody's account ends with it."""
    authorizer = open_authorizer(tmp_path, ManualClocks())
    grant = await open_grant(authorizer, create_key(tmp_path, **bounds))
    vast = 10**30
    held = [await grant.reserve(produce_demand(vast, vast, "1e250")) for _ in range(3)]
    assert count_open_requests(survey(tmp_path)) == 3

    await held[0].settle(produce_usage(2**62, 2**62), Decimal("1e250"))
    await held[1].settle(produce_usage(), Decimal("0.1"))
    await authorizer.close()

    whole = sum_spending(survey(tmp_path))
    assert (whole.requests, whole.perhaps_requests) == (2, 1)
    assert whole.input_tokens == MAX_TOKENS + 7
    assert whole.perhaps_output_tokens == MAX_TOKENS
    assert (whole.cents, whole.perhaps_cents) == (MAX_CENTS + Decimal("0.1"), MAX_CENTS)


async def test_a_journal_of_before_with_a_number_too_large_is_read(tmp_path: Path) -> None:
    """As one that was left by a process that died with such a request under way."""
    authorizer = open_authorizer(tmp_path, ManualClocks())
    await authorizer.close()
    left = tmp_path / "journals" / "0123456789abcdef.journal"
    left.parent.mkdir(exist_ok=True)
    left.write_text(f"+\t1\tada\t2026-11-24\ta:b\t10\t{10**30}\t1e250\n")

    whole = sum_spending(survey(tmp_path))
    assert (whole.perhaps_output_tokens, whole.perhaps_cents) == (MAX_TOKENS, MAX_CENTS)
