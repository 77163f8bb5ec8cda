"""What can be done with runs, wherever they are."""

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
from vibe_llms.runs.summaries import RunState, RunSummary
from vibe_llms.runs.surveying import RESTS, STATES
from vibe_llms.runs.waiting import Waiting

if TYPE_CHECKING:
    from vibe_llms.flows.outlines import Outline

ToldEvent: TypeAlias = LoggedEvent | StreamEvent | VisitEvent
"""What is told to those who watch a run: the events of its log, and what passes by and is in none,
such as pieces of an answer that is still being written; that may be missed."""


class Runs(Protocol):
    """Runs, and what is said to them.

    Whoever asks is named by ``subject``, empty for nobody in particular; of runs that others have
    asked for they are told that there are none. All that takes a run's id raises
    UnknownConversationError where there is no such run.
    """

    async def start(
        self,
        order: RunSpec,
        canisters: Sequence[AnyCanister] = (),
        *,
        subject: str = "",
        key: str = "",
    ) -> RunSummary:
        """Asks for a run. When this returns, it survives whatever happens.

        Args:
            order: What is to be run.
            canisters: What is said first; none for a flow.
            key: A run is asked for once under a key: who asks again is told of the same.

        Raises:
            ConfigurationError: The order asks for what it may not.
            RequestError: Something else was asked for under the key, or nothing was said.
        """

    async def survey(
        self,
        *,
        states: Sequence[RunState] = STATES,
        after: str = "",
        limit: int | None = None,
        subject: str = "",
    ) -> Sequence[RunSummary]:
        """Returns the runs in some states, the one in which something happened last first.

        Args:
            after: The id of the run behind which to begin.
            limit: How many at most; ``None`` for all.

        Raises:
            RequestError: There is no run ``after`` which to begin.
        """

    async def find(self, run_id: str, *, subject: str = "") -> RunSummary:
        """Returns where a run stands."""

    async def wait(
        self, run_id: str, *, states: Collection[RunState] = RESTS, subject: str = ""
    ) -> RunSummary:
        """Waits until a run is in one of some states, wherever it is performed.

        By default until it has ended or was stopped: one that waits for an approval does not.
        """

    def watch(
        self, run_id: str, *, after: int = 0, follow: bool = True, subject: str = ""
    ) -> AsyncGenerator[ToldEvent]:
        """Tells what happens in a run: each event of its log once, in order.

        To leave it changes nothing for the run.

        Args:
            after: The number of the last event that is known; 0 for none.
            follow: Whether it goes on when the run has ended or was stopped.

        Raises:
            RequestError: The log has not come to that number.
        """

    async def outline(self, run_id: str, *, subject: str = "") -> Outline:
        """Returns where the run of a flow stands, for those who draw it.

        Raises:
            RequestError: It is no flow.
        """

    async def survey_approvals(self, run_id: str, *, subject: str = "") -> Sequence[Waiting]:
        """Returns what of a run waits for an approval, its visits included."""

    async def approve(
        self, run_id: str, approval: Approval, *, key: str | None = None, subject: str = ""
    ) -> Waiting:
        """Answers what waits; of several answers the first counts.

        Raises:
            UnknownNameError: No such call waits (any longer).
        """

    async def send(self, run_id: str, canister: AnyCanister, *, subject: str = "") -> None:
        """Says something to a run; the model hears it when its turn has come.

        In a flow that is the visit under way that asks a model; of several the first that waits.

        Raises:
            RequestError: It is blank; or it is a flow, of which no visit could hear it.
        """

    async def stop(self, run_id: str, *, reason: str = "", subject: str = "") -> None:
        """Ends a run where it is."""

    async def detach(self, run_id: str, *, subject: str = "") -> None:
        """Lets a run that was begun attached go on without those who watch it."""

    async def resume(self, run_id: str, *, subject: str = "") -> None:
        """Lets a run go on that was stopped or has ended; its limits begin anew."""

    async def fork(
        self,
        run_id: str,
        *,
        node: str = "",
        visit: int = 1,
        variables: Mapping[str, JsonValue] | None = None,
        subject: str = "",
    ) -> RunSummary:
        """Begins a run with what was said in another, and the same order; its owner is who forks.

        That of a conversation in which all was answered has ended, too, until something is said.

        Args:
            node: Of a flow, the node from which on it is run anew; of all else empty.
            visit: Which of the node's visits is the first that is made anew, from 1.
            variables: Of a flow, instead of those that it was given, by name.

        Raises:
            RequestError: A flow has not come to that visit, or only a flow has nodes.
        """

    async def delete(self, run_id: str, *, subject: str = "") -> None:
        """Removes a run with its visits.

        Raises:
            RequestError: It works: it has to be stopped first.
        """
