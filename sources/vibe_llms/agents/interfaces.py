"""Interfaces of runs, and of the runners that execute them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.events.flow import VisitEvent
from vibe_llms.events.stream import StreamEvent
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.invocables.approvals import Approval
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.runs.filtering import ALL_RUNS, RunFilter
from vibe_llms.runs.steps import StepPage
from vibe_llms.runs.summaries import RunState, RunSummary
from vibe_llms.runs.surveying import RESTS, STATES
from vibe_llms.runs.waiting import Waiting

if TYPE_CHECKING:
    from vibe_llms.flows.outlines import Outline
    from vibe_llms.runs.indexing import RunIndex
    from vibe_llms.runs.opening import ClaimedRun

WatchedEvent: TypeAlias = LoggedEvent | StreamEvent | VisitEvent
"""Events for watchers of a run: events of the log, and transient events that are in no log, for
example parts of an answer that is still being generated. Watchers may miss transient events."""


class Runner(Protocol):
    """Executes runs: in this process, or by passing them to workers."""

    @property
    def index(self) -> RunIndex:
        """Index of the states of runs."""

    @property
    def deferred_name(self) -> str:
        """The name of this process in logs with deferred requests; empty if it defers none."""

    @property
    def working(self) -> Sequence[str]:
        """The ids of the runs that this process has taken on."""

    async def start(self) -> None:
        """Start; continue interrupted runs.

        Raises:
            StoreError: The database is unreachable.
            DependencyError: An extra is not installed.
        """

    async def close(self) -> None:
        """Release all runs so that other workers can continue them."""

    def wake(self, run_id: str) -> None:
        """Have a run executed soon, because it is due or has a new message. Idempotent."""

    @property
    def has_room(self) -> bool:
        """True if a new run would start at once in this process."""

    def begin(self, claimed: ClaimedRun) -> None:
        """Execute a new run whose log was claimed by its request."""

    async def interrupt(self, run_id: str) -> None:
        """Cancel a run's execution in this process and wait for its end.

        In other processes a run receives its messages itself.
        """


class Runs(Protocol):
    """Interface to runs, and to their messages.

    ``subject`` names the caller, empty for no particular user; runs that others have requested do
    not exist for the caller. All methods that take a run's id raise UnknownConversationError if
    the run does not exist.
    """

    async def start(
        self,
        spec: RunSpec,
        canisters: Sequence[AnyCanister] = (),
        *,
        subject: str = "",
        key: str = "",
        conversation: str = "",
    ) -> RunSummary:
        """Request a run. When this returns, the request is durable.

        Args:
            spec: Specification of the run.
            canisters: First canisters of the conversation; none for a flow.
            key: Idempotency key: a second request with the same key returns the same run.
            conversation: Id of a conversation to continue; a new one by default. The run has the
                same id. The canisters may be missing if the last message has no answer yet.

        Raises:
            ConfigurationError: The specification asks for something that is not allowed.
            RequestError: The key was used for a different request, there are no canisters, or a run
                of the conversation is active.
            UnknownConversationError: The conversation to continue does not exist.
        """

    async def survey(
        self,
        *,
        states: Sequence[RunState] = STATES,
        after: str = "",
        limit: int | None = None,
        wanted: RunFilter = ALL_RUNS,
        subject: str = "",
    ) -> Sequence[RunSummary]:
        """Return the runs in some states that match a filter, the most recently updated first.

        Args:
            after: Id of the run behind which to begin.
            limit: Maximum number of runs; ``None`` for all.
            wanted: Conditions on the runs.

        Raises:
            RequestError: The run ``after`` does not exist.
        """

    async def find(self, run_id: str, *, subject: str = "") -> RunSummary:
        """Return the summary of a run."""

    async def wait(
        self, run_id: str, *, states: Collection[RunState] = RESTS, subject: str = ""
    ) -> RunSummary:
        """Wait until a run is in one of some states, whichever process executes it.

        By default, wait until it has ended or was stopped; waiting for an approval is neither.
        """

    def watch(
        self, run_id: str, *, after: int = 0, follow: bool = True, subject: str = ""
    ) -> AsyncGenerator[WatchedEvent]:
        """Yield the events of a run: each event of its log once, in order.

        Closing the generator does not affect the run.

        Args:
            after: Number of the last known event; 0 for none.
            follow: Continue after the run has ended or was stopped.

        Raises:
            RequestError: The log has not reached that number.
        """

    async def outline(self, run_id: str, *, subject: str = "") -> Outline:
        """Return the progress of a flow's run, for drawing it.

        Raises:
            RequestError: The run is not a flow.
        """

    async def survey_steps(
        self, run_id: str, *, after: int = 0, limit: int | None = None, subject: str = ""
    ) -> StepPage:
        """Return the steps of a run, or of a visit of a flow, that changed after an event.

        Args:
            after: Number of the event up to which the steps are known; 0 for none.
            limit: Maximum number of steps; ``None`` for all.
        """

    async def survey_approvals(self, run_id: str, *, subject: str = "") -> Sequence[Waiting]:
        """Return the calls of a run that wait for an approval, including those of its visits."""

    async def approve(
        self, run_id: str, approval: Approval, *, key: str | None = None, subject: str = ""
    ) -> Waiting:
        """Answer a call that waits for an approval; the first of several answers counts.

        Raises:
            UnknownNameError: No such call is waiting; it may have been answered already.
        """

    async def send(self, run_id: str, canister: AnyCanister, *, subject: str = "") -> None:
        """Send a message to a run; the model receives it at its next turn.

        In a flow, the active visit that asks a model receives it; of several, the first that waits.

        Raises:
            RequestError: The message is blank, or no visit of the flow can receive it.
        """

    async def stop(self, run_id: str, *, reason: str = "", subject: str = "") -> None:
        """Stop a run."""

    async def detach(self, run_id: str, *, subject: str = "") -> None:
        """Detach a run that was started attached, so that it continues without watchers."""

    async def resume(self, run_id: str, *, subject: str = "") -> None:
        """Resume a run that was stopped or has ended; its limits are reset."""

    async def fork(
        self,
        run_id: str,
        *,
        node: str = "",
        visit: int = 1,
        variables: Mapping[str, JsonValue] | None = None,
        subject: str = "",
    ) -> RunSummary:
        """Start a run with another's conversation and specification; its owner is the caller.

        The fork of a conversation that ended with an answer has ended, too, until it receives a
        message.

        Args:
            node: For a flow, the node to restart from; otherwise empty.
            visit: Number of the node's first visit that is repeated, from 1.
            variables: For a flow, variables that replace the original ones, by name.

        Raises:
            RequestError: The flow has not reached that visit, or the run is not a flow and has no
                nodes.
        """

    async def delete(self, run_id: str, *, subject: str = "") -> None:
        """Delete a run with its visits.

        Raises:
            RequestError: The run is active and has to be stopped first.
        """
