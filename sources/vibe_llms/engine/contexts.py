"""What a run is given to work with: where it performs its steps, and where it keeps what was said.

The driver reaches the world through these two alone. So the same run can be performed in this
process, durably, or on many machines, by changing what stands behind them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from vibe_llms.events.flow import LogEvent
from vibe_llms.events.stream import StreamEvent
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.plain import JsonObject
from vibe_llms.values import frozen

Operation: TypeAlias = Callable[[JsonObject], Awaitable[JsonObject]]
"""What performs a step: registered under a name, given a JSON object, returning one."""
RunEvent: TypeAlias = LogEvent | StreamEvent
"""What somebody who follows a run hears: its own events, and those of the answers on their way."""


@frozen
class Step:
    """One thing to be performed: the name of a registered operation, and its arguments.

    Attributes:
        key: The logical place of the step: the same whenever the same step is performed again.
    """

    operation: str
    arguments: JsonObject
    key: str


class RunContext(Protocol):
    """Where a run performs what it decides, and what it may know of time and chance."""

    @property
    def run_id(self) -> str:
        """The name of the run."""

    def register(self, operations: Mapping[str, Operation]) -> None:
        """Takes the operations that steps may name. Called once, before the first step."""

    async def step(self, operation: str, arguments: JsonObject, *, key: str) -> JsonObject:
        """Performs one step and returns its receipt.

        Raises:
            ConverseError: Whatever the operation raises.
        """

    async def gather(self, steps: Sequence[Step]) -> list[JsonObject]:
        """Performs steps at the same time; their receipts are in the order of the steps.

        The first that raises cancels the others, and is raised when they have ended.
        """

    async def emit(self, event: LogEvent, *, durable: bool = False, soon: bool = False) -> None:
        """Adds an event to the log of the run, and tells whoever follows it.

        Args:
            durable: When this returns, the event survives the loss of power, too; without it,
                it survives the loss of this process alone.
            soon: It is written and told together with the next one, which is at hand in the same
                task: nothing may hang on it before that. The end of the run does not lose it.
        """

    @property
    def is_followed(self) -> bool:
        """Whether anybody hears what is told."""

    def tell(self, event: RunEvent) -> None:
        """Tells whoever follows the run of an event that is not kept: it must not be relied on.

        Who hears it harms nobody: one that raises is warned of, and goes on being told.
        """

    async def receive(self) -> Sequence[LogEvent]:
        """Returns what others have said to the run since it was last asked; the log has it then.

        Messages, answers to requests for approvals, a stop; a short look where there is nothing.
        """

    def attend(
        self, hear: Callable[[Sequence[LogEvent]], object]
    ) -> AbstractContextManager[object]:
        """Hands over the same soon after it was said, also while a step is performed.

        What is handed over is not returned by :meth:`receive` as well. It ends with the block.
        """

    async def now(self) -> float:
        """Returns the seconds since some moment; only differences mean anything."""

    def survey(self) -> Sequence[LogEvent]:
        """Returns what the log of the conversation holds from earlier runs, oldest first."""


class Journal(Protocol):
    """The conversation that a run is about: what was said, in order, growing."""

    @property
    def conversation_id(self) -> str:
        """The name of the conversation."""

    @property
    def canisters(self) -> Sequence[AnyCanister]:
        """All that was said, oldest first: to be read, not to be changed."""

    async def append(self, canisters: Sequence[AnyCanister]) -> None:
        """Adds what was said; when this returns, it survives a crash, where there is a store.

        Raises:
            StoreError: It could not be written; it is not in ``canisters`` then.
        """
