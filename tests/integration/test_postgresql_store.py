"""Several processes and machines share conversations and runs in one PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import psycopg
import pytest

from support.runs.acting import invoke, say, script
from support.runs.hosted import Premises
from support.runs.written import compose, look
from support.stores.postgresql_server import Server, opened, produce_url
from vibe_llms import Engine
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations import Conversation, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs import claims, database_inbox, database_log
from vibe_llms.conversations.run_logs.database_log import DatabaseLog
from vibe_llms.conversations.run_logs.log import LogLine, claim_at_once, read_events
from vibe_llms.conversations.run_logs.log_lines import write_line, write_logged
from vibe_llms.conversations.run_logs.publishing import subscribe
from vibe_llms.conversations.stores.postgresql import database
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.events.engine import InvocationFinishedEvent, RunEndedEvent, RunStartedEvent
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import (
    ConfigurationError,
    CorruptionError,
    LimitError,
    StoreError,
    StoreUnavailableError,
    UnknownConversationError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import ResultCanister, UserCanister
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.views import text_of
from vibe_llms.runs.delivering import deliver, take_messages
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.opening import open_run
from vibe_llms.runs.surveying import read_summary

pytestmark = pytest.mark.postgresql

ENDED = RunEndedEvent(run_id="run", reason="answered")
STARTED = RunStartedEvent(run_id="run", conversation_id="a", length=1)
LETTER = MessageReceivedEvent(canister=UserCanister("Wait."), message_id="one")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PostgresqlStore]:
    """An empty store."""
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def other(store: PostgresqlStore) -> Iterator[PostgresqlStore]:
    """The same, as another process has it."""
    made = PostgresqlStore(store.url)
    yield made
    made.database.close()


def begin(store: PostgresqlStore, *texts: str) -> Conversation:
    """Keeps a conversation in which something was said."""
    conversation = Conversation()
    conversation.add_canisters([UserCanister(text) for text in texts])
    conversation.save(store)
    return conversation


def read_texts(store: PostgresqlStore, identity: str) -> list[str]:
    """Returns what was said."""
    return [text_of(each) for each in store.read(identity).canisters]


def pause(store: PostgresqlStore, identity: str) -> None:
    """Lets the claim of a process run out, as one that is not heard of for long."""
    claims.access_renewer(store.database).remove(identity)
    with store.database.transact() as connection:
        connection.execute("UPDATE vibe_claims SET until = clock_timestamp()")


# --- the store -------------------------------------------------------------------------------

READING = """
import re, sys
from pathlib import Path
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore

def measure():  # the most that was held since the start, without what the parent held
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

