"""Tasks of A2A: found by their ids, listed, and folded from the logs of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from vibe_llms.agents.local import LocalRuns
from vibe_llms.conversations.canister_media import hydrate
from vibe_llms.daemons.agents.faces.a2a_errors import INVALID_PARAMS, TASK_NOT_FOUND, RpcError
from vibe_llms.daemons.agents.faces.a2a_requests import read_text
from vibe_llms.daemons.agents.faces.a2a_tasks import (
    STATES,
    TaskFold,
    TaskName,
    describe_state,
    read_task_name,
    write_user_message,
)
from vibe_llms.daemons.agents.faces.following import find_answer
from vibe_llms.daemons.agents.faces.serving import load_step_media
from vibe_llms.daemons.agents.faces.walking import Walk
from vibe_llms.events.engine import GenerationFinishedEvent
from vibe_llms.events.runs import MessageReceivedEvent, RunRequestedEvent
from vibe_llms.exceptions import UnknownConversationError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.runs.summaries import RunSummary, summarize
from vibe_llms.runs.waiting import Waiting


class TaskLoader:
    """Tasks of a daemon's runs.

    Args:
        runs: The runs.
    """

    def __init__(self, runs: LocalRuns) -> None:
        self._runs = runs

    async def survey(self, params: Mapping[str, Any], subject: str) -> Sequence[RunSummary]:
        """Return the runs that a list is about."""
        context = read_text(params, "contextId", "contextId", default="")
        state = read_text(params, "status", "status", default="")
        since = _read_time(read_text(params, "statusTimestampAfter", "time", default=""))
        found = [
            each
            for each in await self._runs.survey(subject=subject)
            if context in ("", each.id) and (since is None or each.updated > since)
        ]
        if state in ("", "TASK_STATE_UNSPECIFIED"):
            return found
        return [each for each in found if _list_state(each) == state]

    async def name(self, text: str, subject: str) -> TaskName:
        """Return the id of a task that exists. Raises RpcError."""
        name = read_task_name(text)
        if name is not None:
            try:
                await self._runs.find(name.conversation, subject=subject)
                if name.sequence in await self.list_requests(name.conversation):
                    return name
            except UnknownConversationError:
                pass
        raise RpcError(TASK_NOT_FOUND, f"The task {text[:100]!r} does not exist.")

    async def find(self, text: str, subject: str) -> tuple[TaskName, RunSummary]:
        """Return a task and the summary of its run. Raises RpcError."""
        name = await self.name(text, subject)
        _, summary, _ = await self.load(name, subject)
        return name, summary

    async def list_requests(self, conversation: str) -> list[int]:
        """Return the numbers of the events that requested runs of a conversation."""

        def read() -> list[int]:
            events = self._runs.store.open_log(conversation).read()
            return [each.sequence for each in events if isinstance(each.event, RunRequestedEvent)]

        return await asyncio.to_thread(read)

    async def find_request(self, conversation: str) -> int:
        """Return the number of the event that requested the latest run."""
        return ([1] + await self.list_requests(conversation))[-1]

    async def load(
        self, name: TaskName, subject: str
    ) -> tuple[TaskFold, RunSummary, Sequence[Waiting]]:
        """Fold the part of a run's log that belongs to a task; also return its state."""

        store = self._runs.store

        def read() -> tuple[TaskFold, RunSummary | None]:
            events = store.open_log(name.conversation).read()
            stored = store.read(name.conversation).canisters
            ends = [
                each.sequence
                for each in events
                if isinstance(each.event, RunRequestedEvent) and each.sequence > name.sequence
            ]
            past = [each for each in events if not ends or each.sequence < ends[0]]
            fold, walk = TaskFold(name), Walk(name.conversation)
            for logged in past:
                if logged.sequence < name.sequence:
                    continue
                match logged.event:
                    case RunRequestedEvent(canisters=said):
                        whole = hydrate(said, store.contents)
                        fold.history += [write_user_message(name, each) for each in whole]
                    case MessageReceivedEvent(canister=canister):
                        (whole_one,) = hydrate((canister,), store.contents)
                        fold.history.append(write_user_message(name, whole_one))
                answer: tuple[AnyCanister, ...] = ()
                if isinstance(logged.event, GenerationFinishedEvent):
                    answer = tuple(find_answer(stored, logged.event))
                for step in walk.feed(logged, answer):
                    fold.feed(load_step_media(store, step))
            return fold, summarize(past, name.conversation) if ends else None

        fold, summary = await asyncio.to_thread(read)
        if summary is not None:
            return fold, summary, ()
        summary = await self._runs.find(name.conversation, subject=subject)
        waiting: Sequence[Waiting] = ()
        if summary.state == "waiting":
            waiting = await self._runs.survey_approvals(name.conversation, subject=subject)
        return fold, summary, waiting


def _read_time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise RpcError(INVALID_PARAMS, "statusTimestampAfter must be a time with a time zone.")
    return moment


def _list_state(summary: RunSummary) -> str:
    """Return the state of a task in lists, where a wait counts as one for an approval."""
    return STATES.get(summary.state) or describe_state(summary)
