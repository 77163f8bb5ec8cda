"""A filter tells which runs match, and reads and writes its conditions as texts."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.runs.planted import NOON, Planting, plant_many
from support.stores.disks import HastyDisk
from vibe_llms.agents.local import LocalRuns
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations import DirectoryStore
from vibe_llms.exceptions import RequestError
from vibe_llms.runs.filtering import ALL_RUNS, RunFacts, RunFilter, read_filter
from vibe_llms.runs.indexing import RunIndex


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store", disk=HastyDisk())


@pytest.fixture
def runs(store: DirectoryStore, tmp_path: Path) -> LocalRuns:
    configuration = load_configuration(
        environment={"HOME": str(tmp_path)}, working_directory=tmp_path
    )
    return LocalRuns(store, Application(configuration), is_owner=True)


def test_words_occur_in_any_order_and_case() -> None:
    texts = ("About a heron", "0a1b", "anthropic:claude")
    assert RunFilter(query="HERON about claude 0a1").matches_texts(texts, ())
    assert RunFilter(query="blue heron").matches_texts(texts, ("Blue",))
    assert not RunFilter(query="heron crane").matches_texts(texts, ())
    assert RunFilter(tag="blue").matches_texts(texts, ("Blue", "red"))
    assert not RunFilter(tag="blu").matches_texts(texts, ("Blue",))


def test_a_run_without_a_price_matches_only_no_lowest_cost() -> None:
    free = RunFacts("conversation", "local:smollm2", None)
    assert ALL_RUNS.matches(free)
    assert not RunFilter(min_cents=0.1).matches(free)
    assert RunFilter(min_cents=0.1).matches(free._replace(cents=0.1))


@given(
    st.builds(
        RunFilter,
        query=st.text(),
        kind=st.sampled_from(["", "flow", "conversation"]),
        model=st.text(),
        tag=st.text(),
        since=st.none() | st.datetimes(timezones=st.just(UTC)),
        until=st.none() | st.datetimes(timezones=st.just(UTC)),
        min_cents=st.floats(min_value=0, allow_infinity=False, allow_nan=False),
        failed=st.sampled_from([None, True, False]),
    )
)
def test_what_is_exported_is_read_again(wanted: RunFilter) -> None:
    assert read_filter(wanted.export()) == wanted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "nobody"),
        ("kind", ""),
        ("since", ""),
        ("since", "yesterday"),
        ("until", "0001-01-01T00:00:00+23:00"),
        ("failed", "maybe"),
        ("min_cents", "-1"),
        ("min_cents", "nan"),
        ("min_cents", "much"),
    ],
)
def test_an_invalid_condition_is_named(name: str, value: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_filter({name: value})
    assert caught.value.path == name


async def test_runs_are_found_by_each_condition(runs: LocalRuns, store: DirectoryStore) -> None:
    planted = [*plant_many(store, 150)]

    async def find(after: str = "", **conditions: object) -> list[int]:
        found = await runs.survey(wanted=RunFilter(**conditions), after=after, limit=60)  # type: ignore[arg-type]
        return [planted.index(each.id) for each in found]

    assert await find(query="heron") == [142, 42]
    assert await find(query="heron", after=planted[142]) == [42]
    assert await find(tag="blue") == [107, 57, 7]
    assert await find(tag="blue", query="question 5") == [57]
    last = NOON + timedelta(minutes=149)
    assert await find(since=last - timedelta(minutes=2)) == [149, 148, 147]
    assert await find(until=NOON + timedelta(minutes=2)) == [1, 0]  # 2 ended seconds later
    assert await find(model="CLAUDE", since=last - timedelta(minutes=6)) == [147, 144]
    assert await find(min_cents=0.25, since=last - timedelta(minutes=3)) == [148, 147]
    assert await find(min_cents=0.26) == []
    assert await find(kind="flow") == []
    assert await find(failed=True, until=NOON + timedelta(minutes=20)) == [17, 10, 3]
    assert await find(failed=False, until=NOON + timedelta(minutes=5)) == [4, 2, 1, 0]
    (found,) = await runs.survey(wanted=RunFilter(query="heron"), limit=1)
    assert (found.title, found.tags, found.seconds) == ("Tell me about a heron, please.", (), 8)


async def test_a_title_is_read_once_and_a_new_name_counts_at_once(
    runs: LocalRuns, store: DirectoryStore
) -> None:
    (identity,) = plant_many(store, 1)
    (found,) = await runs.survey()
    assert found.title == "Tell me about question 0, please."
    store.update_metadata(identity, name="Zebra", tags=["green", "owner:ann"])
    (found,) = await runs.survey(wanted=RunFilter(query="zebra", tag="green"))
    assert (found.title, found.tags) == ("Zebra", ("green",))
    assert not await runs.survey(wanted=RunFilter(query="question"))


def test_runs_that_cannot_match_are_not_read(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = [*plant_many(store, 40)]
    index, read = RunIndex(store), list[str]()
    open_log = DirectoryStore.open_log

    def count(store: DirectoryStore, identity: str) -> object:
        read.append(identity)
        return open_log(store, identity)

    index.refresh()
    monkeypatch.setattr(DirectoryStore, "open_log", count)
    wanted = RunFilter(model="gpt", min_cents=0.2)
    expected = [each.id for each in index.survey(wanted=wanted)]
    assert {*read} == {*planted}
    read.clear()
    assert [each.id for each in index.survey(wanted=wanted)] == expected
    assert {*read} == {*expected}  # the facts of the others are known
    read.clear()
    assert not index.survey(accepts=lambda identity: False)
    index.survey(wanted=RunFilter(since=NOON + timedelta(minutes=39)))
    assert {*read} == {planted[39]}


def test_a_clock_that_was_set_back_takes_no_time_away(store: DirectoryStore) -> None:
    run = Planting("a" * 32)
    run.ask("Hello")
    run.say("Hello.", seconds=5)
    run.pass_time(-3600)
    run.say("Again.", seconds=2)
    run.end()
    index = RunIndex(store)
    run.plant(store)
    assert index.read_summary(run.identity).seconds == 7


def test_waiting_and_the_time_after_a_crash_are_no_work(store: DirectoryStore) -> None:
    run = Planting("a" * 32)
    run.ask("Hello")
    run.call("pay", "paid", seconds=2, approved_after=3600)  # a second for the model's answer
    run.request()
    run.pass_time(86_400)  # its process is gone
    run.ask("Hello?")
    run.say("Hello.", seconds=4)
    run.end()
    run.plant(store)
    assert RunIndex(store).read_summary(run.identity).seconds == 1 + 2 + 4
