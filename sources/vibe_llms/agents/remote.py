"""Runs of an agents daemon, over HTTP; see :class:`.interfaces.Runs`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote, urlencode

import attrs
import msgspec

from vibe_llms.agents.awaiting import await_state
from vibe_llms.agents.connecting import Connection, produce_connection
from vibe_llms.agents.interfaces import WatchedEvent
from vibe_llms.agents.remote_events import RemoteEventStream
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.invocables.approvals import Approval
from vibe_llms.messages.canisters import AnyCanister, SupervisorCanister, UserCanister
from vibe_llms.messages.contents import AnyContent, MediaContent, TextualContent
from vibe_llms.messages.identities import produce_identity
from vibe_llms.runs.filtering import ALL_RUNS, RunFilter
from vibe_llms.runs.steps import RunStep, StepPage
from vibe_llms.runs.summaries import RunState, RunSummary
from vibe_llms.runs.surveying import RESTS, STATES
from vibe_llms.runs.waiting import Waiting
from vibe_llms.wire.exchanges import Transport

if TYPE_CHECKING:
    from vibe_llms.flows.outlines import Outline

_PAGE: Final = 100
_Value = TypeVar("_Value")


class _Page(msgspec.Struct):
    data: list[RunSummary]
    has_more: bool


class _WaitingPage(msgspec.Struct):
    data: list[Waiting]


class RemoteRuns(Closing):
    """Implementation of :class:`.interfaces.Runs` over HTTP. The caller must close it.

    The key identifies the caller: a ``subject`` is refused. Requests that read or start a run are
    retried if an answer was lost. Other requests are retried only if nothing was sent. An event
    stream that breaks is reconnected where it broke.

    Args:
        connection: Connection to the daemon. It is closed with this.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self.connection.close()

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
        _refuse_subject(subject)
        body = spec.export()
        if canisters:
            body["input"] = [_export_message(each) for each in canisters]
        if conversation:
            body["conversation"] = conversation
            headers = {"idempotency-key": key} if key else {}
            return await self.connection.ask(RunSummary, "POST", "/runs", body, headers=headers)
        headers = {"idempotency-key": key or produce_identity()}
        return await self.connection.ask(
            RunSummary, "POST", "/runs", body, headers=headers, is_repeatable=True
        )

    async def survey(
        self,
        *,
        states: Sequence[RunState] = STATES,
        after: str = "",
        limit: int | None = None,
        wanted: RunFilter = ALL_RUNS,
        subject: str = "",
    ) -> Sequence[RunSummary]:
        """Return the runs in some states that match a filter, fetched page by page."""
        _refuse_subject(subject)
        if not states:
            return ()
        query = wanted.export()
        if {*states} != {*STATES}:
            query["state"] = ",".join(states)
        found: dict[str, RunSummary] = {}  # a run that is updated in the meantime moves up
        while limit is None or len(found) < limit:
            page_limit = _PAGE if limit is None else min(limit - len(found), _PAGE)
            page_query = {**query, "limit": str(page_limit), **({"after": after} if after else {})}
            page = await self._read(_Page, f"/runs?{urlencode(page_query, safe=',')}")
            found |= {each.id: each for each in page.data}
            if not page.has_more or not page.data:
                break
            after = page.data[-1].id
        return tuple(found.values())[:limit]

    async def find(self, run_id: str, *, subject: str = "") -> RunSummary:
        """Return the summary of a run."""
        _refuse_subject(subject)
        return await self._read(RunSummary, _compose_path(run_id))

    async def wait(
        self, run_id: str, *, states: Collection[RunState] = RESTS, subject: str = ""
    ) -> RunSummary:
        """Wait until a run is in one of some states."""
        return await await_state(self, run_id, states, subject)

    async def watch(
        self, run_id: str, *, after: int = 0, follow: bool = True, subject: str = ""
    ) -> AsyncGenerator[WatchedEvent]:
        """Yield the events of a run, over as many connections as needed."""
        _refuse_subject(subject)
        stream = RemoteEventStream(self.connection, _compose_path(run_id), after, ends=not follow)
        async with aclosing(stream.follow()) as events:
            async for event in events:
                yield event

    async def outline(self, run_id: str, *, subject: str = "") -> Outline:
        """Return the progress of a flow's run, for drawing it."""
        from vibe_llms.flows.outlines import Outline

        _refuse_subject(subject)
        return await self._read(Outline, f"{_compose_path(run_id)}/flow")

    async def survey_steps(
        self, run_id: str, *, after: int = 0, limit: int | None = None, subject: str = ""
    ) -> StepPage:
        """Return the steps of a run that changed after an event, fetched page by page."""
        _refuse_subject(subject)
        steps: dict[int, RunStep] = {}
        while True:
            size = _PAGE if limit is None else min(limit, _PAGE)
            path = f"{_compose_path(run_id)}/steps?after={after}&limit={size}"
            page = await self._read(StepPage, path)
            steps |= {each.number: each for each in page.data}
            if not page.has_more or limit is not None:
                return attrs.evolve(page, data=tuple(steps.values()))
            after = page.sequence

    async def survey_approvals(self, run_id: str, *, subject: str = "") -> Sequence[Waiting]:
        """Return the calls that wait for an approval."""
        _refuse_subject(subject)
        page = await self._read(_WaitingPage, f"{_compose_path(run_id)}/approvals")
        return tuple(page.data)

    async def approve(
        self, run_id: str, approval: Approval, *, key: str | None = None, subject: str = ""
    ) -> Waiting:
        """Answer a call that waits for an approval."""
        _refuse_subject(subject)
        body: JsonObject = {**attrs.asdict(approval), "key": key}
        changed = {name: value for name, value in body.items() if value}
        path = f"{_compose_path(run_id)}/approvals"
        return await self.connection.ask(Waiting, "POST", path, changed)

    async def send(self, run_id: str, canister: AnyCanister, *, subject: str = "") -> None:
        """Send a message to a run."""
        await self._post(run_id, "messages", subject, _export_message(canister))

    async def stop(self, run_id: str, *, reason: str = "", subject: str = "") -> None:
        """Stop a run."""
        await self._post(run_id, "stop", subject, {"reason": reason} if reason else None)

    async def detach(self, run_id: str, *, subject: str = "") -> None:
        """Detach a run, so that it continues without watchers."""
        await self._post(run_id, "detach", subject)

    async def resume(self, run_id: str, *, subject: str = "") -> None:
        """Resume a run."""
        await self._post(run_id, "resume", subject)

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
        options: JsonObject = {"node": node, "visit": visit, "variables": variables}
        body = {name: value for name, value in options.items() if value}
        return await self._post(run_id, "fork", subject, body)

    async def delete(self, run_id: str, *, subject: str = "") -> None:
        """Delete a run with its visits."""
        _refuse_subject(subject)
        await self.connection.ask(dict, "DELETE", _compose_path(run_id))

    async def _read(self, kind: type[_Value], path: str) -> _Value:
        return await self.connection.ask(kind, "GET", path, is_repeatable=True)

    async def _post(
        self, run_id: str, verb: str, subject: str, body: JsonObject | None = None
    ) -> RunSummary:
        _refuse_subject(subject)
        path = f"{_compose_path(run_id)}/{verb}"
        return await self.connection.ask(RunSummary, "POST", path, body or {})


