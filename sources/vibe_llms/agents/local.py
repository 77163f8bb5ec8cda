"""Runs of a store on this machine; see :class:`.interfaces.Runs`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from vibe_llms.agents.awaiting import await_state
from vibe_llms.agents.deferred_requests import (
    VENDOR,
    DeferredRequests,
    refuse_deferred_elsewhere,
    refuse_workers,
)
from vibe_llms.agents.interfaces import Runner, WatchedEvent
from vibe_llms.agents.run_access import RunAccess
from vibe_llms.agents.run_listing import RunTitles
from vibe_llms.agents.run_requests import (
    begin_run,
    continue_conversation,
    judge_ending,
    request_run,
    summarize_claimed,
)
from vibe_llms.agents.run_specs import RunRules, RunSpec, derive_identity
from vibe_llms.agents.skills import apply_skills
from vibe_llms.application import Application
from vibe_llms.conversations.index.interfaces import Index
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.inbox import RunMessage
from vibe_llms.conversations.run_logs.log import claim_soon
from vibe_llms.conversations.run_logs.log_lines import open_lines
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.stores.media import detach_media
from vibe_llms.events.runs import (
    MessageReceivedEvent,
    RunDetachedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    StopRequestedEvent,
)
from vibe_llms.exceptions import (
    RequestError,
    Stage,
    StoreError,
    StoreUnavailableError,
    UnknownConversationError,
)
from vibe_llms.flows.outlines import Outline
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.portal import finish, in_thread
from vibe_llms.invocables.approvals import Approval
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.views import is_input_blank, media_of
from vibe_llms.runs.delivering import abandon_fork, deliver
from vibe_llms.runs.filtering import ALL_RUNS, RunFilter
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.owners import read_subject
from vibe_llms.runs.parts import survey_parts
from vibe_llms.runs.patience import retry_for
from vibe_llms.runs.step_indexing import StepIndex
from vibe_llms.runs.steps import StepPage
from vibe_llms.runs.subscriptions import LogSubscriptions, ensure_reached
from vibe_llms.runs.summaries import RunState, RunSummary
from vibe_llms.runs.surveying import RESTS, STATES
from vibe_llms.runs.waiting import Waiting, answer, choose, survey_waiting

CONFLICTS: Final = frozenset({"event", "key", "run"})
"""Paths of errors that report a conflict with the current state."""


class LocalRuns:
    """Implementation of :class:`.interfaces.Runs` over a store.

    Args:
        store: Store of the runs.
        application: Provides the models and tools that run specifications name.
        rules: Rules for run specifications.
        host: Executes the runs; without one, another process has to.
        is_owner: Whether a caller without a name owns all runs, as on the user's own machine.
        patience_seconds: Time that :meth:`start` and :meth:`wait` wait for an unreachable database
            before they raise.
        conversation_index: Index that lists and searches the conversations of the runs; by default
            one that reads the store.
    """

    def __init__(
        self,
        store: ConversationStore,
        application: Application,
        *,
        rules: RunRules | None = None,
        host: Runner | None = None,
        is_owner: bool = False,
        patience_seconds: float = 0.0,
        conversation_index: Index | None = None,
    ) -> None:
        self.patience_seconds = patience_seconds
        self.store = store
        self.conversation_index = conversation_index or store.index
        self._steps = StepIndex()
        self._titles = RunTitles(self.conversation_index)
        self.application = application
        self.rules = rules or RunRules(limits=application.configuration.limits)
        self.host = host
        self.access = RunAccess(store, is_owner)
        self.index = RunIndex(store) if host is None else host.index

    async def start(
        self,
        spec: RunSpec,
        canisters: Sequence[AnyCanister] = (),
        *,
        subject: str = "",
        key: str = "",
        conversation: str = "",
    ) -> RunSummary:
        """Request a run; only once per key."""
        if spec.skills:
            applied = asyncio.to_thread(apply_skills, spec, canisters, self.application)
            spec, canisters = await applied
        if conversation:
            return await self._continue(conversation, spec, canisters, subject, key)
        identity = derive_identity(subject, key) if key else produce_identity()

        async def start() -> RunSummary:
            # Finish it: a claimed log must be released.
            return await finish(self._start(identity, spec, canisters, subject))

        # All attempts have the same id, so that the run is requested once.
        return await retry_for(self.patience_seconds, start)

    async def _start(
        self, identity: str, spec: RunSpec, canisters: Sequence[AnyCanister], subject: str
    ) -> RunSummary:
        host = self.host
        claims = host is not None and host.has_room and spec.task is None

        def write() -> tuple[ClaimedRun | None, RunSummary]:
            claimed = self._request(identity, spec, canisters, subject, claims=claims)
            return claimed, self._read(identity) if claimed is None else summarize_claimed(claimed)

        claimed, summary = await asyncio.to_thread(write)
        if claimed is None or host is None:
            return self._wake_if_open(summary)
        self.index.touch(identity)
        host.begin(claimed)
        return summary

    async def _continue(
        self,
        identity: str,
        spec: RunSpec,
        canisters: Sequence[AnyCanister],
        subject: str,
        key: str,
    ) -> RunSummary:
        """Request a run of a conversation that exists."""
        if key:
            raise _refuse("key", "A request to continue a conversation cannot have a key.")
        if spec.task is not None:
            raise _refuse("task", "A flow starts a conversation of its own; pass no other.")
        spec = self.rules.complete(spec, self.application)
        self.rules.check(spec, self.application)
        self._check_channel(spec.channel)

        def write() -> RunSummary:
            self.access.ensure(identity, subject)
            stored = tuple(detach_media(canisters, self.store.contents))
            request = RunRequestedEvent(spec=spec.export(), canisters=stored, subject=subject)
            continue_conversation(self.store, identity, request)
            return self._read(identity)

        # Finish it: a claimed log must be released.
        return self._wake_if_open(await finish(asyncio.to_thread(write)))

    @in_thread
    def survey(
        self,
        *,
        states: Sequence[RunState] = STATES,
        after: str = "",
        limit: int | None = None,
        wanted: RunFilter = ALL_RUNS,
        subject: str = "",
    ) -> Sequence[RunSummary]:
        """Return the runs in some states that match a filter."""
        self.index.refresh(self.host.working if self.host else ())
        owner = None if self.access.may_access_all(subject) else subject
        try:
            found = self.index.survey(
                states=states,
                owner=owner,
                after=after,
                limit=limit,
                wanted=wanted,
                accepts=self._titles.match(wanted),
            )
            return self._titles.add(found)
        except UnknownConversationError as error:
            detail = "The run does not exist (or was deleted); start a new one."
            raise RequestError(path="after", detail=detail, stage=Stage.FRAME) from error

    async def find(self, run_id: str, *, subject: str = "") -> RunSummary:
        """Return the summary of a run."""
        return await asyncio.to_thread(self._find, run_id, subject)

    async def wait(
        self, run_id: str, *, states: Collection[RunState] = RESTS, subject: str = ""
    ) -> RunSummary:
        """Wait until a run is in one of some states."""
        return await retry_for(
            self.patience_seconds, lambda: await_state(self, run_id, states, subject)
        )

    @in_thread
    def count_events(self, run_id: str, *, subject: str = "") -> int:
        """Return the number of a run's last event; fast for a log of any length."""
        with self.access.hiding_unreadable(run_id, subject):
            last = self.store.open_log(run_id).read_last()
            owner = read_subject(self.store, run_id) or ""
        if last is None or not self.access.admits(subject, owner):
            raise UnknownConversationError(identity=run_id)
        return last.sequence

    async def watch(
        self, run_id: str, *, after: int = 0, follow: bool = True, subject: str = ""
    ) -> AsyncGenerator[WatchedEvent]:
        """Yield the events of a run."""
        last = await self.count_events(run_id, subject=subject)
        ensure_reached(after, last)
        subscriptions = LogSubscriptions(self.index)
        with subscriptions.subscribe(run_id, after, last, ends=not follow) as subscription:
            while lines := await subscription.receive():
                for logged in open_lines(run_id, lines):
                    yield logged

    @in_thread
    def outline(self, run_id: str, *, subject: str = "") -> Outline:
        """Return the progress of a flow's run, for drawing it."""
        from vibe_llms.flows.outlining import read_outline  # the first flow imports it

        if self._find(run_id, subject).kind != "flow":
            raise _refuse("run", "This run is a conversation; it has no diagram.")
        return read_outline(self.store, run_id)

    @in_thread
    def survey_steps(
        self, run_id: str, *, after: int = 0, limit: int | None = None, subject: str = ""
    ) -> StepPage:
        """Return the steps of a run that changed after an event."""
        self.access.ensure(run_id, subject)
        with self.access.hiding_unreadable(run_id, subject):
            return self._steps.read(self.index, run_id, after, limit)

    async def survey_approvals(self, run_id: str, *, subject: str = "") -> Sequence[Waiting]:
        """Return the calls that wait for an approval."""
        return await asyncio.to_thread(self._survey_approvals, run_id, subject)

    async def approve(
        self, run_id: str, approval: Approval, *, key: str | None = None, subject: str = ""
    ) -> Waiting:
        """Answer a call that waits for an approval."""

        def write() -> Waiting:
            waiting = self._survey_approvals(run_id, subject)
            request = choose(waiting, approval.digest, key)
            where = request.conversation_id
            return answer(self.store, where, approval, key=request.key, subject=subject)

        answered = await asyncio.to_thread(write)
        self._wake(run_id)
        return answered

    async def send(
        self, run_id: str, canister: AnyCanister, *, subject: str = "", message_id: str = ""
    ) -> None:
        """Send a message to a run; only once per ``message_id``, if there is one."""
        if is_input_blank((canister,)):
            raise _refuse("canister", "The message is empty.")
        summary = await self.find(run_id, subject=subject)
        if summary.continued_in:
            detail = f"It continues in {summary.continued_in}; send the message there."
            raise _refuse("run", detail)
        if media_of((canister,)):
            (canister,) = await asyncio.to_thread(detach_media, (canister,), self.store.contents)
        message = MessageReceivedEvent(
            canister=canister, message_id=message_id or produce_identity(), subject=subject
        )
        if summary.kind == "flow":
            from vibe_llms.flows.recipients import send_to_visit  # the first flow imports it

            await asyncio.to_thread(send_to_visit, self.store, run_id, message)
            self._wake(run_id)
        else:
            await self._put(run_id, message)

    async def deliver(self, run_id: str) -> bool:
        """Move the messages of a run to its log, unless another process has claimed the log.

        Returns:
            Whether all messages are in the log by now.
        """
        is_whole = await asyncio.to_thread(partial(deliver, self.store, run_id, wait_seconds=0))
        self._wake(run_id)
        return is_whole

    async def stop(self, run_id: str, *, reason: str = "", subject: str = "") -> None:
        """Stop a run; one that continues in a compacted fork is stopped there."""
        while (summary := await self.find(run_id, subject=subject)).continued_in:
            run_id = summary.continued_in
        message = StopRequestedEvent(message_id=produce_identity(), subject=subject, reason=reason)
        await asyncio.to_thread(self.store.open_inbox(run_id).put, message)
        if self.host is not None:
            await self.host.interrupt(run_id)
        await asyncio.to_thread(deliver, self.store, run_id)

    async def detach(self, run_id: str, *, subject: str = "") -> None:
        """Detach a run, so that it continues without watchers."""
        await self.find(run_id, subject=subject)
        await self._put(run_id, RunDetachedEvent(message_id=produce_identity(), subject=subject))

    async def resume(self, run_id: str, *, subject: str = "") -> None:
        """Resume a run."""
        found = await self.find(run_id, subject=subject)
        if found.spec.get("channel"):
            await asyncio.to_thread(self._ensure_not_deferred_elsewhere, run_id)
        await self._put(run_id, RunResumedEvent(message_id=produce_identity(), subject=subject))

    async def fork(
        self,
        run_id: str,
        *,
        node: str = "",
        visit: int = 1,
        variables: Mapping[str, JsonValue] | None = None,
        subject: str = "",
    ) -> RunSummary:
        """Start a run with another's conversation."""
        summary = await self.find(run_id, subject=subject)
        if not node and summary.kind == "flow":
            raise _refuse("node", "Name the node at which to fork the flow.")
        self._check_channel(summary.spec.get("channel"))
        if summary.kind != "flow" and (node or variables or visit != 1):
            raise _refuse("node", "Only flows have nodes, visits and variables.")
        request = RunRequestedEvent(spec=summary.spec, subject=subject)

        def write() -> RunSummary:
            if node:
                from vibe_llms.flows.forking import begin_fork

                identity = begin_fork(
                    self.store, run_id, node, request, visit=visit, variables=variables
                )
            else:
                identity = self.store.fork(run_id)
                ending = judge_ending(self.store.read(identity).canisters, identity)
                request_run(self.store, identity, request, ending)
            return self._read(identity)

        return self._wake_if_open(await asyncio.to_thread(write))

    async def delete(self, run_id: str, *, subject: str = "") -> None:
        """Delete a run with its visits."""
        await asyncio.to_thread(self._delete, run_id, subject)

    def _check_channel(self, channel: JsonValue) -> None:
        """Refuse a channel that workers do not support. Raises ConfigurationError."""
        if channel == VENDOR and self.host is not None and not self.host.deferred_name:
            raise refuse_workers()

    # --- in a thread -----------------------------------------------------------------------------

    def _find(self, run_id: str, subject: str) -> RunSummary:
        with self.access.hiding_unreadable(run_id, subject):
            summary = self.index.read_summary(run_id)
        if not self.access.admits(subject, summary.subject):  # the same as if it did not exist
            raise UnknownConversationError(identity=run_id)
        return summary

    def _ensure_not_deferred_elsewhere(self, run_id: str) -> None:
        if self.host is None:  # another process of this machine executes the run
            own = DeferredRequests(self.store, self.application).name
        else:
            own = self.host.deferred_name
        refuse_deferred_elsewhere(self.store.open_log(run_id).read(), own)

    def _request(
        self,
        identity: str,
        spec: RunSpec,
        canisters: Sequence[AnyCanister],
        subject: str,
        *,
        claims: bool,
    ) -> ClaimedRun | None:
        spec = self.rules.complete(spec, self.application)
        self.rules.check(spec, self.application)
        self._check_channel(spec.channel)
        if spec.compact:
            raise _refuse("compact", "A new run has nothing to compact: name a conversation.")
        if spec.task is None and (not canisters or is_input_blank(canisters)):
            raise _refuse("canisters", "The first message is missing: pass a message or a task.")
        if spec.task is not None and canisters:
            raise _refuse("canisters", "A task has its own first message: do not pass another.")
        metadata = ConversationMetadata(model=spec.model or None)
        if spec.task is not None:
            from vibe_llms.flows.task_reading import examine_task
            from vibe_llms.flows.visiting import begin_conversation

            flow = begin_conversation(examine_task(spec.task, strict=False).task, identity)
            canisters, metadata = flow.canisters, flow.metadata
        canisters = tuple(detach_media(canisters, self.store.contents))
        request = RunRequestedEvent(spec=spec.export(), canisters=canisters, subject=subject)
        return begin_run(self.store, identity, metadata, request, claims=claims)

    def _survey_approvals(self, run_id: str, subject: str) -> list[Waiting]:
        self._find(run_id, subject)
        return [
            each
            for identity in (run_id, *survey_parts(self.store, run_id))
            for each in survey_waiting(self.store, identity)
        ]

    def _delete(self, run_id: str, subject: str) -> None:
        self._find(run_id, subject)
        parts = [*survey_parts(self.store, run_id)]
        log = self.store.open_log(run_id)
        try:
            claim_soon(log)  # the process that just ended it may still hold the claim
        except StoreUnavailableError:
            raise
        except StoreError as error:
            raise _refuse("run", "The run is working; stop it first.") from error
        try:
            abandon_fork(self.store, run_id)
            self.store.delete(run_id)
        finally:
            log.close()
        for identity in parts:
            with suppress(UnknownConversationError):
                self.store.delete(identity)

    async def _put(self, run_id: str, message: RunMessage) -> None:
        def write() -> None:
            self.store.open_inbox(run_id).put(message)
            deliver(self.store, run_id)

        await asyncio.to_thread(write)
        self._wake(run_id)

    def _read(self, identity: str) -> RunSummary:
        self.index.touch(identity)
        return self.index.read_summary(identity)

    def _wake_if_open(self, summary: RunSummary) -> RunSummary:
        if summary.state not in RESTS:
            self._wake(summary.id)
        return summary

    def _wake(self, run_id: str) -> None:
        self.index.touch(run_id)
        if self.host is not None:
            self.host.wake(run_id)


def _refuse(path: str, detail: str) -> RequestError:
    return RequestError(path=path, detail=detail, stage=Stage.EXECUTE)
