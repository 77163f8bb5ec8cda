"""AG-UI as a face of the daemon: ``POST /ag-ui``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.daemons.agents.faces.ag_ui_events import EventWriter
from vibe_llms.daemons.agents.faces.ag_ui_requests import AgentInput, read_agent_input
from vibe_llms.daemons.agents.faces.following import describe_settled
from vibe_llms.daemons.agents.faces.serving import (
    SPEC_QUERIES,
    FaceParts,
    load_media,
    read_spec,
    serve_run,
    write_events,
)
from vibe_llms.daemons.agents.faces.threads import (
    MAX_ID_CHARACTERS,
    Thread,
    advance,
    find_summary,
    find_thread,
    rejoin,
)
from vibe_llms.daemons.agents.route_access import RouteRow
from vibe_llms.daemons.agents.streams import STREAM_HEADERS
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import perform_sized, read_json_body
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    UserCanister,
)
from vibe_llms.runs.surveying import RESTS

_TEXT: Final[JsonObject] = {"type": "string"}
_LIST: Final[JsonObject] = {"type": "array", "items": {"type": "object"}}
_MESSAGE: Final[JsonObject] = {
    "anyOf": [
        {
            "type": "object",
            "required": ["id", "role", "content"],
            "properties": {
                "id": _TEXT,
                "role": {"const": "user"},
                "content": {"anyOf": [_TEXT, _LIST]},
            },
        },
        {
            "type": "object",
            "required": ["id", "role", "content"],
            "properties": {
                "id": _TEXT,
                "role": {"enum": ["system", "developer"]},
                "content": _TEXT,
            },
        },
        {
            "type": "object",
            "required": ["id", "role"],
            "properties": {
                "id": _TEXT,
                "role": {"enum": ["assistant", "tool", "reasoning", "activity"]},
            },
        },
    ],
}
_INPUT: Final[JsonObject] = {
    "title": "RunAgentInput",
    "type": "object",
    "required": ["threadId", "runId", "messages"],
    "properties": {
        "threadId": {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS},
        "runId": _TEXT,
        "messages": {"type": "array", "items": _MESSAGE},
        "resume": _LIST,
        "tools": _LIST,
        "context": _LIST,
        "forwardedProps": {},
        "state": {},
    },
}


class AgUiFace:
    """Request handler for AG-UI.

    Args:
        parts: The parts of the daemon that faces share.
    """

    def __init__(self, parts: FaceParts) -> None:
        self._parts = parts

    def list_rows(self) -> list[RouteRow]:
        """Return the routes."""
        return [
            RouteRow(
                "POST",
                "/ag-ui",
                self._run,
                "Run an agent for a client of AG-UI.",
                _INPUT,
                queries=SPEC_QUERIES,
                media_types=("text/event-stream",),
                is_admitted=False,  # streams have a separate limit
                needs_host=True,
            )
        ]

    async def _run(self, call: HttpCall, subject: str) -> None:
        parts = self._parts
        with parts.streams.hold(call):
            body = await read_json_body(call)
            with call.cancelling_on_disconnect():
                request = await perform_sized(body, partial(read_agent_input, body))
                spec = read_spec(call, request.run, "forwardedProps.run")
            thread = await find_thread(parts.runs, call, request.thread_id, subject)
            writer = EventWriter(request.thread_id, request.run_id)
            losses = list(request.losses)
            new = _select_new(thread, request, losses)
            begin = partial(writer.begin, request.parent)
            if new or request.approvals or not thread.exists:
                await self._advance(call, thread, request, spec, new, writer, losses)
                return
            summary = await find_summary(parts.runs, thread)
            if summary is not None and summary.state not in RESTS:
                place = await rejoin(parts.runs, thread)
                beginning = [*begin(losses)]
                if _count_missed(thread, request):
                    asked = await load_media(parts, _list_asked(thread))
                    beginning.append(writer.write_snapshot(asked))
                await serve_run(call, parts, place, writer, subject=subject, beginning=beginning)
                return
            canisters = await load_media(parts, thread.canisters)
            events = [*begin(losses), writer.write_snapshot(canisters)]
            events += (
                [writer.finish()] if summary is None else writer.write(describe_settled(summary))
            )
            await call.answer(
                200,
                write_events(events),
                {"cache-control": "no-cache"},
                content_type=STREAM_HEADERS["content-type"],
            )

    async def _advance(
        self,
        call: HttpCall,
        thread: Thread,
        request: AgentInput,
        spec: RunSpec,
        new: Sequence[AnyCanister],
        writer: EventWriter,
        losses: list[str],
    ) -> None:
        runs = self._parts.runs
        missed = _count_missed(thread, request)
        place, late = await advance(runs, call, thread, spec, new, request.approvals)
        losses += [f"The interrupt {each} does not wait for an answer." for each in late]
        beginning = [*writer.begin(request.parent, losses)]
        if missed:
            told = [*thread.canisters, *thread.pending, *new]
            canisters = await load_media(self._parts, told)
            beginning.append(writer.write_snapshot(canisters))
        await serve_run(
            call, self._parts, place, writer, subject=thread.subject, beginning=beginning
        )


def _select_new(thread: Thread, request: AgentInput, losses: list[str]) -> list[AnyCanister]:
    """Return the messages that the conversation lacks; none without one of the user."""
    pairs = [*request.context, *request.messages]
    if request.ignored and not thread.exists:
        losses.append(
            f"{request.ignored} earlier messages were left out: calls, results and reasoning of"
            " another agent."
        )
    return thread.select_new(pairs)


def _list_asked(thread: Thread) -> Sequence[AnyCanister]:
    """Return the messages up to the one that the run answers now."""
    if thread.pending:
        return [*thread.canisters, *thread.pending]
    places = [
        place for place, each in enumerate(thread.canisters) if isinstance(each, UserCanister)
    ]
    return thread.canisters[: places[-1] + 1] if places else ()


def _count_missed(thread: Thread, request: AgentInput) -> int:
    """Return the number of users' messages in the conversation that the client does not have."""
    told = {identity for identity, _ in request.messages}
    told |= {thread.name_message(identity) for identity in told}
    users = [each for each in thread.canisters if isinstance(each, UserCanister)]
    return sum(each.id not in told for each in users)
