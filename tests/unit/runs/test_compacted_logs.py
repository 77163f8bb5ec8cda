"""The log of a run that ended long ago is shorter, and says the same of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.runs.acting import invoke, say, script
from support.runs.hosted import FAST, Premises
from support.stores.disks import Crash, CrashingDisk, HastyDisk
from support.stores.postgresql_server import produce_url
from vibe_llms import Conversation, Engine
from vibe_llms.agents.local import LocalRuns
from vibe_llms.conversations import ConversationStore, DirectoryStore, MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.file_log import TALLY, FileLog
from vibe_llms.conversations.run_logs.log import LoggedEvent, read_unsettled
from vibe_llms.conversations.run_logs.log_lines import write_line
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.run_logs.tailing import FileTail
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import (
    InvocationFinishedEvent,
    RunEndedEvent,
    RunStartedEvent,
    StateEnteredEvent,
)
from vibe_llms.events.flow import FlowEndedEvent
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import CorruptionError, StoreError
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import Approval, Decision
from vibe_llms.logs.tallies import Tally, encode_tally, read_tally
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from vibe_llms.runs import compacting
from vibe_llms.runs.compacting import Compaction, compact_log, compact_logs
from vibe_llms.runs.comparing import read_moments
from vibe_llms.runs.copying import copy_store
from vibe_llms.runs.earlier_calls import survey_inherited
from vibe_llms.runs.replaying import replay_run
from vibe_llms.runs.surveying import read_summary

SETTLED = RunEndedEvent(run_id="run", reason="answered", settles=True)
FUTURE = datetime(9999, 1, 1, tzinfo=UTC)
LONG = "seen: " + "all of it, " * 500


def look(where: str) -> str:
    """Looks somewhere."""
    return LONG + where


def pay(amount: int) -> str:
    """Pays."""
    if amount > 5:
        raise ValueError("too much")
    return "paid"


TOOLS = [look, produce_invoker(pay, needs_approval=True)]


@pytest.fixture(
    params=["memory", "directory", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConversationStore]:
    """Every place for logs."""
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "directory":
        yield DirectoryStore(tmp_path / "store", disk=HastyDisk())
    else:
        shared = PostgresqlStore(produce_url(tmp_path))
        yield shared
        shared.database.close()


def act(
    store: ConversationStore,
    *rounds: list[Any],
    approvals: int = 1,
    edit: bool = False,
    limits: Limits | None = None,
) -> str:
    """Performs a run for each round of turns, all in one conversation; returns its id."""
    conversation = Conversation()

    async def perform(turns: list[Any]) -> None:
        nonlocal conversation
        conversation.add_user_message("Go.")
        # A script goes on behind the turns that there are.
        models = (AssistantCanister, InvocationCanister)
        known = {each.turn_id for each in conversation.canisters if isinstance(each, models)}
        played = [[say("Before.")]] * len(known)
        engine = Engine(script(*played, *turns), TOOLS, store=store, limits=limits)
        outcome = await engine.answer(conversation)
        for _ in range(approvals):
            given = [
                Approval(
                    digest=each.digest,
                    decision=Decision.EDIT if edit else Decision.ALLOW,
                    arguments='{"amount": 1}' if edit else None,
                )
                for each in outcome.requests
            ]
            if given:
                outcome = await engine.answer(outcome.conversation, approvals=given)
        conversation = outcome.conversation

    for turns in rounds:
        asyncio.run(perform(turns))
    return conversation.id


SIMPLE = [[invoke("look", "a", where="x"), invoke("pay", "b", amount=2)], [say("Done.")]]


def describe(store: ConversationStore, identity: str) -> dict[str, Any]:
    """Returns all that anybody makes of a log."""
    replayed = asyncio.run(replay_run(store, identity))
    return {
        "summary": read_summary(store, identity),
        "unsettled": read_unsettled(store.open_log(identity)),
        "moments": read_moments(store, identity),
        "difference": replayed.difference,
        "asked": [each for each in replayed.steps if each.step in ("generate", "terminate")],
        "inherited": [
            Record.read(survey_inherited(store, Conversation.restore(store, child)))
            for child in store.survey()
            if child != identity
        ],
    }


def compact(store: ConversationStore, identity: str) -> Compaction:
    """Compacts a log up to its last end."""
    done = compact_log(store, identity, FUTURE)
    assert done is not None
    return done


def read(store: ConversationStore, identity: str, after: int = 0) -> list[LoggedEvent]:
    """Reads a log in both ways that there are."""
    log = store.open_log(identity)
    tail, told = log.tail(after), list[int]()
    while lines := tail.read():
        told += [line.sequence for line in lines]
    found = [*log.read(after=after)]
    assert [each.sequence for each in found] == told
    return found


def test_000_it_is_shorter_and_says_the_same(store: ConversationStore) -> None:
    """Where it stands, what runs to come need, what a replay, a diff and forks see."""
    identity = act(store, SIMPLE, [[say("Again.")]], SIMPLE)
    store.fork(identity, from_index=4, child="fork")
    before, old = describe(store, identity), read(store, identity)

    done = compact(store, identity)

    assert describe(store, identity) == before
    new = read(store, identity)
    assert done.events == (len(old), len(new))
    assert done.size_bytes[1] < 0.6 * done.size_bytes[0]
    assert new[-1].kept == len(new)
    assert {each.event.type for each in old} - {each.event.type for each in new} == {"run.state"}
    results = [each.event for each in new if isinstance(each.event, InvocationFinishedEvent)]
    assert [event.result.content for event in results] == [()] * 4
    assert compact_log(store, identity, FUTURE) is None


def test_010_numbers_are_what_they_were(store: ConversationStore) -> None:
    """Whoever has heard up to any of them, one that has left too, goes on behind it."""
    identity = act(store, SIMPLE, SIMPLE)
    old = {each.sequence: each.event.type for each in read(store, identity)}

    compact(store, identity)

    new = [each.sequence for each in read(store, identity)]
    for after in range(len(old) + 1):
        found = read(store, identity, after)
        assert [each.sequence for each in found] == [each for each in new if each > after]
        assert all(old[each.sequence] == each.event.type for each in found)


def test_020_a_run_goes_on_behind_it_and_it_is_compacted_again(store: ConversationStore) -> None:
    """With the next number; and what is behind the last end is left alone."""
    identity = act(store, SIMPLE)
    first = compact(store, identity)
    asyncio.run(_say(store, identity, [invoke("pay", "z", amount=1)]))

    grown = read(store, identity)
    assert [each.sequence for each in grown if each.sequence > first.until] == [
        *range(first.until + 1, grown[-1].sequence + 1)
    ]
    assert grown[-1].event.type == "run.suspended"
    assert compact_log(store, identity, FUTURE) is None

    asyncio.run(_say(store, identity, [say("No more.")], deny=True))
    before = describe(store, identity)
    second = compact(store, identity)

    assert second.until > grown[-1].sequence
    assert describe(store, identity) == before
    assert sum(1 for each in read(store, identity) if each.kept) == 1


async def _say(
    store: ConversationStore, identity: str, turn: list[Any], *, deny: bool = False
) -> None:
    engine = Engine(script(turn), TOOLS, store=store)
    conversation = Conversation.restore(store, identity)
    if not deny:
        conversation.add_user_message("More.")
    outcome = await engine.answer(conversation)
    if deny:
        (request,) = outcome.requests
        denied = Approval(digest=request.digest, decision=Decision.DENY)
        await engine.answer(outcome.conversation, approvals=[denied])


_CALLS = st.sampled_from(
    [
        ("look", {"where": "x"}),
        ("look", {"nothing": 1}),
        ("gone", {}),
        ("pay", {"amount": 3}),
        ("pay", {"amount": 9}),
    ]
)
_TURNS = st.lists(st.lists(_CALLS, min_size=1, max_size=2), max_size=2)


@examples(30)
@given(
    rounds=st.lists(_TURNS, min_size=1, max_size=3),
    steps=st.integers(1, 4),
    approvals=st.integers(0, 2),
    edit=st.booleans(),
    index=st.integers(0, 8),
)
def test_030_whatever_happened_it_says_the_same(
    rounds: Any, steps: int, approvals: int, edit: bool, index: int
) -> None:
    """Faults, limits, edits, calls that nobody has answered: nothing that is folded of it changes,
    nor what a fork knows of calls that it shares; and a copy of it is whole."""
    store = MemoryStore()
    scripted = [
        [
            *(
                [invoke(name, f"{number}-{i}-{j}", **given) for j, (name, given) in enumerate(turn)]
                for i, turn in enumerate(turns)
            ),
            [say("Done.")],
        ]
        for number, turns in enumerate(rounds)
    ]
    limits = Limits(run_steps=steps)
    identity = act(store, *scripted, approvals=approvals, edit=edit, limits=limits)
    index = min(index, len(store.read(identity).canisters))
    store.fork(identity, from_index=index, child="fork")
    copied = MemoryStore()
    assert copy_store(store, copied).is_whole
    before = describe(store, identity)

    compact_log(store, identity, FUTURE)

    assert describe(store, identity) == before
    # What was copied before is found to be the same, and made so; and a new copy is whole.
    for target in (copied, MemoryStore()):
        assert copy_store(store, target).is_whole
        assert target.open_log(identity).read() == store.open_log(identity).read()


def test_040_only_what_ended_long_ago(store: ConversationStore) -> None:
    """Up to the last end before that moment; what is younger keeps everything."""
    identity = act(store, SIMPLE)
    (end,) = [each for each in read(store, identity) if each.event.type == "run.ended"]
    act_again = act(store, SIMPLE)
    assert compact_log(store, identity, end.timestamp) is None
    assert compact_log(store, act_again, end.timestamp) is None

    moment = end.timestamp + timedelta(microseconds=1)
    assert [each.identity for each in compact_logs(store, moment)] == [identity]


def test_050_what_somebody_has_or_was_written_to_is_left_alone(store: ConversationStore) -> None:
    """A run on its way has the log; and a message may be in the log already."""
    identity = act(store, SIMPLE)
    old = read(store, identity)
    other = store.open_log(identity)
    other.claim()
    with pytest.raises(StoreError, match="already active"):
        compact_log(store, identity, FUTURE)
    assert list(compact_logs(store, FUTURE)) == []
    other.close()
    message = MessageReceivedEvent(canister=UserCanister("Wait."), message_id="l")
    store.open_inbox(identity).put(message)

    assert compact_log(store, identity, FUTURE) is None

    assert read(store, identity) == old


@pytest.mark.slow
def test_060_a_sudden_end_leaves_one_of_both(tmp_path: Path) -> None:
    """Killed before each write and in the middle of it: the log is as it was, or compacted."""
    for steps in range(1, 100):
        store = DirectoryStore(tmp_path / str(steps), disk=HastyDisk())
        identity = act(store, SIMPLE, SIMPLE)
        before, old = describe(store, identity), read(store, identity)
        crashing = DirectoryStore(tmp_path / str(steps), disk=CrashingDisk(steps))
        try:
            compact_log(crashing, identity, FUTURE)
        except Crash:
            is_over = False
        else:
            is_over = True

        assert describe(store, identity) == before
        found = read(store, identity)
        assert found == old or found[-1].kept == len(found)
        assert FileLog(store.locate(identity)).examine()[1] == ()
        assert compact_log(store, identity, FUTURE) is None or found == old
        # Whoever makes it shorter next clears away what was half-written.
        assert not [*Path(store.locate(identity)).glob(".runs.jsonl.*")]
        asyncio.run(_say(store, identity, [say("On.")]))
        assert [each.sequence for each in read(store, identity, old[-1].sequence)] == [
            *range(old[-1].sequence + 1, old[-1].sequence + 7)
        ]
        if is_over:
            assert steps > 3
            return
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("heard", [0, 3, 1000])
def test_070_whoever_follows_a_log_hears_each_event_once(tmp_path: Path, heard: int) -> None:
    """Also where it is compacted twice meanwhile, so that the file has the number that it had."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    identity = act(store, SIMPLE)
    tail = store.open_log(identity).tail(min(heard, len(read(store, identity))))
    told = [] if heard != 3 else [line.sequence for line in tail.read()]
    start = told[-1] if told else min(heard, len(read(store, identity)))
    compact(store, identity)
    for round_ in range(3):
        asyncio.run(_say(store, identity, [say("On. " * (round_ * 40))]))
        if round_ < 2:
            compact(store, identity)

    told = []
    while lines := tail.read():
        told += [line.sequence for line in lines]

    assert told == [each.sequence for each in read(store, identity, start)]