store = PostgresqlStore(sys.argv[1])
assert not store.contents.contains("0" * 64)
Path("/proc/self/clear_refs").write_text("5")
before = measure()
data = store.contents.read(sys.argv[2])
print((measure() - before) / len(data))
"""


@pytest.mark.slow
def test_007_content_is_read_as_the_bytes_that_it_is(store: PostgresqlStore) -> None:
    """As digits it would take six times its size, for each run that needs it at once."""
    known = store.contents.add(bytes(range(256)) * (1 << 17), mime_type="image/png")  # 32 MiB
    asked = subprocess.run(
        [sys.executable, "-c", READING, store.url, known],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    assert float(asked.stdout) < 4


def survey_tables(store: PostgresqlStore) -> set[str]:
    """Returns what tables there are where the store keeps its own."""
    with psycopg.connect(store.url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        return {name for (name,) in connection.execute(query)}


def test_000a_whoever_only_looks_makes_nothing(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    """Where nobody has kept anything, nothing is found; what another makes then is."""
    log, inbox = store.open_log("a"), store.open_inbox("a")
    with store.database.transact(reading=True):
        assert [*store.survey(), *store.contents.survey(), *store.survey_references()] == []
    assert (log.read(), log.read_last(), log.tail().read()) == ([], None, [])
    assert (log.tail().read_raw(), inbox.is_empty, [*inbox.read()]) == ((b"", 0), True, [])
    assert not store.contents.contains("0" * 64)
    asks = (store.read, store.read_metadata, store.examine, partial(read_summary, store))
    for ask in asks:
        with pytest.raises(UnknownConversationError):
            ask("a")
    assert store.index.survey() == []
    assert RunIndex(store).survey() == []
    assert survey_tables(store) == set()

    kept = begin(other, "one")
    assert "vibe_events" in survey_tables(store)
    assert [*store.survey()] == [kept.id]
    assert read_texts(store, kept.id) == ["one"]


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.create("a", ConversationMetadata()),
        lambda store: store.contents.add(b"data", mime_type="text/plain"),
    ],
)
def test_000b_whoever_changes_something_makes_the_tables(
    store: PostgresqlStore, change: Any
) -> None:
    """Also over a connection that somebody has looked with before, and changes nothing else."""
    assert [*store.survey()] == []
    change(store)
    assert "vibe_conversations" in survey_tables(store)
    store.create("b", ConversationMetadata())
    assert "b" in set(store.survey())


def test_000_many_append_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    """Each append is in one piece; the first of them find no tables, and make them once."""
    url = produce_url(tmp_path)
    stores = [PostgresqlStore(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda store: list(store.survey()), stores))
    stores[0].create("a", ConversationMetadata())

    def append(number: int) -> None:
        pair = [UserCanister(f"{number} one"), UserCanister(f"{number} two")]
        stores[number % 4].append("a", pair)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(40)))

    texts = read_texts(stores[0], "a")
    assert sorted(zip(texts[::2], texts[1::2], strict=True)) == sorted(
        (f"{number} one", f"{number} two") for number in range(40)
    )
    for store in stores:
        store.database.close()


def test_001_what_was_acknowledged_is_there_after_the_server_was_killed(tmp_path: Path) -> None:
    """While it is away each call says so in one line; when it is back, the next is answered."""
    server = Server()
    try:
        with opened(tmp_path, server) as store:
            conversation = begin(store, "one")
            server.kill()
            with pytest.raises(StoreError, match="Check that the server is running") as caught:
                store.append(conversation.id, [UserCanister("lost")])
            assert "127.0.0.1" in str(caught.value)
            server.start()

            store.append(conversation.id, [UserCanister("two")])

            log = store.open_log(conversation.id)
            log.claim()
            for _ in range(3):
                log.append("run", ENDED)
            log.synchronize()  # with all that was written before it
            server.kill()
            server.start()  # what was open has ended, and nobody was told
            assert len(read_events(log)) == 3
            log.close()
            assert read_texts(store, conversation.id) == ["one", "two"]
            assert verify(store).findings == ()
    finally:
        server.close()


def test_002_content_is_not_collected_while_somebody_adds(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    """Whoever holds goes on adding, though another waits to collect."""
    patient = attrs.evolve(other.contents, wait_seconds=0.2)
    with store.contents.hold():
        with pytest.raises(StoreError, match="kept adding content"), patient.hold_alone():
            pass
        identity = store.contents.add(b"x", mime_type="text/plain")

    with patient.hold_alone():
        patient.remove(identity)

    assert not store.contents.contains(identity)


def test_003_what_is_damaged_is_named(store: PostgresqlStore) -> None:
    """A line that does not read, and one that is gone, are found; the others are shown."""
    conversation = begin(store, "one", "two", "three")
    with store.database.transact() as connection:
        connection.execute("UPDATE vibe_canisters SET line = '{' WHERE number = 0")
        connection.execute("DELETE FROM vibe_canisters WHERE number = 2")

    with pytest.raises(StoreError, match="1 of the 3 acknowledged canisters"):
        store.read(conversation.id)

    tolerant = store.read(conversation.id, tolerant=True)
    assert [text_of(each) for each in tolerant.canisters] == ["two"]
    assert len(verify(store).findings) == 2


def test_004_tables_of_a_later_version_are_left_alone(store: PostgresqlStore) -> None:
    """Nothing is read or written where the meaning may have changed."""
    begin(store, "one")
    with store.database.transact() as connection:
        connection.execute("UPDATE vibe_format SET version = 9")
    late = PostgresqlStore(store.url)

    with pytest.raises(StoreError, match="have format 9"):
        list(late.survey())


@pytest.mark.parametrize("url", ["postgresql://u:secret@h/d", "postgres://h/d?password=secret"])
def test_005_a_password_has_no_place_in_the_setting(url: str, tmp_path: Path) -> None:
    """Settings are shown, and lie in files: PostgreSQL has places of its own for passwords."""
    environment = {"HOME": str(tmp_path), "VIBE_LLMS_STORE": url}

    with pytest.raises(ConfigurationError, match="PGPASSWORD") as caught:
        load_configuration(environment=environment, working_directory=tmp_path)
    assert "secret" not in str(caught.value)


# --- runs ------------------------------------------------------------------------------------


async def test_010_a_paused_worker_that_was_taken_over_says_nothing_more(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    """Neither into the log nor into the conversation: nothing is mixed with the other's."""
    conversation = begin(store, "one")
    async with open_run(conversation, store) as (context, journal):
        pause(store, conversation.id)
        taker = other.open_log(conversation.id)
        taker.claim()
        for _ in range(2):
            with pytest.raises(StoreError, match="lost its claim"):
                await journal.append([UserCanister("late")])
        with pytest.raises(StoreError, match="lost its claim"):
            await context.emit(ENDED)
        inbox = store.open_inbox(conversation.id)
        inbox.put(LETTER)
        with pytest.raises(StoreError, match="lost its claim"):
            await context.receive()

    assert inbox.read() == [LETTER]  # for the other
    assert read_texts(store, conversation.id) == ["one"]
    assert read_events(taker) == []
    assert taker.append("run", ENDED) == 1
    taker.close()