def connect(
    address: str,
    *,
    key: str | Secret | None = None,
    limits: Limits | None = None,
    transport: Transport | None = None,
    clock: Clock | None = None,
) -> RemoteRuns:
    """Return the runs of an agents daemon; it connects with the first request.

    Args:
        address: The URL of the daemon, such as ``https://example.org:8010``.
        key: The key of the client; by default the environment variable ``VIBE_AGENTS_KEY``.
        limits: Size limits of requests and answers, and the number of attempts.
        transport: Transport of the requests, such as a ``DirectTransport`` that trusts your own
            certificates; it is closed with the runs.
        clock: Clock for the pauses between attempts.

    Raises:
        ConfigurationError: The address or the key is invalid.
    """
    return RemoteRuns(
        produce_connection(address, key=key, limits=limits, transport=transport, clock=clock)
    )


def _compose_path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


def _export_message(canister: AnyCanister) -> JsonObject:
    """Return a message in the daemon's format. Raises RequestError."""
    if not isinstance(canister, (UserCanister, SupervisorCanister)):
        raise _refuse("canisters", "Over HTTP a run accepts only messages of users or supervisors.")
    parts = [_export_part(each) for each in canister.content]
    text = parts[0].get("text") if len(parts) == 1 else None
    return {"role": canister.role, "content": parts if text is None else text}


def _export_part(content: AnyContent) -> JsonObject:
    if isinstance(content, TextualContent) and content == TextualContent(content.text):
        return {"type": "text", "text": content.text}
    if isinstance(content, MediaContent) and content.data is not None:
        data = b64encode(content.data).decode()
        part = {"type": content.type, "data": data, "mime_type": content.mime_type}
        return {**part, "name": content.name} if content.name else part
    raise _refuse("canisters", "Over HTTP a run accepts only texts, and media with their data.")


def _refuse_subject(subject: str) -> None:
    if subject:
        raise _refuse("subject", "Over HTTP the key decides for whom a run is requested.")


def _refuse(path: str, detail: str) -> RequestError:
    return RequestError(path=path, detail=detail, stage=Stage.EXECUTE)