@pytest.mark.parametrize("line", [2, -2])
def test_080_a_line_that_is_missing_is_missed(tmp_path: Path, line: int) -> None:
    """Within what was compacted, and behind it; and it is not gone on with."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    identity = act(store, SIMPLE)
    compact(store, identity)
    asyncio.run(_say(store, identity, [say("On.")]))
    path = Path(FileLog(store.locate(identity)).path)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[line]
    path.write_bytes(b"".join(lines))

    with pytest.raises(CorruptionError):
        store.open_log(identity).read()
    (finding,) = FileLog(store.locate(identity)).examine()[1][:1]
    assert "Cannot read the line" in finding.message
    with pytest.raises(CorruptionError):
        compact_log(store, identity, FUTURE)


def test_081_what_is_lost_after_it_is_missed_also_where_nobody_had_counted(
    tmp_path: Path,
) -> None:
    """As after a writer that was killed before it could note how much it had written."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    identity = act(store, SIMPLE, SIMPLE)
    log = FileLog(store.locate(identity))
    count = len(read(store, identity))
    tally = Path(store.locate(identity)) / "runs.tally"
    tally.write_bytes(encode_tally(Tally(1, 10)))
    compact(store, identity)
    assert read_tally(str(tally)) == Tally(count, Path(log.path).stat().st_size)
    asyncio.run(_say(store, identity, [say("On.")]))
    lines = Path(log.path).read_bytes().splitlines(keepends=True)

    Path(log.path).write_bytes(b"".join(lines[:-4]))

    (finding,) = log.examine()[1]
    assert "are lost" in finding.message


