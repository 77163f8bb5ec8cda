"""Execution of the invocations of a turn: concurrent, with results in the order of the calls."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence

import attrs

from vibe_llms.engine.contexts import Journal, RunContext
from vibe_llms.engine.limits import Readings
from vibe_llms.engine.prepared_calls import Call, find_denial
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import (
    InvocationFinishedEvent,
    InvocationProgressEvent,
    InvocationStartedEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.json_types import JsonObject, escape_surrogates
from vibe_llms.invocables.argument_faults import explain_faults
from vibe_llms.invocables.call_execution import Interrupted, perform_validated
from vibe_llms.invocables.calls import canonicalize, compose_result, group_identical
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.outcomes import Outcome, fail
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.contents import TextualContent


class Executor:
    """Executes the calls of a run.

    Args:
        journal: Conversation, to which results are added.
        registry: Connected registry of invocables.
        context: Context of the run.
        record: Facts from the log.
        readings: Counts executions and faults.
    """

    # Keys of the turn's calls without a result in the conversation, in order: a result waits in the
    # record until those before it are there.
    _pending_keys: list[str]

    def __init__(
        self,
        journal: Journal,
        registry: Registry,
        context: RunContext,
        record: Record,
        readings: Readings,
    ) -> None:
        self._journal = journal
        self._registry = registry
        self._context = context
        self._record = record
        self._readings = readings
        self._lock = asyncio.Lock()

    async def execute(self, calls: Sequence[Call]) -> None:
        """Execute the calls of a turn; on return, each has its result.

        Identical calls share one execution if the invocable is pure.

        Raises:
            StoreError: A result could not be stored; results in the log are not lost.
            KeyboardInterrupt: A call was interrupted (Ctrl-C); the others were cancelled.
        """
        self._pending_keys = [call.key for call in calls]
        await self._deliver()  # results of an earlier run
        pending = [call for call in calls if call.key not in self._record.results]
        groups = self._group(pending)
        try:
            if len(groups) == 1:  # needs no task of its own
                await self._perform_group(groups[0])
            elif groups:
                await self._perform_groups(groups)
        except Interrupted:
            raise KeyboardInterrupt from None

    async def _perform_groups(self, groups: Sequence[Sequence[Call]]) -> None:
        """Execute groups of calls concurrently.

        The first call that raises cancels all others; the error is raised when they have ended.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for group in groups:
                    tasks.create_task(self._perform_group(group))
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
        else:
            return
        raise first  # not chained: the exception group adds no information

    def _group(self, calls: Sequence[Call]) -> Sequence[Sequence[Call]]:
        """Group calls that can share one execution: identical, with the same approval."""
        if len(calls) < 2:
            return [calls] if calls else []
        groups: dict[object, list[Call]] = {}
        indexes = group_identical([call.canister for call in calls], self._registry.is_pure)
        for number, group in enumerate(indexes):
            for index in group:
                call = calls[index]
                groups.setdefault((number, _identify_approval(call)), []).append(call)
        return list(groups.values())

    async def _perform_group(self, calls: Sequence[Call]) -> None:
        """Execute a call once, and give the outcome to all identical calls."""
        started = time.monotonic()
        outcome, is_fault = await self._perform(calls[0])
        seconds = time.monotonic() - started
        for call in calls:
            result = compose_result(call.canister, outcome)
            event = InvocationFinishedEvent(
                key=call.key,
                invocation_id=call.canister.invocation_id,
                name=call.canister.name,
                result=result,
                is_fault=is_fault,
                seconds=seconds,
            )
            self._readings.invocations += 1
            if is_fault:
                self._readings.faults += 1
            self._record.add(event)
            # The conversation stores a result that is delivered at once. A result that waits for
            # other results is only in the log until then; without the log, a side effect would be
            # repeated.
            await self._context.emit(event, durable=self._is_only_logged(call))
        await self._deliver()

    def _is_only_logged(self, call: Call) -> bool:
        """Return whether the result of a side effect is only in the log until others are there."""
        is_next = bool(self._pending_keys) and self._pending_keys[0] == call.key
        return not is_next and call.invoker is not None and call.invoker.effect is Effect.ONCE

    async def _perform(self, call: Call) -> tuple[Outcome, bool]:
        """Execute a call; return its outcome, and whether it counts as a fault."""
        invoker = call.invoker
        if invoker is None:
            return fail(call.fault), True
        denial = find_denial(call)
        if denial:
            return fail(denial), False
        arguments, canonical = _access_arguments(call)
        context = self._produce_context(call.canister, invoker)
        try:
            faults = await invoker.examine(arguments)
        except ConverseError as error:  # the schema is invalid, or takes too long
            return fail(str(error)), True
        if faults:  # not executed
            return fail(explain_faults(invoker.name, faults)), True
        event = InvocationStartedEvent(
            key=call.key,
            invocation_id=context.invocation_id,
            name=invoker.name,
            arguments=canonical,
            effect=invoker.effect.value,
            idempotency_key=context.idempotency_key,
        )
        self._record.add(event)
        # Before it starts: a call that the log does not record cannot have taken effect.
        await self._context.emit(event, durable=invoker.effect is Effect.ONCE)
        outcome = await perform_validated(invoker, arguments, context)
        return _mark_edit(call, outcome), outcome.is_error

    def _produce_context(self, canister: InvocationCanister, invoker: Invoker) -> InvocationContext:
        def report_progress(text: str) -> None:
            event = InvocationProgressEvent(
                key=canister.id,
                invocation_id=canister.invocation_id,
                name=invoker.name,
                text=escape_surrogates(str(text)),
            )
            self._context.publish(event)

        return InvocationContext(
            invocation_id=canister.invocation_id,
            run_id=self._context.run_id,
            # The same if the call is executed again after a crash; different in each fork.
            idempotency_key=f"{self._journal.conversation_id}/{canister.id}",
            listener=report_progress,
        )

    async def _deliver(self) -> None:
        """Add results to the conversation, up to the first that is missing."""
        if not self._pending_keys or self._pending_keys[0] not in self._record.results:
            return
        async with self._lock:  # concurrent appends would mix
            ready: list[ResultCanister] = []
            for key in self._pending_keys:
                if key not in self._record.results:
                    break
                ready.append(self._record.results[key])
            if ready:
                await self._journal.append(ready)
                del self._pending_keys[: len(ready)]


def _identify_approval(call: Call) -> tuple[str, str | None, str] | None:
    """Return the key that groups calls with the same approval decision."""
    approval = call.approval
    if approval is None:
        return None
    return approval.decision, approval.arguments, approval.reason


def _access_arguments(call: Call) -> tuple[JsonObject, str]:
    """Return the arguments to execute: the call's own, or those of an edit."""
    approval = call.approval
    if approval is None or approval.arguments is None:
        return call.arguments, call.canonical
    arguments: JsonObject = json.loads(approval.arguments)
    return arguments, canonicalize(arguments)


def _mark_edit(call: Call, outcome: Outcome) -> Outcome:
    """Add a note for the model that its arguments were edited."""
    approval = call.approval
    if approval is None or approval.arguments is None:
        return outcome
    reason = f" {approval.reason}" if approval.reason else ""
    note = f"[executed with other arguments, as approved: {approval.arguments}]{reason}\n"
    return attrs.evolve(outcome, contents=(TextualContent(note), *outcome.contents))
