"""One contract for every interface of runs: local and over HTTP, on any runner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.flows.flow_tasks import compose_task
from support.runs.acting import invoke, say
from support.runs.hosted import FAST, Premises
from support.stores.postgresql_server import produce_url
from vibe_llms.agents.interfaces import Runs, WatchedEvent
from vibe_llms.agents.remote import connect
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.conversations import Conversation
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.daemons.agents.making import produce_service
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.exceptions import (
    ConfigurationError,
    RequestError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.flows.outlining import read_outline
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.contents import ImageContent, TextualContent
from vibe_llms.messages.views import media_of, text_of
from vibe_llms.runs.summaries import RunSummary

DONE = [say("Done.")]
LACKING = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")


def pay() -> str:
    """Pays."""
    return "paid"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@attrs.define
class RunsEnvironment:
    """Runs behind an interface, and their store."""

    runs: Runs
    premises: Premises

    async def start(self, *turns: Any, **more: Any) -> RunSummary:
        return await self.runs.start(self.premises.spec(*turns), [UserCanister("Do it.")], **more)

    async def watch(self, run_id: str, **more: Any) -> list[WatchedEvent]:
        async with asyncio.timeout(60), aclosing(self.runs.watch(run_id, **more)) as events:
            return [event async for event in events]

    async def wait(self, run_id: str, *states: str, after: int = 0) -> RunSummary:
        async with asyncio.timeout(60):
            while True:
                summary = await self.runs.find(run_id)
                if summary.state in states and summary.sequence > after:
                    return summary
                await asyncio.sleep(0.01)


@asynccontextmanager
async def _open_local(premises: Premises) -> AsyncIterator[Runs]:
    async with premises:
        yield premises.runs


@asynccontextmanager
async def _open_remote(premises: Premises) -> AsyncIterator[Runs]:
    async def produce_tools(_: Any) -> Any:
        return premises.tools

    service = produce_service(
        premises.runs.application, premises.store, produce_tools=produce_tools, hosting=FAST
    )
    async with (
        Server(service, ServerSettings(port=0)) as server,
        connect(server.urls[0]) as runs,
    ):
        yield runs


def _choose_sqlite(folder: Path) -> dict[str, Any]:
    return {"runner": f"sqlite:///{folder}/runner.db"}


def _choose_postgresql(folder: Path) -> dict[str, Any]:
    url = produce_url(folder)
    return {"runner": url, "shared": PostgresqlStore(url)}


@pytest.fixture(
    params=[
        (_open_local, None),
        (_open_remote, None),
        pytest.param((_open_local, _choose_sqlite), marks=LACKING),
        pytest.param((_open_local, _choose_postgresql), marks=[LACKING, pytest.mark.postgresql]),
    ],
    ids=["local", "remote", "sqlite", "postgresql"],
)
async def environment(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[RunsEnvironment]:
    enter, choose = request.param
    premises = Premises(tmp_path, tools=[PAY], **(choose(tmp_path) if choose else {}))
    async with enter(premises) as runs:
        yield RunsEnvironment(runs, premises)
    if premises.shared is not None:
        premises.shared.database.close()


@pytest.mark.slow
async def test_events_are_those_of_the_log_once_and_in_order(environment: RunsEnvironment) -> None:
    run_id = (await environment.start(DONE)).id
    events = await environment.watch(run_id, follow=False)
    logged = list(environment.premises.store.open_log(run_id).read())
    assert [each for each in events if isinstance(each, LoggedEvent)] == logged
    for after in range(len(logged) + 1):
        again = await environment.watch(run_id, after=after, follow=False)
        assert [each for each in again if isinstance(each, LoggedEvent)] == logged[after:]


@pytest.mark.slow
async def test_watching_after_a_future_event_is_rejected(environment: RunsEnvironment) -> None:
    run_id = (await environment.start(DONE)).id
    await environment.wait(run_id, "ended")
    with pytest.raises(RequestError, match="the last event of this run is") as caught:
        await environment.watch(run_id, after=99_999)
    assert caught.value.path == "event"


@pytest.mark.slow
async def test_a_watcher_that_leaves_changes_nothing(environment: RunsEnvironment) -> None:
    run_id = (await environment.start([invoke("pay")], DONE)).id
    async with aclosing(environment.runs.watch(run_id)) as events:
        async for _ in events:
            break
    assert (await environment.wait(run_id, "waiting")).waiting == 1


@pytest.mark.slow
async def test_waiting_returns_the_state_of_the_run(environment: RunsEnvironment) -> None:
    run_id = (await environment.start([invoke("pay")], DONE)).id
    async with asyncio.timeout(60):
        assert (await environment.runs.wait(run_id, states=["waiting"])).waiting == 1
        ended = asyncio.create_task(environment.runs.wait(run_id))
        (waiting,) = await environment.runs.survey_approvals(run_id)
        await environment.runs.approve(run_id, allow(waiting.request))
        assert (await ended).reason == "answered"


@pytest.mark.slow
async def test_of_several_answers_the_first_counts(environment: RunsEnvironment) -> None:
    run_id = (await environment.start([invoke("pay")], DONE)).id
    await environment.wait(run_id, "waiting")
    (waiting,) = await environment.runs.survey_approvals(run_id)
    approval = allow(waiting.request)
    assert await environment.runs.approve(run_id, approval, key=waiting.key) == waiting
    with pytest.raises(UnknownNameError) as caught:
        await environment.runs.approve(run_id, approval)
    assert caught.value.kind == "waiting call"
    assert (await environment.wait(run_id, "ended")).reason == "answered"
    assert list(await environment.runs.survey_approvals(run_id)) == []


@pytest.mark.slow
async def test_an_answer_to_another_call_reports_which_call_waits(
    environment: RunsEnvironment,
) -> None:
    run_id = (await environment.start([invoke("pay")], DONE)).id
    await environment.wait(run_id, "waiting")
    (waiting,) = await environment.runs.survey_approvals(run_id)
    with pytest.raises(UnknownNameError) as caught:
        await environment.runs.approve(run_id, allow(waiting.request), key="another")
    assert f"({waiting.key})" in str(caught.value)
    assert caught.value.name not in caught.value.known


@pytest.mark.slow
async def test_a_key_starts_one_run(environment: RunsEnvironment) -> None:
    spec = environment.premises.spec(DONE)
    message = [SupervisorCanister("Be brief."), UserCanister("Do it.")]
    found = {(await environment.runs.start(spec, message, key="k")).id for _ in range(3)}
    assert len(found) == 1
    with pytest.raises(RequestError) as caught:
        await environment.runs.start(spec, [UserCanister("Something else.")], key="k")
    assert caught.value.path == "key"


@pytest.mark.slow
async def test_an_invalid_request_is_rejected(environment: RunsEnvironment) -> None:
    spec = RunSpec(model=environment.premises.spec(DONE).model, limits={"run_stpes": 1})
    with pytest.raises(ConfigurationError, match="Unknown limit") as caught:
        await environment.runs.start(spec, [UserCanister("Do it.")])
    assert [each.place for each in caught.value.findings] == ["run.limits.run_stpes"]
    spec = attrs.evolve(environment.premises.spec(DONE), variables={"word": 1})
    with pytest.raises(ConfigurationError, match="Only tasks have variables"):
        await environment.runs.start(spec, [UserCanister("Do it.")])
    with pytest.raises(RequestError, match="The first message is missing"):
        await environment.runs.start(environment.premises.spec(DONE))
    assert not await environment.runs.survey()


@pytest.mark.slow
@pytest.mark.parametrize("message", ["", " \n"])
async def test_a_blank_message_is_rejected(environment: RunsEnvironment, message: str) -> None:
    """A run that began with one would only fail."""
    spec = environment.premises.spec(DONE)
    with pytest.raises((ConfigurationError, RequestError), match=r"first message is missing|empty"):
        await environment.runs.start(spec, [SupervisorCanister("Be brief."), UserCanister(message)])
    assert not await environment.runs.survey()
    run_id = (await environment.start(DONE)).id
    await environment.wait(run_id, "ended")
    with pytest.raises((ConfigurationError, RequestError), match=r"first message is missing|empty"):
        await environment.runs.send(run_id, UserCanister(message))
    assert (await environment.runs.find(run_id)).state == "ended"


@pytest.mark.slow
async def test_runs_are_listed_by_their_state(environment: RunsEnvironment) -> None:
    ended = [(await environment.start(DONE, [invoke("pay")])).id for _ in range(5)]
    for run_id in ended:
        await environment.wait(run_id, "ended")
    waiting = ended.pop()
    await environment.runs.send(waiting, UserCanister("Pay."))
    await environment.wait(waiting, "waiting")
    everything = [each.id for each in await environment.runs.survey()]
    assert {*everything} == {*ended, waiting}
    assert everything[0] == waiting
    assert [each.id for each in await environment.runs.survey(states=["waiting"])] == [waiting]
    assert {each.id for each in await environment.runs.survey(states=["ended", "due"])} == {*ended}
    some = await environment.runs.survey(states=["ended", "due"], limit=2)
    assert [each.id for each in some] == everything[1:3]
    assert not await environment.runs.survey(states=[])
    assert [each.id for each in await environment.runs.survey(limit=2)] == everything[:2]
    behind = await environment.runs.survey(after=everything[1], limit=3)
    assert [each.id for each in behind] == everything[2:5]
    with pytest.raises(RequestError) as caught:
        await environment.runs.survey(after="nobody")
    assert caught.value.path == "after"


@pytest.mark.slow
async def test_a_message_reaches_the_run(environment: RunsEnvironment) -> None:
    run_id = (await environment.start(DONE, DONE)).id
    last = await environment.wait(run_id, "ended")
    await environment.runs.send(run_id, UserCanister("Once more."))
    await environment.wait(run_id, "ended", after=last.sequence)
    kinds = environment.premises.read_kinds(run_id)
    assert kinds.count("message.received") == 1
    assert kinds.count("generation.finished") == 2


@pytest.mark.slow
async def test_a_stopped_run_continues_when_it_is_resumed(environment: RunsEnvironment) -> None:
    run_id = (await environment.start([invoke("pay")], DONE)).id
    await environment.wait(run_id, "waiting")
    await environment.runs.stop(run_id, reason="Enough.")
    stopped = await environment.wait(run_id, "stopped")
    assert stopped.detail == "Enough."
    await environment.runs.resume(run_id)
    await environment.wait(run_id, "waiting", after=stopped.sequence)


@pytest.mark.slow
async def test_an_attached_run_is_detached(environment: RunsEnvironment) -> None:
    spec = environment.premises.spec([invoke("pay")], DONE, attached=True)
    run_id = (await environment.runs.start(spec, [UserCanister("Do it.")])).id
    assert (await environment.wait(run_id, "waiting")).is_attached
    await environment.runs.detach(run_id)
    assert not (await environment.runs.find(run_id)).is_attached


@pytest.mark.slow
async def test_a_fork_is_a_run_of_its_own(environment: RunsEnvironment) -> None:
    run_id = (await environment.start(DONE, DONE)).id
    await environment.wait(run_id, "ended")
    fork = await environment.runs.fork(run_id)
    assert fork.id != run_id
    with pytest.raises(RequestError, match="Only flows have nodes"):
        await environment.runs.fork(run_id, node="A")
    with pytest.raises(RequestError, match="Only flows have nodes"):
        await environment.runs.fork(run_id, visit=2)


@pytest.mark.slow
async def test_a_conversation_is_continued_by_another_model(environment: RunsEnvironment) -> None:
    """In place, with a message; a fork of it without one if the last message has no answer."""
    runs, store = environment.runs, environment.premises.store
    run_id = (await environment.start([invoke("pay")], DONE)).id
    await environment.wait(run_id, "waiting")
    echo = RunSpec(model="scripted:echo")
    with pytest.raises(RequestError, match="A run of this conversation is active"):
        await runs.start(echo, [UserCanister("And?")], conversation=run_id)
    await runs.stop(run_id)
    before = (await environment.wait(run_id, "stopped")).sequence

    assert (await runs.start(echo, [UserCanister("And?")], conversation=run_id)).id == run_id
    ended = await environment.wait(run_id, "ended", after=before)
    assert ended.model == "scripted:echo"
    canisters = Conversation.restore(store, run_id).canisters
    assert [text_of(each) for each in canisters[-2:]] == ["And?", "And?"]
    assert store.read_metadata(run_id).model == "scripted:echo"

    with pytest.raises(RequestError, match="is answered already"):
        await runs.start(echo, conversation=run_id)
    fork = store.fork(run_id, from_index=1)
    await runs.start(echo, conversation=fork)
    await environment.wait(fork, "ended")
    assert text_of(Conversation.restore(store, fork).canisters[-1]) == "Do it."
    with pytest.raises(UnknownConversationError):
        await runs.start(echo, [UserCanister("And?")], conversation="unknown")


@pytest.mark.slow
async def test_media_are_stored_once(environment: RunsEnvironment) -> None:
    """With the first message, with a later one, and with one that continues a conversation."""
    runs, store = environment.runs, environment.premises.store

    def ask(name: str) -> UserCanister:
        image = ImageContent(data=name.encode(), mime_type="image/png", name=name)
        return UserCanister([image, TextualContent("Look.")])

    spec = RunSpec(model="scripted:echo")
    run = await runs.start(spec, [ask("first")])
    await environment.wait(run.id, "ended")
    await runs.send(run.id, ask("second"))
    await environment.wait(run.id, "ended", after=run.sequence + 5)
    last = (await runs.find(run.id)).sequence
    await runs.start(spec, [ask("third")], conversation=run.id)
    await environment.wait(run.id, "ended", after=last)
    media = media_of(store.read(run.id).canisters)
    assert [each.name for each in media] == ["first", "second", "third"]
    assert all(each.data is None for each in media)
    names = [store.contents.read(str(each.content_id)).decode() for each in media]
    assert names == ["first", "second", "third"]


@pytest.mark.slow
async def test_watchers_notice_a_deleted_run(environment: RunsEnvironment) -> None:
    run_id = (await environment.start(DONE)).id
    await environment.wait(run_id, "ended")
    watching = asyncio.create_task(environment.watch(run_id))
    await asyncio.sleep(0)
    await environment.runs.delete(run_id)
    with pytest.raises(UnknownConversationError):
        await watching
    for ask in (
        environment.runs.find,
        environment.runs.stop,
        environment.runs.resume,
        environment.runs.delete,
    ):
        with pytest.raises(UnknownConversationError) as caught:
            await ask(run_id)
        assert caught.value.identity == run_id


@pytest.mark.slow
async def test_the_state_of_a_flow_is_outlined(environment: RunsEnvironment) -> None:
    task = compose_task('START --> P0["Ask it"] --> END\n', "good")
    run_id = (await environment.runs.start(RunSpec(task=task))).id
    await environment.wait(run_id, "ended")
    outline = await environment.runs.outline(run_id)
    assert outline == read_outline(environment.premises.store, run_id)
    assert "Ask it" in [each.title for each in outline.nodes]
    conversation_id = (await environment.start(DONE)).id
    with pytest.raises(RequestError, match="has no diagram"):
        await environment.runs.outline(conversation_id)
    with pytest.raises(UnknownConversationError):
        await environment.runs.outline("nobody")
