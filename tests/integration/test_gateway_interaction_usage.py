"""The usage of an interaction in the background counts once, when its client retrieves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.accounts import Account
from support.gateways.gateways import produce_application, serve_gateway, wait_until
from support.gateways.key_holders import ManualClocks, create_key, open_authorizer, sum_spending
from vibe_llms.daemons.gateway import interaction_usage
from vibe_llms.daemons.keys.charges import KeySpending
from vibe_llms.daemons.keys.ledger import KeyLedger
from vibe_llms.daemons.records import CallRecord
from vibe_llms.exceptions import StoreError
from vibe_llms.testing.simulator import Simulator

MODEL = "google_interactions:gemini-3.8-flash"
PATH = "/v1beta/interactions"
ASKED = {"model": MODEL, "input": "Name a sea.", "background": True}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the vendor."""
    async with Simulator("background_polls=1") as running:
        yield running


class Client:
    """A client with a key of the gateway."""

    def __init__(self, session: aiohttp.ClientSession, address: str, key: str) -> None:
        self._session, self._address = session, address
        self._headers = {"authorization": f"Bearer {key}"}

    async def ask(self, method: str, path: str = "", body: Any = None) -> Any:
        url = f"{self._address}{PATH}{path}"
        async with self._session.request(method, url, json=body, headers=self._headers) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise RuntimeError(f"{answer.status} {text}")
            return await answer.json() if answer.content_type == "application/json" else text

    async def read_until_cut(self, body: Any) -> str:
        """Returns what arrives of a stream that breaks off."""
        url, data = f"{self._address}{PATH}", b""
        with suppress(aiohttp.ClientError):
            async with self._session.post(url, json=body, headers=self._headers) as answer:
                async for piece in answer.content.iter_any():
                    data += piece
        return data.decode()

    async def read_first(self, path: str) -> bytes:
        """Returns the first piece of a stream."""
        url = f"{self._address}{PATH}{path}"
        async with self._session.get(url, headers=self._headers) as answer:
            return await answer.content.readany()

    async def create(self, **fields: Any) -> str:
        interaction = await self.ask("POST", body={**ASKED, **fields})
        identity: str = interaction["id"]
        return identity

    async def finish(self, identity: str) -> Any:
        """Retrieves an interaction until it is complete."""
        while (found := await self.ask("GET", f"/{identity}"))["status"] in RUNNING:
            pass
        return found


RUNNING = ("in_progress", "queued")


def find_id(stream: str) -> str:
    return stream.partition('"id":')[2].split('"')[1]


@asynccontextmanager
async def connect(
    folder: Path, simulator: Simulator, key: str, records: list[CallRecord] | None = None
) -> AsyncIterator[Client]:
    """A gateway with keys, and its client."""
    application = produce_application(folder, simulator.url)
    authorizer = open_authorizer(folder / "keys", ManualClocks())
    async with (
        serve_gateway(application, records, authorizer=authorizer) as address,
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, address, key)


def survey(folder: Path) -> KeySpending:
    """Reads the sums of all keys."""
    clocks = ManualClocks()
    ledger = KeyLedger(folder / "keys", read_clock=clocks.read, read_time=clocks.read_time)
    with closing(ledger):
        return sum_spending(ledger.survey())


def is_estimated(spending: KeySpending) -> bool:
    return (spending.requests, spending.perhaps_requests) == (0, 1) and spending.perhaps_cents > 0


def is_settled(spending: KeySpending) -> bool:
    counts = (spending.requests, spending.perhaps_requests, spending.perhaps_cents)
    return counts == (1, 0, Decimal(0)) and spending.input_tokens > 0 and spending.cents > 0


async def test_the_first_complete_retrieval_settles_it(
    simulator: Simulator, tmp_path: Path
) -> None:
    key = create_key(tmp_path / "keys")
    records: list[CallRecord] = []
    async with connect(tmp_path, simulator, key, records) as client:
        identity = await client.create()
        assert is_estimated(survey(tmp_path))
        assert (await client.ask("GET", f"/{identity}"))["status"] == "in_progress"
        assert is_estimated(survey(tmp_path))

        interaction = await client.finish(identity)
        settled = survey(tmp_path)
        assert is_settled(settled)
        assert settled.input_tokens == interaction["usage"]["total_input_tokens"]
        for _ in range(2):
            await client.finish(identity)
        assert survey(tmp_path) == settled
        await wait_until(lambda: len(records) == 5)

    counted = [record for record in records if record.usage is not None]
    assert [(record.method, record.cents) for record in counted] == [("GET", settled.cents)]


async def test_a_part_of_the_usage_is_not_settled(simulator: Simulator, tmp_path: Path) -> None:
    simulator.switch("background_polls=1,partial_usage")
    key = create_key(tmp_path / "keys")
    async with connect(tmp_path, simulator, key) as client:
        identity = await client.create()
        assert (await client.ask("GET", f"/{identity}"))["usage"]["total_input_tokens"] == 1
        assert is_estimated(survey(tmp_path))
        interaction = await client.finish(identity)

    assert survey(tmp_path).input_tokens == interaction["usage"]["total_input_tokens"] > 1


