"""Whoever has another key is told nothing of what is not theirs, on any path, nor by any daemon."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

import aiohttp
import attrs
import pytest

from support.flows.flow_tasks import compose_task
from support.gateways.authorizers import KeyAuthorizer
from support.runs.acting import invoke, say
from support.runs.hosted import FAST, Premises
from support.stores.postgresql_server import produce_url
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.daemons.agents.making import produce_service
from vibe_llms.daemons.routes import Route
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.invocables import produce_invoker
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.identities import produce_identity

_BODIES: Final[dict[str, Any]] = {
    "/approvals": {"digest": "d", "decision": "allow"},
    "/messages": {"content": "Hello"},
    "/conversations/{id}": {"name": "mine"},
}
_OPEN: Final = ("/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/page")
"""What anybody may read, and begins so: it says nothing of runs."""


def pay() -> str:
    """Pays."""
    return "paid"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@attrs.define
class Stranger:
    """Asks a daemon under some key."""

    session: aiohttp.ClientSession
    url: str
    key: str

    async def ask(self, method: str, path: str, body: Any = None, **more: str) -> tuple[int, str]:
        """Returns status and text of an answer."""
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        headers |= {name.replace("_", "-"): text for name, text in more.items()}
        async with self.session.request(
            method, self.url + path, json=body, headers=headers
        ) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def serving(premises: Premises, store: ConversationStore) -> AsyncIterator[tuple[Any, str]]:
    async def produce_tools(_: object) -> list[object]:
        return [PAY]

    service = produce_service(
        premises.runs.application,
        store,
        produce_tools=produce_tools,
        hosting=FAST,
        authorizer=KeyAuthorizer(),
    )
    async with Server(service, ServerSettings(port=0)) as server:
        yield service, server.urls[0]


async def live(premises: Premises) -> list[str]:
    """Has runs of each kind, that are somebody's; returns the ids of them and of their parts."""
    runs, store = premises.runs, premises.runs.store
    waiting = await premises.start(premises.spec([invoke("pay")], [say("Done.")]), subject="ann")
    await premises.wait(waiting, "waiting", subject="ann")
    said = [UserCanister("The secret is 4711.")]
    ended = (await runs.start(RunSpec(model="scripted:echo"), said, subject="ann")).id
    task = compose_task('START --> P0["Ask it"] --> END\n', "good")
    flow = (await runs.start(RunSpec(task=task), subject="ann")).id
    for each in (ended, flow):
        await premises.wait(each, "ended", subject="ann")
    fork = (await runs.fork(ended, subject="ann")).id
    known = {waiting, ended, flow, fork}
    parts = [each for each in store.survey() if each not in known]
    assert parts
    return [*known, *parts]


def compose(route: Route, identity: str) -> str:
    """Returns a path of a route."""
    query = f"?other={identity}" if route.pattern.endswith("/difference") else ""
    return route.pattern.replace("{id}", identity).replace("{content}", "0" * 64) + query


def choose_body(route: Route) -> Any:
    """Returns a body that makes sense there."""
    if route.method not in ("POST", "PATCH"):
        return None
    return next((body for end, body in _BODIES.items() if route.pattern.endswith(end)), {})


@pytest.mark.slow
@pytest.mark.parametrize("is_shared", [False, pytest.param(True, marks=pytest.mark.postgresql)])
async def test_others_are_told_of_no_run_whatever_they_ask(tmp_path: Path, is_shared: bool) -> None:
    """The same words as of what is not there; by each of two daemons that have one store."""

    def produce_store() -> ConversationStore:
        if is_shared:
            return PostgresqlStore(produce_url(tmp_path))
        return DirectoryStore(tmp_path / "store")

    premises = Premises(tmp_path, (PAY,), shared=produce_store())
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with premises:
            ids = await live(premises)
        for _ in range(2):
            service, url = await stack.enter_async_context(serving(premises, produce_store()))
            ann, bob, nobody = (Stranger(session, url, key) for key in ("ann", "bob", ""))
            assert (await ann.ask("GET", f"/runs/{ids[0]}"))[0] == 200
            missing = produce_identity()
            about = [each for each in service.routes if "{id}" in each.pattern]
            assert len(about) >= 17
            for route, identity in product(about, ids):
                method, body = route.method, choose_body(route)
                of_hers = await bob.ask(method, compose(route, identity), body)
                of_none = await bob.ask(method, compose(route, missing), body)
                told = (of_hers[0], of_hers[1].replace(identity, missing))
                assert told == of_none, (method, route.pattern)
                assert of_hers[0] == 404, (method, route.pattern, of_hers)
                if method == "GET":
                    assert await bob.ask("HEAD", compose(route, identity)) == (404, "")
                refused = await nobody.ask(method, compose(route, identity), body)
                assert refused[0] == 401, (method, route.pattern)
                assert identity not in refused[1]
            for path in ("/runs", "/conversations", "/conversations?query=secret"):
                status, text = await bob.ask("GET", path)
                assert (status, json.loads(text)["data"]) == (200, []), path
                assert len(json.loads((await ann.ask("GET", path))[1])["data"]) > 0, path
            for path, identity in product(("/runs", "/conversations"), ids):
                of_hers = await bob.ask("GET", f"{path}?after={identity}")
                of_none = await bob.ask("GET", f"{path}?after={missing}")
                assert (of_hers[0], of_hers[1].replace(identity, missing)) == of_none, path
            for route in service.routes:
                if "{" not in route.pattern and route.pattern.startswith(_OPEN):
                    text = (await nobody.ask(route.method, route.pattern))[1]
                    assert not [each for each in (*ids, "4711", "ann") if each in text.split()]
    if premises.shared is not None and is_shared:
        premises.shared.database.close()  # type: ignore[attr-defined]