def test_082_in_memory_a_log_that_cannot_be_replaced_is_as_it_was() -> None:
    """Nothing of it is gone before all that comes in its place is there."""
    store = MemoryStore()
    identity = act(store, SIMPLE)
    old = read(store, identity)
    log = store.open_log(identity)
    log.claim()
    assert isinstance(log, MemoryLog)

    with pytest.raises(msgspec.MsgspecError):
        log.replace([b"nonsense"], old[-1].sequence)
    log.close()

    assert read(store, identity) == old


def test_090_a_call_that_a_fork_shares_is_not_made_again(store: ConversationStore) -> None:
    """Its result left the parent's log, and is in the parent's conversation."""
    identity = act(store, SIMPLE)
    compact(store, identity)
    child = store.fork(identity, from_index=3, child="fork")  # both calls, and no result
    conversation = Conversation.restore(store, child)

    engine = Engine(script([say("Told.")]), [], store=store)
    outcome = asyncio.run(engine.answer(conversation))

    results = [each for each in outcome.conversation.canisters if each.role == "result"]
    assert [each.text for each in results] == [LONG + "x", "paid"]


def write(store: ConversationStore, identity: str, *events: Any) -> None:
    """Writes events as of a run."""
    log = store.open_log(identity)
    log.claim()
    for event in events:
        log.append("run", event)
    log.close()