async def test_a_stream_in_the_middle_is_passed_on_at_once(
    simulator: Simulator, tmp_path: Path
) -> None:
    key = create_key(tmp_path / "keys")
    async with asyncio.timeout(60), connect(tmp_path, simulator, key) as client:
        text = await client.ask("POST", "", {**ASKED, "stream": True})
        simulator.switch("stall_at_chunk=1")  # the end, with the usage, does not arrive
        path = f"/{find_id(text)}?stream=true&last_event_id=event_2"
        assert b"event_3" in await client.read_first(path)


async def test_if_it_is_never_retrieved_its_estimate_stands(
    simulator: Simulator, tmp_path: Path
) -> None:
    key = create_key(tmp_path / "keys")
    async with connect(tmp_path, simulator, key) as client:
        identity = await client.create()
        await client.ask("DELETE", f"/{identity}")
        with pytest.raises(RuntimeError, match="404"):
            await client.ask("GET", f"/{identity}")

    assert is_estimated(survey(tmp_path))


async def test_a_cancelled_interaction_without_usage_keeps_its_estimate(
    simulator: Simulator, tmp_path: Path
) -> None:
    key = create_key(tmp_path / "keys")
    async with connect(tmp_path, simulator, key) as client:
        identity = await client.create()
        assert (await client.ask("POST", f"/{identity}/cancel"))["status"] == "cancelled"
        await client.ask("GET", f"/{identity}")

    assert is_estimated(survey(tmp_path))


async def test_another_gateway_process_settles_it(simulator: Simulator, tmp_path: Path) -> None:
    key = create_key(tmp_path / "keys")
    async with connect(tmp_path, simulator, key) as client:
        identity = await client.create()
    for _ in range(2):
        async with connect(tmp_path, simulator, key) as client:
            await client.finish(identity)

    assert is_settled(survey(tmp_path))


async def test_a_crash_between_the_two_records_counts_it_once(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget is corrected before the interaction is marked as ended."""
    key = create_key(tmp_path / "keys")
    records: list[CallRecord] = []

    async def crash(*_: object) -> bool:
        raise StoreError(path="x", detail="killed")

    with monkeypatch.context() as patch:
        patch.setattr(interaction_usage, "_end", crash)
        async with connect(tmp_path, simulator, key) as client:
            identity = await client.create()
            with pytest.raises(RuntimeError, match="500"):
                await client.finish(identity)
    settled = survey(tmp_path)
    assert is_settled(settled)

    async with connect(tmp_path, simulator, key, records) as client:
        for _ in range(2):
            await client.finish(identity)
        await wait_until(lambda: len(records) == 2)
    assert survey(tmp_path) == settled
    assert [record.usage is not None for record in records] == [True, False]


async def test_a_stream_settles_it_at_its_end(simulator: Simulator, tmp_path: Path) -> None:
    key = create_key(tmp_path / "keys")
    records: list[CallRecord] = []
    async with connect(tmp_path, simulator, key, records) as client:
        text = await client.ask("POST", "?alt=sse", {**ASKED, "stream": True})
        await wait_until(lambda: records)
        settled = survey(tmp_path)
        assert is_settled(settled)
        identity = find_id(text)
        await client.finish(identity)
        await wait_until(lambda: len(records) > 1)

    assert survey(tmp_path) == settled
    assert [record.usage is not None for record in records] == [True] + [False] * (len(records) - 1)


@pytest.mark.parametrize("faults", ["", ",partial_usage"])
async def test_a_stream_that_broke_off_is_settled_by_reading_it_again(
    simulator: Simulator, tmp_path: Path, faults: str
) -> None:
    key = create_key(tmp_path / "keys")
    async with connect(tmp_path, simulator, key) as client:
        simulator.switch(f"background_polls=1,cut_at_chunk=3{faults}")
        identity = find_id(await client.read_until_cut({**ASKED, "stream": True}))
        simulator.switch("background_polls=1")
        assert is_estimated(survey(tmp_path))
        text = await client.ask("GET", f"/{identity}?stream=true&last_event_id=event_2")
        assert "interaction.completed" in text
        assert "event_1" not in text

    assert is_settled(survey(tmp_path))


async def test_without_a_budget_only_records_count_it(simulator: Simulator, tmp_path: Path) -> None:
    """An authorizer need not know requests whose usage is known later."""
    account, records = Account(), list[CallRecord]()
    application = produce_application(tmp_path, simulator.url)
    async with (
        serve_gateway(application, records, authorizer=account) as address,
        aiohttp.ClientSession() as session,
    ):
        client = Client(session, address, "k")
        await client.finish(await client.create())
        await wait_until(lambda: len(records) == 3)

    assert account.calls == ["settled"]
    assert account.used == [(None, None)]
    assert [record.usage is not None for record in records] == [False, False, True]
