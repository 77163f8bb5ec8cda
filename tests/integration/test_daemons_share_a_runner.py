"""Several agents daemons on one runner: any of them answers for any run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.runs.acting import invoke, say
from support.runs.hosted import FAST, Premises
from support.stores.postgresql_server import produce_url
from vibe_llms.agents.interfaces import Runs
from vibe_llms.agents.remote import connect
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.daemons.agents.making import produce_service
from vibe_llms.daemons.agents.settings import AgentsSettings
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow
from vibe_llms.messages.canisters import UserCanister

pytestmark = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")


def pay() -> str:
    """Pays."""
    return "paid"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@asynccontextmanager
async def serving(premises: Premises, url: str, queues: str) -> AsyncIterator[Runs]:
    """Lends the runs of a daemon, over HTTP."""

    async def produce_tools(_: object) -> list[object]:
        return [PAY]

    service = produce_service(
        premises.runs.application,
        premises.store,
        AgentsSettings(runner=url, queues=queues),
        produce_tools=produce_tools,
        hosting=FAST,
    )
    settings = ServerSettings(port=0)
    async with Server(service, settings) as server, connect(server.urls[0]) as runs:
        yield runs


@pytest.mark.slow
@pytest.mark.parametrize(
    "base", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
async def test_a_stream_goes_on_at_another_daemon_where_it_was(tmp_path: Path, base: str) -> None:
    is_shared = base == "postgresql"
    url = produce_url(tmp_path) if is_shared else f"sqlite:///{tmp_path}/runner.db"
    shared = PostgresqlStore(url) if is_shared else None
    premises = Premises(tmp_path, shared=shared)
    async with asyncio.timeout(180), AsyncExitStack() as stack:
        worker = await stack.enter_async_context(serving(premises, url, "runs"))
        front = await stack.enter_async_context(serving(premises, url, ""))
        spec = premises.spec([invoke("pay")], [say("Done.")])
        run_id = (await front.start(spec, [UserCanister("Pay.")])).id
        assert (await front.wait(run_id, states=["waiting"])).waiting == 1
        told: list[LoggedEvent] = []
        async with aclosing(front.watch(run_id)) as stream:
            async for event in stream:
                if isinstance(event, LoggedEvent):
                    told.append(event)
                if len(told) == 3:
                    break
        (waiting,) = await front.survey_approvals(run_id)
        await front.approve(run_id, allow(waiting.request))
        async with aclosing(worker.watch(run_id, after=3, follow=False)) as stream:
            told += [each async for each in stream if isinstance(each, LoggedEvent)]
        assert told == list(premises.store.open_log(run_id).read())
        assert [(await each.find(run_id)).reason for each in (worker, front)] == ["answered"] * 2
    if shared is not None:
        shared.database.close()