def test_091_what_the_conversation_lacks_stays(store: ConversationStore) -> None:
    """A result that is not there, or is another there, is not left to it."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister("Go."), *(said := [_bring("1", "seen"), _bring("2", "other")])])
    brought = [_bring("1", "seen"), _bring("2", "seen"), _bring("3", "seen")]
    brought = [attrs.evolve(brought[0], timestamp=said[0].timestamp), *brought[1:]]
    finished = [
        InvocationFinishedEvent(key="k", invocation_id="i", name="look", result=each)
        for each in brought
    ]
    write(store, "a", *finished, SETTLED)

    compact(store, "a")

    kept = [each.event for each in read(store, "a")[:-1]]
    assert kept[1:] == finished[1:]
    assert isinstance(kept[0], InvocationFinishedEvent)
    assert kept[0].result == attrs.evolve(brought[0], content=())


def _bring(identity: str, text: str) -> ResultCanister:
    return ResultCanister(text, id=f"result-{identity}", invocation_id="i", name="look")


def test_092_what_is_not_settled_is_left_alone(store: ConversationStore) -> None:
    """As after an answer that holds for calls to come."""
    store.create("a", ConversationMetadata())
    store.append("a", [UserCanister("Go.")])
    state = StateEnteredEvent(state="generate", turn=0)
    write(store, "a", state, attrs.evolve(SETTLED, settles=False))
    assert compact_log(store, "a", FUTURE) is None
    write(store, "a", state, FlowEndedEvent(run_id="run", reason="waiting"))
    assert compact_log(store, "a", FUTURE) is None
    write(store, "a", state, FlowEndedEvent(run_id="run", reason="cancelled"))
    assert compact_log(store, "a", FUTURE) is None
    write(store, "a", FlowEndedEvent(run_id="run", reason="ended"))
    assert compact(store, "a").events == (7, 4)


def test_096_lines_of_one_append_are_lines_of_their_own_after(tmp_path: Path) -> None:
    """A mark that more follows would take what is behind it with it when that is torn."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    store.create("a", ConversationMetadata())
    path = Path(store.locate("a"), "runs.jsonl")
    started = RunStartedEvent(run_id="run", conversation_id="a", length=1)
    lines = [
        write_line(number, datetime(2025, 1, 1, tzinfo=UTC), "run", event)
        for number, event in enumerate([started, started, SETTLED], 1)
    ]
    log = FileLog(store.locate("a"), disk=HastyDisk())
    log.claim()
    log.adopt(lines)
    log.close()
    assert path.read_bytes().count(b"\t\n") == 2

    assert compact(store, "a").size_bytes[0] == sum(map(len, lines))

    assert b"\t" not in path.read_bytes()