def test_015_a_log_that_the_server_has_forgotten_is_not_written_on(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    """A crash takes what nobody has secured; the run is taken up from what is there."""
    conversation = begin(store, "one")
    log = store.open_log(conversation.id)
    log.claim()
    assert [log.append("run", ENDED) for _ in range(3)] == [1, 2, 3]
    with other.database.transact() as connection:
        connection.execute("DELETE FROM vibe_events WHERE sequence = 3")

    assert isinstance(log, DatabaseLog)
    for _ in range(2):  # not by another branch of the run, either
        with pytest.raises(StoreUnavailableError, match="no longer ends at number 3") as raised:
            log.append("run", ENDED)
        assert raised.value.path == log.topic
        assert "is resumed" in raised.value.remedy

    assert len(read_events(log)) == 2
    log.close()
    log.claim()
    assert log.append("run", ENDED) == 3
    with store.database.transact():
        assert log.append("run", ENDED) == 4
    with suppress(RuntimeError), store.database.transact():
        assert log.append("run", ENDED) == 5
        raise RuntimeError
    assert log.append("run", ENDED) == 5  # the number of what was taken back is given again
    log.close()


async def test_015c_a_number_that_is_given_again_is_waited_for_again(
    store: PostgresqlStore, other: PostgresqlStore, statements: list[str]
) -> None:
    """As where a server has taken the place of another, and lacks what that had secured."""
    conversation = begin(store, "one")
    log = store.open_log(conversation.id)
    log.claim()
    await log.secure(await log.write("run", STARTED, ENDED, durable=True))
    log.close()
    with other.database.transact() as connection:
        connection.execute("DELETE FROM vibe_events")

    log.claim()
    statements.clear()
    number = log.append("run", ENDED)
    for _ in range(2):
        await log.secure(number)
    assert (number, [name_statement(each) for each in statements]) == (1, ["events", "secure"])
    log.close()


def test_015b_what_the_database_refuses_is_told_as_it_says_it(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no server has said anything."""
    conversation = begin(store, "one")
    log = store.open_log(conversation.id)
    log.claim()

    def refuse(*_: object) -> None:
        raise StoreError(detail="nobody answers")

    with monkeypatch.context() as patched:
        patched.setattr(type(store.database), "perform", refuse)
        with pytest.raises(StoreError, match="nobody answers"):
            log.append("run", ENDED)
    assert log.append("run", ENDED) == 1
    monkeypatch.setattr(type(store.database), "transact", refuse)
    log.close()  # its claim runs out
    assert not claims.access_renewer(store.database)._claims


def test_016_a_letter_that_is_taken_while_an_event_is_written_breaks_no_run(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    """A run looks for messages while its steps write: each has its number, none is refused."""
    conversation = begin(store, "one")
    inbox, log = store.open_inbox(conversation.id), store.open_log(conversation.id)
    assert isinstance(log, DatabaseLog)
    log.claim()
    assert log.append("run", ENDED) == 1
    inbox.put(LETTER)
    with ThreadPoolExecutor() as pool:
        with log.fencing(), store.database.transact():
            writing = pool.submit(log.append, "run", ENDED)  # does not see the message yet
            wait_until_one_waits(other)
            assert take_messages(inbox, log, "run") == [LETTER]
        assert writing.result() == 3

    inbox.put(attrs.evolve(LETTER, message_id="two"))
    take_messages(inbox, log, "run")  # what is written next does not know of it
    assert log.append("run", ENDED) == 5
    assert log.append("run", ENDED) == 6

    assert [each.sequence for each in log.read()] == [1, 2, 3, 4, 5, 6]
    with other.database.transact() as connection:
        connection.execute("DELETE FROM vibe_events WHERE sequence > 4")
    inbox.put(attrs.evolve(LETTER, message_id="three"))
    with pytest.raises(StoreUnavailableError, match="no longer ends at number 6;"):
        take_messages(inbox, log, "run")  # nor is a message put in the place of what is forgotten
    log.close()


def test_016b_of_what_happened_at_one_moment_all_has_the_numbers_behind_the_letter(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    """None of it is written at the place where it was thought to be, and none of it twice."""
    conversation = begin(store, "one")
    inbox, log = store.open_inbox(conversation.id), store.open_log(conversation.id)
    assert isinstance(log, DatabaseLog)
    log.claim()
    inbox.put(LETTER)
    with ThreadPoolExecutor() as pool:
        with log.fencing(), store.database.transact():
            writing = pool.submit(log.append, "run", STARTED, ENDED, durable=True)
            wait_until_one_waits(other)
            take_messages(inbox, log, "run")
        assert writing.result() == 3

    assert [(each.sequence, each.event) for each in log.read()] == [
        (1, LETTER),
        (2, STARTED),
        (3, ENDED),
    ]
    log.close()


async def test_016c_what_was_written_behind_a_letter_is_certain_by_itself(
    store: PostgresqlStore, statements: list[str]
) -> None:
    """Its transaction waits for the disk: nobody asks for that again."""
    conversation = begin(store, "one")
    inbox, log = store.open_inbox(conversation.id), store.open_log(conversation.id)
    log.claim()
    inbox.put(LETTER)
    take_messages(inbox, log, "run")
    statements.clear()

    await log.secure(log.append("run", ENDED))

    assert "secure" not in [name_statement(each) for each in statements]
    assert [each.sequence for each in log.read()] == [1, 2]
    log.close()


async def test_021_what_is_to_be_certain_is_when_it_is_written(
    store: PostgresqlStore, statements: list[str]
) -> None:
    """Then nothing is left to be waited for; what need not be is waited for when it is secured."""
    conversation = begin(store, "one")
    log = store.open_log(conversation.id)
    log.claim()
    statements.clear()
    await log.secure(log.append("run", STARTED))  # the first of all
    assert [name_statement(each) for each in statements] == ["events", "secure"]
    begun = read_place(store, "pg_current_wal_insert_lsn()")
    statements.clear()

    await log.secure(await log.write("run", STARTED, ENDED, durable=True))
    assert [name_statement(each) for each in statements] == ["events, certain"]
    assert read_place(store, "pg_current_wal_flush_lsn()") > begun

    statements.clear()
    number = await log.write("run", ENDED)
    for _ in range(2):
        await log.secure(number)
    assert [name_statement(each) for each in statements] == ["events", "secure"]
    assert read_place(store, "pg_current_wal_flush_lsn()") > begun

    statements.clear()
    log.append("run", ENDED)  # which nobody wants to be certain yet
    assert [name_statement(each) for each in statements] == ["events"]
    log.close()
    log.claim()
    statements.clear()
    log.append("run", ENDED)  # whoever claims it knows how long it is
    assert [name_statement(each) for each in statements] == ["events"]
    log.close()


def read_place(store: PostgresqlStore, function: str) -> int:
    """Returns a place in what the server writes down, in bytes from its beginning."""
    with store.database.transact(reading=True) as connection:
        row = connection.execute(f"SELECT ({function} - '0/0')::bigint").fetchone()  # type: ignore[call-overload]
    assert row is not None
    return int(row[0])


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this process asks of databases from now on, but for looks that time alone decides."""
    asked: list[str] = []
    execute, transaction = psycopg.Connection.execute, psycopg.Connection.transaction

    def note(self: Any, query: Any, *given: Any, **options: Any) -> Any:
        # Whoever looks while another asks makes one more connection, and sets it up.
        if "vibe_letters" not in query and not query.startswith("SET lock_timeout"):
            asked.append(str(query))
        return execute(self, query, *given, **options)

    def begin(self: Any) -> Any:
        if not self.read_only:
            asked.append("BEGIN")
        return transaction(self)

    for module in (claims, database_log):
        monkeypatch.setattr(module, "LEASE_SECONDS", 3_600.0)
    monkeypatch.setattr(psycopg.Connection, "execute", note)
    monkeypatch.setattr(psycopg.Connection, "transaction", begin)
    return asked


def name_statement(statement: str) -> str:
    """Returns in a word what a statement does that a turn of a run may need."""
    if "INSERT INTO vibe_canisters" in statement:
        return "canisters"
    if "INSERT INTO vibe_events" in statement:
        return "events" if "synchronous_commit', 'off'" in statement else "events, certain"
    return "secure" if statement.startswith("UPDATE vibe_claims SET epoch") else statement


async def test_022_a_turn_of_a_run_is_five_statements_each_a_transaction(
    store: PostgresqlStore, statements: list[str]
) -> None:
    """Three of them wait for the disk before the run goes on, for the model, the call and what
    each has brought: four in all, as what was brought is certain by itself."""

    async def count(turns: int) -> list[str]:
        conversation = begin(store, "Go.")
        limits = Limits(run_steps=turns + 1, run_invocations=turns)
        engine = Engine(script(*compose(turns)), [look], store=store, limits=limits)
        statements.clear()
        await engine.answer(conversation)
        return [name_statement(each) for each in statements]

    few, more = await count(2), await count(4)

    turn = ["events, certain", "canisters", "events, certain", "events", "canisters"]
    assert len(more) - len(few) == 2 * len(turn)
    start = more.index("events, certain")
    assert more[start : start + 4 * len(turn)] == turn * 4


def test_017_what_others_keep_locked_is_a_passing_fault(
    store: PostgresqlStore, other: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where somebody makes an index: no run fails of it, and is taken up later."""
    conversation = begin(store, "one")
    store.database.close()
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.05)
    with other.database.transact() as connection:
        connection.execute("LOCK TABLE vibe_canisters IN SHARE MODE")
        with pytest.raises(StoreUnavailableError, match="locked by other processes"):
            store.append(conversation.id, [UserCanister("two")])

    store.append(conversation.id, [UserCanister("two")])
    assert read_texts(store, conversation.id) == ["one", "two"]


def wait_until_one_waits(store: PostgresqlStore) -> None:
    """Returns when a statement waits for what another transaction has locked."""
    asked = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with store.database.transact() as connection:
            row = connection.execute(asked).fetchone()
        if row and row[0]:
            return
    raise AssertionError("nobody waits")


def test_011_a_claim_that_is_renewed_is_nobody_else_s(
    store: PostgresqlStore, other: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process goes on renewing it without being asked."""
    for module in (claims, database_log):
        monkeypatch.setattr(module, "LEASE_SECONDS", 3.0)
    conversation = begin(store, "one")
    log, elsewhere = (each.open_log(conversation.id) for each in (store, other))
    log.claim()

    until = [read_until(store)]
    deadline = time.monotonic() + 60
    while len(until) < 4 and time.monotonic() < deadline:
        if (now := read_until(store)) != until[-1]:
            until.append(now)
        with pytest.raises(StoreError, match="already active"):
            elsewhere.claim()

    assert len(until) == 4
    log.close()
    elsewhere.claim()
    elsewhere.close()


@pytest.mark.parametrize(
    ("seconds", "is_claimed"),
    [
        pytest.param(3_600, False, id="set back by an hour"),
        pytest.param(5, True, id="corrected"),
        pytest.param(-3_600, False, id="set forward"),
    ],
)
def test_011b_a_claim_of_a_dead_process_expires_although_the_clock_was_set(
    store: PostgresqlStore, other: PostgresqlStore, seconds: int, is_claimed: bool
) -> None:
    """And if that process lives after all, it cannot write."""
    conversation = begin(store, "one")
    log, elsewhere = (each.open_log(conversation.id) for each in (store, other))
    log.claim()
    claims.access_renewer(store.database).remove(conversation.id)
    with store.database.transact() as connection:
        connection.execute(
            "UPDATE vibe_claims SET until = until + make_interval(secs => %s)", (seconds,)
        )

    assert elsewhere.is_claimed is is_claimed
    assert claim_at_once(elsewhere) is not is_claimed

    if not is_claimed:
        with pytest.raises(StoreError, match="lost"):
            log.append("run", ENDED)
    (log if is_claimed else elsewhere).append("run", ENDED)
    elsewhere.close()
    log.close()


def read_until(store: PostgresqlStore) -> Any:
    """Returns when the only claim runs out."""
    with store.database.transact() as connection:
        row = connection.execute("SELECT until FROM vibe_claims").fetchone()
    assert row is not None
    return row[0]


def test_018_a_line_of_a_log_that_does_not_read_is_named(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    """With the number of its event; nothing is written behind it, and nobody is kept out."""
    conversation = begin(store, "one")
    log = store.open_log(conversation.id)
    assert isinstance(log, DatabaseLog)
    log.claim()
    for _ in range(3):
        log.append("run", ENDED)
    log.close()
    damage = "UPDATE vibe_events SET line = replace(line, %s, %s) WHERE sequence = 3"
    for whole, damaged, told in (
        ('"sequence":3', '"sequence":7', "its own number is 7"),
        ('"sequence":3', '"sequence":}', "JSON is malformed"),
    ):
        with store.database.transact() as connection:
            connection.execute(damage, (whole, damaged))
        for read in (log.read, log.read_last, log.claim, lambda: log.read(after=2)):
            with pytest.raises(CorruptionError, match=told) as raised:
                read()
            assert (raised.value.path, raised.value.line) == (log.topic, 3)
            assert "Cannot read an event: " in raised.value.detail
            assert raised.value.detail.endswith(".")
            assert not raised.value.detail.endswith("..")
        if "malformed" in told:
            with pytest.raises(CorruptionError, match=told) as raised:
                log.tail(1).read()
            assert (raised.value.path, raised.value.line) == (log.topic, 3)
        with store.database.transact() as connection:
            connection.execute(damage, (damaged, whole))
    elsewhere = other.open_log(conversation.id)
    elsewhere.claim()
    assert elsewhere.append("run", ENDED) == 4
    elsewhere.close()


def test_019_what_may_not_be_written_says_where(
    store: PostgresqlStore, other: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is not claimed, that another has, that there is none of; an inbox that is full."""
    conversation = begin(store, "one")
    log, inbox = store.open_log(conversation.id), store.open_inbox(conversation.id)
    assert isinstance(log, DatabaseLog)
    log.close()
    with pytest.raises(StoreError, match=f"{conversation.id} events was not claimed") as raised:
        log.append("run", ENDED)
    assert raised.value.path == log.topic == f"{store.database.location} {conversation.id} events"
    log.synchronize()
    log.claim()
    with pytest.raises(StoreError, match="already active"):
        other.open_log(conversation.id).claim()
    with pytest.raises(StoreError, match="was not claimed"):  # by this one, though it is the first
        other.open_log(conversation.id).append("run", ENDED)
    pause(store, conversation.id)
    taker = other.open_log(conversation.id)
    taker.claim()
    for write in (lambda: log.append("run", ENDED), log.synchronize):
        with pytest.raises(StoreError, match=r"lost its claim.*15 seconds.*Another") as raised:
            write()
        assert raised.value.path == log.topic
    taker.close()

    missing = store.open_log("gone")
    assert isinstance(missing, DatabaseLog)
    with pytest.raises(UnknownConversationError) as unknown:
        missing.claim()
    assert (unknown.value.identity, unknown.value.path) == ("gone", missing.topic)
    with pytest.raises(UnknownConversationError) as unknown:
        store.open_inbox("gone").put(LETTER)
    assert (unknown.value.identity, unknown.value.path) == (
        "gone",
        f"{store.database.location} gone",
    )

    monkeypatch.setattr(database_inbox, "CAPACITY", 2)
    for name in ("one", "two"):
        inbox.put(attrs.evolve(LETTER, message_id=name))
    with pytest.raises(LimitError, match="unread messages already wait for this run"):
        inbox.put(LETTER)
    assert [each.message_id for each in inbox.read()] == ["one", "two"]
    with store.database.transact() as connection:
        connection.execute("UPDATE vibe_letters SET letter = '{' WHERE letter LIKE '%two%'")
        row = connection.execute("SELECT max(number) FROM vibe_letters").fetchone()
    with pytest.raises(CorruptionError, match="Cannot read a message") as damaged:
        inbox.read()
    assert row is not None
    assert damaged.value.path == f"{store.database.location} {conversation.id} messages"
    assert damaged.value.line == row[0]


def test_020_lines_are_taken_over_as_they_are_and_given_shorter(store: PostgresqlStore) -> None:
    """What is behind them stays; the claim is given up."""
    conversation = begin(store, "one")
    log = store.open_log(conversation.id)
    assert isinstance(log, DatabaseLog)
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    lines = [write_line(number, moment, "run", ENDED) for number in range(1, 5)]
    log.claim()
    log.adopt(lines)
    assert [write_logged(each) for each in log.read()] == lines
    log.replace([write_line(3, moment, "run", ENDED, kept=1)], 3)

    assert [(each.sequence, each.kept) for each in log.read()] == [(3, 1), (4, 0)]
    with pytest.raises(StoreError, match="was not claimed"):
        log.append("run", ENDED)
    log.claim()
    assert log.append("run", ENDED) == 5
    log.close()


def test_012_a_letter_is_in_the_log_once_or_in_the_inbox(store: PostgresqlStore) -> None:
    """Both are one transaction: where the log does not get it, the inbox keeps it."""
    conversation = begin(store, "one")
    inbox, log = store.open_inbox(conversation.id), store.open_log(conversation.id)
    inbox.put(LETTER)

    def refuse(_: object) -> None:
        log.claim()
        log.append("run", LETTER)
        log.close()
        raise StoreError(detail="full")

    with pytest.raises(StoreError, match="full"):
        inbox.empty(refuse)
    assert (inbox.is_empty, read_events(log)) == (False, [])

    assert deliver(store, conversation.id)

    assert (inbox.is_empty, read_events(log)) == (True, [LETTER])


def test_012b_one_question_tells_all_runs_of_a_process_whether_there_are_letters(
    store: PostgresqlStore, other: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again where the answer is too old, and where this process has written some."""
    identities = [begin(store, "one").id for _ in range(2)]
    inboxes = [store.open_inbox(each) for each in identities]
    asked: list[str] = []
    execute = psycopg.Connection.execute

    def note(self: Any, query: Any, *given: Any) -> Any:
        asked.extend(["look"] if "DISTINCT conversation" in query else [])
        return execute(self, query, *given)

    monkeypatch.setattr(psycopg.Connection, "execute", note)
    monkeypatch.setattr(database_inbox, "_CACHE_SECONDS", 1.0)
    clock = SimpleNamespace(monotonic=lambda: 0.25)  # a machine that has just begun
    monkeypatch.setattr(database_inbox, "time", clock)

    other.open_inbox(identities[0]).put(LETTER)
    assert [each.is_empty for each in inboxes] == [False, True]
    other.open_inbox(identities[1]).put(LETTER)
    clock.monotonic = lambda: 1.25
    assert [each.is_empty for each in inboxes] == [False, True]
    assert asked == ["look"]
    clock.monotonic = lambda: 1.5
    assert [each.is_empty for each in inboxes] == [False, False]
    assert asked == ["look"] * 2
    for each in inboxes:
        each.empty(lambda messages: None)
    assert [each.is_empty for each in inboxes] == [True, True]
    inboxes[1].put(attrs.evolve(LETTER, message_id="two"))
    assert [each.is_empty for each in inboxes] == [True, False]
    assert asked == ["look"] * 4


async def test_013a_a_line_says_of_which_run_it_is_and_names_the_media(
    store: PostgresqlStore,
) -> None:
    """Their bytes are with the other content, where they are kept once."""
    conversation = begin(store, "one")
    log = store.open_log(conversation.id)
    log.claim()
    picture = ImageContent(mime_type="image/png", data=b"picture")
    result = ResultCanister([picture], invocation_id="i")
    await log.write(
        "this one", InvocationFinishedEvent(key="k", invocation_id="i", name="f", result=result)
    )
    log.close()

    (logged,) = log.read()
    assert logged.run_id == "this one"
    assert isinstance(logged.event, InvocationFinishedEvent)
    (content,) = logged.event.result.content
    assert isinstance(content, ImageContent)
    assert content.data is None
    assert content.content_id is not None
    assert store.contents.read(content.content_id) == b"picture"


def test_013_a_log_is_read_on_from_any_number_in_pieces(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large an event is, one at least comes."""
    monkeypatch.setattr(database_log, "PIECE_BYTES", 500)
    conversation = begin(store, "one")
    log = store.open_log(conversation.id)
    assert isinstance(log, DatabaseLog)
    log.claim()
    for number in range(7):
        detail = "x" * (2000 if number == 3 else 100)
        log.append("run", attrs.evolve(ENDED, detail=detail))
    log.close()

    for after in range(8):
        tail, found = log.tail(after), []
        while lines := tail.read():
            found += [line.sequence for line in lines]
        assert found == list(range(after + 1, 8))
    raw, pieces = log.tail(1), []
    while piece := raw.read_raw(500)[0]:
        pieces.append(piece)
    assert len(pieces) > 2
    assert b"".join(pieces) == b"".join([write_logged(each) + b"\n" for each in log.read(after=1)])
    assert raw.read_raw() == (b"", 7)
    assert log.tail().read_raw()[1] == 7


def test_013b_lines_are_heard_at_once_as_they_can_be_read(store: PostgresqlStore) -> None:
    """But for those that may yet be taken back."""
    conversation = begin(store, "one")
    log, heard = store.open_log(conversation.id), list[LogLine]()
    topic = log.topic
    assert topic == f"{store.database.location} {conversation.id} events"
    log.claim()
    with subscribe(topic, heard.append):
        log.append("run", STARTED, ENDED)
        with store.database.transact():
            log.append("run", ENDED)
    log.close()

    assert heard == [*log.tail().read()][:2]
    assert [each.word for each in heard] == ["run.started", "run.ended"]


async def test_014_two_daemons_share_runs(
    store: PostgresqlStore, other: PostgresqlStore, tmp_path: Path
) -> None:
    """Whichever is asked answers; a run is performed once, though both look for work."""
    calls: list[str] = []

    def note(word: str) -> str:
        """Notes a word."""
        calls.append(word)
        return "noted"

    places = []
    for name, kept in (("one", store), ("two", other)):
        (tmp_path / name).mkdir()
        places.append(Premises(tmp_path / name, tools=[note], shared=kept))
    first, second = places
    for place in places:
        await place.host.start()
    try:
        orders = [
            first.spec([invoke("note", word=f"w{number}")], [say("Done.")]) for number in range(1)
        ]
        started = [await first.start(spec) for spec in orders for _ in range(6)]
        for run_id in started:
            summary = await second.wait(run_id, "ended")
            assert summary.reason == "answered", summary
    finally:
        for place in places:
            await place.host.close()

    assert len(calls) == 6
    assert read_texts(store, started[0])[-1] == "Done."


def test_006_a_role_that_may_make_no_tables_is_told_what_it_lacks(store: PostgresqlStore) -> None:
    """As it is with the roles that are given to strangers."""
    begin(store, "one")
    with store.database.transact() as connection:
        connection.execute("CREATE ROLE poor LOGIN")
    poor = PostgresqlStore(store.url.replace("vibe@", "poor@"))
    try:
        with pytest.raises(StoreError, match="GRANT USAGE, CREATE ON SCHEMA"):
            poor.create("two", ConversationMetadata())
    finally:
        poor.database.close()
        with store.database.transact() as connection:
            connection.execute("DROP ROLE poor")
