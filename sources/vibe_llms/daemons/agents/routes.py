"""Routes of the daemon for runs, over :class:`.agents.interfaces.Runs`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Final

import attrs

from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.offers import survey_ensembles, survey_offers
from vibe_llms.agents.skills import survey_skill_offers
from vibe_llms.daemons.agents import answer_schemas, schemas
from vibe_llms.daemons.agents.request_bodies import (
    ApprovalBody,
    Fork,
    StopBody,
    read_json,
    read_message,
    read_start,
)
from vibe_llms.daemons.agents.route_access import LIMIT, RouteAccess, RouteRow, read_limit, refuse
from vibe_llms.daemons.agents.streams import STREAM_HEADERS, follow, read_number
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import perform_sized, read_json_body
from vibe_llms.daemons.open_streams import OpenStreams
from vibe_llms.daemons.routes import Route
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.runs.filtering import read_filter
from vibe_llms.runs.subscriptions import LogSubscriptions
from vibe_llms.runs.summaries import RunState
from vibe_llms.runs.surveying import STATES
from vibe_llms.tables.reading import read_table

FACE: Final = "runs"
_BOOLEANS: Final = ("true", "false")


class RunHandlers:
    """Request handlers for runs.

    Args:
        runs: The runs.
        subscriptions: Subscriptions to the logs of watched runs.
        access: Authenticates callers.
        streams: Open event streams of the daemon.
    """

    def __init__(
        self,
        runs: LocalRuns,
        subscriptions: LogSubscriptions,
        access: RouteAccess,
        streams: OpenStreams,
    ) -> None:
        self.runs = runs
        self._subscriptions = subscriptions
        self._access = access
        self._streams = streams

    def produce_routes(self, *, can_execute: bool = True) -> list[Route]:
        """Produce the routes of a service.

        Args:
            can_execute: Whether this process executes runs; if not, routes that start or resume one
                are omitted.
        """
        path = "/runs/{id}"
        list_queries: dict[str, JsonObject] = {
            "state": schemas.STATE,
            "limit": LIMIT,
            "after": schemas.TEXT,
            **schemas.RUN_FILTER,
        }
        watch_queries: dict[str, JsonObject] = {
            "after": schemas.TEXT,
            "follow": {"enum": [*_BOOLEANS]},
        }
        table = [
            RouteRow(
                "POST",
                "/runs",
                self._start,
                "Start a run.",
                schemas.RUN_START,
                answer=answer_schemas.RUN,
                request_headers={"Idempotency-Key": schemas.TEXT},
                status=201,
                needs_host=True,
            ),
            RouteRow(
                "GET",
                "/models",
                self._survey_models,
                "List the models that runs may use.",
                answer=answer_schemas.MODELS,
                needs_host=True,
            ),
            RouteRow(
                "GET",
                "/ensembles",
                self._survey_ensembles,
                "List the ensembles of tools that runs may use.",
                answer=answer_schemas.ENSEMBLES,
                needs_host=True,
            ),
            RouteRow(
                "GET",
                "/skills",
                self._survey_skills,
                "List the skills that runs may use.",
                answer=answer_schemas.SKILLS,
                needs_host=True,
            ),
            RouteRow(
                "GET",
                "/runs",
                self._survey,
                "List or search runs, most recently active first.",
                answer=answer_schemas.RUNS,
                queries=list_queries,
            ),
            RouteRow(
                "GET", path, self._find, "Return the state of a run.", answer=answer_schemas.RUN
            ),
            RouteRow("DELETE", path, self._delete, "Delete a run."),
            RouteRow(
                "GET",
                f"{path}/events",
                self._watch,
                "Follow the events of a run.",
                queries=watch_queries,
                request_headers={"Last-Event-ID": schemas.TEXT},
                media_types=("text/event-stream",),
                is_admitted=False,  # streams have a separate limit
            ),
            *self._list_rows(path),
        ]
        rows = (row for row in table if can_execute or not row.needs_host)
        return [self._access.produce_route(row, tag=FACE) for row in rows]

    def _list_rows(self, path: str) -> list[RouteRow]:
        """Return the routes for queries and commands to one run."""
        return [
            RouteRow(
                "GET",
                f"{path}/flow",
                self._outline,
                "Return the progress of a flow's run.",
                answer=answer_schemas.OUTLINE,
            ),
            RouteRow(
                "GET",
                f"{path}/steps",
                self._survey_steps,
                "Return the steps of a run that changed after an event.",
                answer=answer_schemas.STEPS,
                queries={"after": schemas.EVENT_NUMBER, "limit": LIMIT},
            ),
            RouteRow(
                "GET",
                f"{path}/approvals",
                self._list_approvals,
                "List calls that wait for an approval.",
                answer=answer_schemas.WAITING_CALLS,
            ),
            RouteRow(
                "POST",
                f"{path}/approvals",
                self._approve,
                "Answer a call that waits for an approval.",
                schemas.APPROVAL,
                answer=answer_schemas.WAITING,
            ),
            RouteRow(
                "POST",
                f"{path}/messages",
                self._send,
                "Send a message to a run.",
                schemas.MESSAGE,
                answer=answer_schemas.RUN,
            ),
            RouteRow(
                "POST",
                f"{path}/stop",
                self._stop,
                "Stop a run.",
                schemas.STOP,
                answer=answer_schemas.RUN,
            ),
            RouteRow(
                "POST",
                f"{path}/detach",
                self._detach,
                "Let a run continue without watchers.",
                answer=answer_schemas.RUN,
            ),
            RouteRow(
                "POST",
                f"{path}/resume",
                self._resume,
                "Resume a run.",
                answer=answer_schemas.RUN,
                needs_host=True,
            ),
            RouteRow(
                "POST",
                f"{path}/fork",
                self._fork,
                "Fork a run.",
                schemas.FORK,
                answer=answer_schemas.RUN,
                status=201,
                needs_host=True,
            ),
        ]

    # --- handlers --------------------------------------------------------------------------------

    async def _start(self, call: HttpCall, subject: str) -> None:
        body, key = await read_json_body(call), call.headers.get("idempotency-key", "")
        with call.cancelling_on_disconnect():
            start = await perform_sized(body, partial(read_start, body))
        summary = await self.runs.start(
            start.spec, start.messages, subject=subject, key=key, conversation=start.conversation
        )
        await call.send_json(summary, 201, {"location": f"/runs/{summary.id}"})

    async def _survey_models(self, call: HttpCall, subject: str) -> None:
        offers = await survey_offers(self.runs.application, self.runs.rules)
        data = [attrs.asdict(each) for each in offers.models]
        body = {"data": data, "default": offers.default, "notices": list(offers.notices)}
        await call.send_json(body)

    async def _survey_ensembles(self, call: HttpCall, subject: str) -> None:
        names = survey_ensembles(self.runs.application, self.runs.rules)
        await call.send_json({"data": [{"name": name} for name in names]})

    async def _survey_skills(self, call: HttpCall, subject: str) -> None:
        offers = await asyncio.to_thread(
            survey_skill_offers, self.runs.application, self.runs.rules
        )
        await call.send_json({"data": [attrs.asdict(each) for each in offers]})

    async def _survey(self, call: HttpCall, subject: str) -> None:
        query = call.query
        states = _read_states(query.get("state"))
        limit, after = read_limit(query.get("limit")), query.get("after", "")
        found = await self.runs.survey(
            states=states,
            after=after,
            limit=limit + 1,
            wanted=read_filter(query),
            subject=subject,
        )
        page = {"data": found[:limit], "has_more": len(found) > limit}
        await call.send_json(page)

    async def _find(self, call: HttpCall, subject: str) -> None:
        summary = await self.runs.find(call.names["id"], subject=subject)
        await call.send_json(summary)

    async def _delete(self, call: HttpCall, subject: str) -> None:
        await self.runs.delete(call.names["id"], subject=subject)
        self._subscriptions.end(call.names["id"])
        await call.send_json({})

    async def _outline(self, call: HttpCall, subject: str) -> None:
        outline = await self.runs.outline(call.names["id"], subject=subject)
        await call.send_json(attrs.asdict(outline))

    async def _survey_steps(self, call: HttpCall, subject: str) -> None:
        query = call.query
        limit, after = read_limit(query.get("limit")), _read_event_number(query.get("after", "0"))
        page = await self.runs.survey_steps(
            call.names["id"], after=after, limit=limit, subject=subject
        )
        await call.send_json(page)

    async def _list_approvals(self, call: HttpCall, subject: str) -> None:
        waiting = await self.runs.survey_approvals(call.names["id"], subject=subject)
        await call.send_json({"data": waiting})

    async def _approve(self, call: HttpCall, subject: str) -> None:
        body = read_table(ApprovalBody, read_json(await read_json_body(call)), "body")
        approval, run_id = body.produce_approval(), call.names["id"]
        waiting_call = await self.runs.approve(run_id, approval, key=body.key, subject=subject)
        await call.send_json(waiting_call)

    async def _send(self, call: HttpCall, subject: str) -> None:
        body = await read_json_body(call)
        with call.cancelling_on_disconnect():
            canister = await perform_sized(body, partial(_read_message, body))
        await self.runs.send(call.names["id"], canister, subject=subject)
        await self._find(call, subject)

    async def _stop(self, call: HttpCall, subject: str) -> None:
        body = read_table(StopBody, read_json(await read_json_body(call)), "body")
        await self.runs.stop(call.names["id"], reason=body.reason, subject=subject)
        await self._find(call, subject)

    async def _detach(self, call: HttpCall, subject: str) -> None:
        await self.runs.detach(call.names["id"], subject=subject)
        await self._find(call, subject)

    async def _resume(self, call: HttpCall, subject: str) -> None:
        await self.runs.resume(call.names["id"], subject=subject)
        await self._find(call, subject)

    async def _fork(self, call: HttpCall, subject: str) -> None:
        body = read_table(Fork, read_json(await read_json_body(call)), "body")
        summary = await self.runs.fork(
            call.names["id"], **attrs.asdict(body, recurse=False), subject=subject
        )
        await call.send_json(summary, 201, {"location": f"/runs/{summary.id}"})

    async def _watch(self, call: HttpCall, subject: str) -> None:
        run_id, query = call.names["id"], call.query
        follows = query.get("follow", "true")
        if follows not in _BOOLEANS:
            raise refuse("follow", f"Invalid value. Use one of {', '.join(_BOOLEANS)}.")
        last = await self.runs.count_events(run_id, subject=subject)
        known = call.headers.get("last-event-id", query.get("after", ""))
        after = read_number(known, last)
        ends = follows == "false"
        with self._streams.hold(call):
            await call.read_body()
            call.watch_client()
            await call.begin(200, STREAM_HEADERS)
            if call.method != "HEAD":
                frames = follow(self._subscriptions, run_id, after, last, ends=ends)
                async with aclosing(frames):
                    async for data in frames:
                        await call.send(data)
                        del data  # otherwise it stays in memory until there is more
            await call.finish()


def _read_event_number(value: str) -> int:
    """Read the number of an event. Raises RequestError."""
    if value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    raise refuse("after", "The value must be the number of an event.")


def _read_message(body: bytes) -> AnyCanister:
    return read_message(read_json(body), "body")


def _read_states(value: str | None) -> list[RunState]:
    """Read the requested states, separated by commas; all by default. Raises RequestError."""
    requested = {*STATES} if value is None else {*value.split(",")}
    if requested - {*STATES}:
        raise refuse(
            "state",
            f"Invalid state. Use one of {', '.join(STATES)}, or several, separated by commas.",
        )
    return [state for state in STATES if state in requested]
