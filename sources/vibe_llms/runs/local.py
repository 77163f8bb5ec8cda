"""Runs in this process: steps are performed in place, and what happens goes to the log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from vibe_llms.conversations.run_logs.inbox import Inbox
from vibe_llms.conversations.run_logs.log import RunLog, read_events, wait_for_room
from vibe_llms.engine.contexts import Operation, RunEvent, Step
from vibe_llms.events.bus import EventBus
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import CodecError, Stage, StoreError, UnknownNameError
from vibe_llms.files import is_full
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.plain import JsonObject
from vibe_llms.runs.delivering import take_letters

_LOOK_SECONDS: Final = 0.2
"""How soon a run hears what is said to it while a step is under way."""


class LocalRunContext:
    """Performs a run in this process; see :class:`vibe_llms.engine.contexts.RunContext`.

    Args:
        run_id: The name of the run.
        log: Where events go; claimed already where it can be.
        listener: Hears each event when it has been written. One that raises gets one logged
            warning and harms nobody.
        earlier: What earlier runs have left; by default what the log holds by now.
        inbox: Where letters to the run are.
        unheard: What was taken from there already.
        checked: Whether all that goes into a step and comes out of it really passes through
            JSON, as it would on the way to another machine; costs what that costs.
        waits: Wait while the disk is full, rather than fail.
    """

    def __init__(
        self,
        run_id: str,
        log: RunLog,
        *,
        listener: Callable[[RunEvent], object] | None = None,
        earlier: Sequence[LogEvent] | None = None,
        checked: bool = False,
        inbox: Inbox | None = None,
        unheard: Sequence[LogEvent] = (),
        waits: bool = False,
    ) -> None:
        self.run_id = run_id
        self._log = log
        self._inbox = inbox
        self._unheard = unheard
        self._earlier = read_events(log) if earlier is None else earlier
        self._checked = checked
        self._waits = waits
        self._operations: dict[str, Operation] = {}
        self._waiting: list[LogEvent] = []  # for the next one, to be written together
        self._bus: EventBus[RunEvent] | None = None
        if listener is not None:
            self._bus = EventBus()
            self._bus.subscribe(listener)

    def register(self, operations: Mapping[str, Operation]) -> None:
        """Takes the operations that steps may name."""
        self._operations.update(operations)

    async def step(self, operation: str, arguments: JsonObject, *, key: str) -> JsonObject:
        """Performs one step and returns its receipt.

        Raises:
            UnknownNameError: No operation was registered under the name.
            CodecError: Checked, the arguments or the receipt are not JSON.
        """
        perform = self._operations.get(operation)
        if perform is None:
            raise UnknownNameError(
                kind="operation",
                name=operation,
                known=tuple(sorted(self._operations)),
                stage=Stage.EXECUTE,
            )
        if not self._checked:
            return await perform(arguments)
        sent = _pass_through_json(arguments, f"the arguments of {operation} ({key})")
        return _pass_through_json(await perform(sent), f"the receipt of {operation} ({key})")

    async def gather(self, steps: Sequence[Step]) -> list[JsonObject]:
        """Performs steps at the same time."""
        if len(steps) == 1:  # one step needs no group of tasks
            (only,) = steps
            return [await self.step(only.operation, only.arguments, key=only.key)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self.step(step.operation, step.arguments, key=step.key))
                    for step in steps
                ]
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
        else:
            return [task.result() for task in tasks]
        raise first  # by itself: what cancelled the others is what there is to know

    async def emit(self, event: LogEvent, *, durable: bool = False, soon: bool = False) -> None:
        """Adds an event to the log, then tells the listener, in the order of the log."""
        if soon:
            self._waiting.append(event)
            return
        while True:
            events, self._waiting = [*self._waiting, event], []
            try:
                sequence = await self._log.write(self.run_id, *events, durable=durable)
                break
            except Exception as error:
                # Whoever emits the last one hears of it; of the others nobody would.
                self._waiting[:0] = events[:-1]
                if not self._waits:
                    raise
                await wait_for_room(error)
            except asyncio.CancelledError:  # it is written all the same
                self._tell_all(events)
                raise
        self._tell_all(events)  # before the disk is waited for, where others would overtake
        while durable:
            try:
                return await self._log.secure(sequence)
            except StoreError as error:
                if not self._waits:
                    raise
                await wait_for_room(error)

    async def settle(self) -> None:
        """Writes what was to be written soon, where nothing has come after it."""
        if self._waiting:
            last = self._waiting.pop()
            await self.emit(last)

    def _tell_all(self, events: Sequence[LogEvent]) -> None:
        if self._bus is not None:
            for event in events:
                self._bus.publish(event)

    @property
    def is_followed(self) -> bool:
        """Whether there is a listener."""
        return self._bus is not None

    def tell(self, event: RunEvent) -> None:
        """Tells the listener of an event that is not kept."""
        if self._bus is not None:
            self._bus.publish(event)

    async def receive(self) -> Sequence[LogEvent]:
        """Moves what others have said to the run into its log, and returns it."""
        events, self._unheard = self._unheard, ()
        if self._inbox is not None and not self._inbox.is_empty:
            # In no thread: branches of a flow may write to the log meanwhile. Letters are rare.
            try:
                events = [*events, *take_letters(self._inbox, self._log, self.run_id)]
            except StoreError as error:
                if not (self._waits and is_full(error)):
                    raise
        for event in events:
            self.tell(event)
        return events

    @contextmanager
    def attend(self, hear: Callable[[Sequence[LogEvent]], object]) -> Iterator[None]:
        """Looks again and again whether others say something, and hands it over."""
        inbox, loop = self._inbox, asyncio.get_running_loop()
        if inbox is None:
            yield
            return

        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            timer = loop.call_later(_LOOK_SECONDS, look)
            with suppress(StoreError):  # they stay there: whoever receives is told of it
                if not inbox.is_empty:
                    events = take_letters(inbox, self._log, self.run_id)
                    for event in events:
                        self.tell(event)
                    hear(events)

        timer = loop.call_later(_LOOK_SECONDS, look)
        try:
            yield
        finally:
            timer.cancel()

    async def now(self) -> float:
        """Returns the seconds since some moment."""
        return time.monotonic()

    def survey(self) -> Sequence[LogEvent]:
        """Returns what earlier runs have left."""
        return self._earlier


def _pass_through_json(value: JsonObject, what: str) -> JsonObject:
    try:
        passed: JsonObject = msgspec.json.decode(encode_document(value), type=dict)
        return passed
    except (CodecError, msgspec.ValidationError) as error:
        raise CodecError(path=what, detail=str(error), stage=Stage.EXECUTE) from error
