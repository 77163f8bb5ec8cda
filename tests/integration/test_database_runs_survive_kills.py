"""A run whose journal is in PostgreSQL is killed before each transaction, and just behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.runs.acting import invoke, say, script
from support.stores.disks import Crash
from support.stores.postgresql_server import opened
from vibe_llms import Conversation, Engine
from vibe_llms.conversations import ConversationStore, verify
from vibe_llms.conversations.stores.postgresql.database import Database
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import Approval, Decision
from vibe_llms.messages.views import text_of
from vibe_llms.runs.replaying import replay_run

pytestmark = pytest.mark.postgresql

TURNS = (
    [invoke("look", "a", where="x"), invoke("send", "b", text="one")],
    [invoke("send", "c", text="two")],
    [say("Done.")],
)


class DoomedDatabase(Database):
    """Its process dies before a given transaction, or just behind it."""

    def doom(self, left: int, *, is_behind: bool) -> None:
        """Says how many transactions are left, that one included."""
        self._left, self._is_behind = left, is_behind

    @contextmanager
    def _lend(self, *, reading: bool, prepares: bool = True) -> Iterator[psycopg.Connection[Any]]:
        if not reading:
            self._left -= 1
        if self._left < 0 or (self._left == 0 and not self._is_behind):
            self._left = -1
            raise Crash
        with super()._lend(reading=reading, prepares=prepares) as connection:
            yield connection
        if self._left == 0:
            self._left = -1
            raise Crash


def work(store: ConversationStore, identity: str, sent: list[str], *approvals: Approval) -> Any:
    """Takes the run up."""

    def look(where: str) -> str:
        """Looks."""
        return f"seen: {where}"

    def send(text: str) -> str:
        """Sends."""
        sent.append(text)
        return f"sent: {text}"

    tools = [produce_invoker(look, effect="pure"), produce_invoker(send, effect="once")]
    engine = Engine(script(*TURNS), tools, store=store)
    conversation = Conversation.restore(store, identity)
    return asyncio.run(engine.answer(conversation, approvals=approvals))


def finish(store: PostgresqlStore, identity: str, sent: list[str]) -> None:
    """Goes on with it as another process does; of what is in doubt a person looks."""
    outcome = work(store, identity, sent)
    while outcome.requests:
        given = []
        for request in outcome.requests:
            assert request.in_doubt
            is_sent = any(each in request.arguments for each in sent)
            decision = Decision.DENY if is_sent else Decision.ALLOW
            given.append(Approval(digest=request.digest, decision=decision))
        outcome = work(store, identity, sent, *given)


@pytest.mark.parametrize(
    ("stride", "is_behind"),
    [
        (6, True),
        pytest.param(1, True, marks=pytest.mark.slow),
        pytest.param(1, False, marks=pytest.mark.slow),
    ],
)
def test_a_run_survives_its_death_at_every_transaction(
    tmp_path: Path, stride: int, is_behind: bool
) -> None:
    """What happens once happens once, each result is there, and a model that may have been paid
    for an answer that is lost is told of."""
    with opened(tmp_path) as store:
        for left in range(1, 100, stride):
            conversation, sent = Conversation(), list[str]()
            conversation.add_user_message("Go.")
            conversation.save(store)
            doomed = PostgresqlStore(store.url)
            object.__setattr__(doomed, "database", DoomedDatabase(store.url))
            doomed.database.doom(left, is_behind=is_behind)  # type: ignore[attr-defined]
            is_over = True
            try:
                work(doomed, conversation.id, sent)
            except Crash:
                is_over = False
            with suppress(Crash):
                doomed.database.close()
            with store.database.transact() as connection:  # its claim runs out
                connection.execute("UPDATE vibe_claims SET until = '-infinity'")

            finish(store, conversation.id, sent)

            assert sorted(sent) == ["one", "two"], left
            canisters = store.read(conversation.id).canisters
            texts = [text_of(each) for each in canisters if each.role == "result"]
            assert [len(texts), texts[0]] == [3, "seen: x"], left
            assert text_of(canisters[-1]) == "Done."
            events = [each.event for each in store.open_log(conversation.id).read()]
            kinds = [each.type for each in events]
            paid = kinds.count("generation.finished")
            assert paid == 3, left
            assert kinds.count("generation.started") == paid + kinds.count("generation.doubted")
            assert asyncio.run(replay_run(store, conversation.id)).difference is None, left
            if is_over:
                assert left > 20
                break
        assert verify(store).findings == ()
