"""Protocols that the engine requires: the context of a run, and the journal of its conversation.

The engine lies below the package ``runs``, which implements both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from vibe_llms.events.flow import LogEvent
from vibe_llms.events.stream import StreamEvent
from vibe_llms.messages.canisters import AnyCanister

RunEvent: TypeAlias = LogEvent | StreamEvent
"""Event that listeners of a run receive: from its log, or from a streamed response."""


class RunContext(Protocol):
    """Log of a run, its listeners, and messages to the run."""

    @property
    def run_id(self) -> str:
        """Name of the run."""

    async def emit(self, event: LogEvent, *, durable: bool = False, soon: bool = False) -> None:
        """Add an event to the log, then pass it to the listeners.

        Args:
            durable: Return only when the event survives a power failure; by default it survives
                the end of this process.
            soon: Write the event together with the next one, which the same task emits right
                after it; at the latest, the end of the run writes it. Nothing may depend on the
                event before it is written.
        """

    @property
    def is_followed(self) -> bool:
        """True if the run has listeners."""

    def publish(self, event: RunEvent) -> None:
        """Pass an event to the listeners without storing it.

        A listener that raises is logged once, keeps receiving events, and does not affect the run.
        """

    async def receive(self) -> Sequence[LogEvent]:
        """Move new messages to the run into the log, and return them.

        These are user messages, answers to approval requests, and stops.
        """

    def deliver_messages(
        self, on_event: Callable[[Sequence[LogEvent]], object]
    ) -> AbstractContextManager[object]:
        """Pass new messages to ``on_event`` soon after they arrive, until the block ends.

        :meth:`receive` does not return them again.
        """

    def survey(self) -> Sequence[LogEvent]:
        """Return the events of the conversation's earlier runs, oldest first."""


class Journal(Protocol):
    """Conversation of a run; it only grows."""

    @property
    def conversation_id(self) -> str:
        """Name of the conversation."""

    @property
    def canisters(self) -> Sequence[AnyCanister]:
        """All canisters, oldest first; do not modify."""

    async def append(self, canisters: Sequence[AnyCanister]) -> None:
        """Add canisters; on return they survive a crash, if the conversation has a store.

        Raises:
            StoreError: They could not be written and are not in ``canisters``.
        """