def test_097_where_a_store_can_do_so_it_is_done_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read and what takes its place are of one transaction of a database."""
    store, told = MemoryStore(), list[object]()
    store.create("a", ConversationMetadata())
    write(store, "a", StateEnteredEvent(state="generate", turn=0), SETTLED)
    replace = MemoryLog.replace

    @contextmanager
    def enter(entered: object) -> Iterator[None]:
        told.append(entered)
        yield
        told.append("left")

    def note(log: MemoryLog, lines: list[bytes], until: int) -> None:
        told.append("replaced")
        replace(log, lines, until)

    monkeypatch.setattr(MemoryStore, "transact", enter)
    monkeypatch.setattr(MemoryLog, "replace", note)
    compact(store, "a")
    assert told == [store, "replaced", "left"]


def test_095_what_is_at_work_or_has_not_run_hides_no_other() -> None:
    """Each log is by itself."""
    store = MemoryStore()
    for identity in ("none", "works", "rests"):
        store.create(identity, ConversationMetadata())
    for identity in ("works", "rests"):
        write(store, identity, StateEnteredEvent(state="generate", turn=0), SETTLED)
    claimed = store.open_log("works")
    claimed.claim()

    assert [each.identity for each in compact_logs(store, FUTURE)] == ["rests"]
    claimed.close()
    assert compact_log(store, "none", FUTURE) is None
    assert [each.identity for each in compact_logs(store, FUTURE)] == ["works"]


def test_093_a_copy_knows_how_many_there_were(tmp_path: Path) -> None:
    """Else a loss behind what was compacted would go unnoticed."""
    source, target = MemoryStore(), DirectoryStore(tmp_path, disk=HastyDisk())
    identity = act(source, SIMPLE)
    until = compact(source, identity).until

    assert copy_store(source, target).is_whole

    tally = read_tally(f"{target.locate(identity)}/{TALLY}")
    assert tally is not None
    assert tally.lines == until
    assert FileLog(target.locate(identity)).examine()[1] == ()


@pytest.mark.parametrize("is_renamed", [True, False])
def test_094_a_file_that_looks_like_the_one_before_is_told_from_it(
    tmp_path: Path, is_renamed: bool
) -> None:
    """Of the same size, or with a line that ends where whoever follows it was."""
    path, other = tmp_path / "runs.jsonl", tmp_path / "other"
    lines = [
        write_line(number, datetime(2025, 1, 1, tzinfo=UTC), "run", SETTLED) + b"\n"
        for number in range(1, 8)
    ]
    path.write_bytes(b"".join(lines[:3]))
    tail = FileTail(str(path))
    assert [line.sequence for line in tail.read()] == [1, 2, 3]
    padded = lines[4].rstrip() + b" " * (len(lines[0]) * 2) + b"\n"
    if is_renamed:  # its end is where that of the other was
        other.write_bytes(padded)
        other.replace(path)
    else:  # the same number in the file system
        path.write_bytes(padded + lines[5])

    assert [line.sequence for line in tail.read()] == ([5] if is_renamed else [5, 6])


async def test_100_hosts_compact_by_themselves(tmp_path: Path) -> None:
    """After as many days as the limit says."""
    settings = attrs.evolve(FAST, tidy_seconds=0.0)
    premises = Premises(tmp_path, settings=settings)
    executor = premises.host.executor  # type: ignore[attr-defined]
    old, young = Limits(), Limits(log_days=0)
    object.__setattr__(executor, "limits", old)
    async with premises:
        run_id = await premises.start(premises.spec([say("Done.")]))
        ended = await premises.wait(run_id, "ended")
        assert read(premises.store, run_id)[-1].kept == 0
        object.__setattr__(executor, "limits", young)
        async with asyncio.timeout(60):
            while True:
                if read(premises.store, run_id)[-1].kept:
                    break
                await asyncio.sleep(0.01)
        assert (await premises.runs.find(run_id)) == ended
        told = [each async for each in premises.runs.watch(run_id, after=2, follow=False)]
        sequences = [each.sequence for each in told if isinstance(each, LoggedEvent)]
        assert sequences == [each.sequence for each in read(premises.store, run_id, 2)]


async def test_101_nobody_waits_for_a_host_that_compacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on looking for runs meanwhile, and ends behind the log that it is at."""
    looked, begun, free = list[str](), threading.Event(), threading.Event()

    def hang(_: object, identity: str, before: object) -> None:
        looked.append(identity)
        begun.set()
        assert free.wait(60)

    monkeypatch.setattr(compacting, "compact_log", hang)
    premises = Premises(tmp_path, settings=attrs.evolve(FAST, tidy_seconds=0.0))
    for name in ("a", "b", "c"):
        Conversation(id=name, canisters=[UserCanister("Hi.")]).save(premises.store)
    try:
        async with premises, asyncio.timeout(60):
            await asyncio.to_thread(begun.wait, 20)
            asker = LocalRuns(premises.store, premises.runs.application)  # another process
            spec = attrs.evolve(premises.spec([say("Done.")]), ensembles=())
            run_id = (await asker.start(spec, [UserCanister("Go.")])).id
            await premises.wait(run_id, "ended")
            asyncio.get_running_loop().call_soon(free.set)  # when it closes
    finally:
        free.set()
    assert len(looked) == 1
