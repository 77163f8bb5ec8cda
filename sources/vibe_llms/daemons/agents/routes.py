"""What the daemon answers: each path of runs, by :class:`.agents.interfaces.Runs`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Final, TypeAlias

import attrs

from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.orders import read_order
from vibe_llms.daemons.agents.bodies import Answer, Fork, Said, read_json, read_said, write_error
from vibe_llms.daemons.agents.feeds import Feeds
from vibe_llms.daemons.agents.streams import follow, read_number
from vibe_llms.daemons.arrivals import authorize, ensure_place
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.openapi import Operation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import Route, encode
from vibe_llms.exceptions import LimitError, RequestError, Stage
from vibe_llms.plain import JsonObject
from vibe_llms.plugins.specification.daemons import Authorizer
from vibe_llms.runs.surveying import STATES
from vibe_llms.tables.reading import read_table

FACE: Final = "runs"
_TAG: Final = "runs"
_PAGE: Final = 50
_MOST: Final = 500
_TEXT: Final[JsonObject] = {"type": "string"}

_Perform: TypeAlias = Callable[[HttpCall, str], Awaitable[None]]


class Desk:
    """Answers requests about runs.

    Args:
        runs: Where they are.
        feeds: Read the logs of those that are watched.
        authorizer: Says who may ask; by default everybody may.
        watchers: How many event streams there may be at once.
        hosts: By which names it is reached; ``None`` for any.
    """

    def __init__(
        self,
        runs: LocalRuns,
        feeds: Feeds,
        *,
        authorizer: Authorizer | None,
        watchers: int,
        hosts: Collection[str] | None = None,
    ) -> None:
        self.runs = runs
        self._feeds = feeds
        self._authorizer = authorizer
        self._most_watchers = watchers
        self._hosts = hosts
        self._standing: dict[asyncio.Task[object], HttpCall] = {}

    def produce_routes(self) -> list[Route]:
        """Produces the routes of a service."""
        body: JsonObject = {"type": "object"}
        table: list[tuple[str, str, _Perform, str, JsonObject | None]] = [
            ("POST", "/runs", self._start, "Asks for a run.", body),
            ("GET", "/runs", self._survey, "Lists runs, what has happened last first.", None),
            ("GET", "/runs/{id}", self._find, "Tells where a run stands.", None),
            ("DELETE", "/runs/{id}", self._delete, "Removes a run.", None),
            ("GET", "/runs/{id}/events", self._watch, "Tells what happens in a run.", None),
            ("GET", "/runs/{id}/approvals", self._list_approvals, "Lists what waits.", None),
            ("POST", "/runs/{id}/approvals", self._approve, "Answers what waits.", body),
            ("POST", "/runs/{id}/messages", self._send, "Says something to a run.", body),
            ("POST", "/runs/{id}/stop", self._stop, "Ends a run where it is.", body),
            ("POST", "/runs/{id}/resume", self._resume, "Lets a run go on.", None),
            ("POST", "/runs/{id}/fork", self._fork, "Begins a run with what was said.", body),
        ]
        return [
            Route(
                method=method,
                pattern=pattern,
                handler=self._guard(perform),
                write_error=write_error,
                is_admitted=perform != self._watch,  # streams have a bound of their own
                operation=Operation(
                    summary=summary,
                    tag=_TAG,
                    body=said,
                    needs_body=False,
                    queries=_describe_queries(perform.__name__),
                    needs_key=self._authorizer is not None,
                ),
            )
            for method, pattern, perform, summary, said in table
        ]

    def drain(self) -> None:
        """Ends all event streams: they would go on for as long as their clients stay."""
        for task, call in tuple(self._standing.items()):
            call.leave(task)

    def _guard(self, perform: _Perform) -> Callable[[HttpCall, CallRecord], Awaitable[None]]:
        async def answer(call: HttpCall, record: CallRecord) -> None:
            record.face = FACE
            ensure_place(call, self._hosts)
            grant = await authorize(self._authorizer, call, record)
            await perform(call, "" if grant is None else grant.subject)

        return answer

    # --- each path -------------------------------------------------------------------------------

    async def _start(self, call: HttpCall, subject: str) -> None:
        body = dict(read_json(await call.read_body()))
        said = read_said(body.pop("input", None))
        key = call.headers.get("idempotency-key", "")
        summary = await self.runs.start(read_order(body), said, subject=subject, key=key)
        await call.answer(201, encode(summary), {"location": f"/runs/{summary.id}"})

    async def _survey(self, call: HttpCall, subject: str) -> None:
        query = call.query
        states = [each for each in STATES if each == query.get("state", each)]
        if not states:
            raise _refuse("state", f"A state is one of {', '.join(STATES)}.")
        limit, behind = _read_limit(query.get("limit", "")), query.get("after", "")
        found = await self.runs.survey(
            states=states, after=behind, limit=limit + 1, subject=subject
        )
        page = {"data": found[:limit], "has_more": len(found) > limit}
        await call.answer(200, encode(page), {})

    async def _find(self, call: HttpCall, subject: str) -> None:
        summary = await self.runs.find(call.names["id"], subject=subject)
        await call.answer(200, encode(summary), {})

    async def _delete(self, call: HttpCall, subject: str) -> None:
        await self.runs.delete(call.names["id"], subject=subject)
        await call.answer(200, b"{}", {})

    async def _list_approvals(self, call: HttpCall, subject: str) -> None:
        waiting = await self.runs.survey_approvals(call.names["id"], subject=subject)
        await call.answer(200, encode({"data": waiting}), {})

    async def _approve(self, call: HttpCall, subject: str) -> None:
        said = read_table(Answer, read_json(await call.read_body()), "body")
        approval, run_id = said.produce_approval(), call.names["id"]
        answered = await self.runs.approve(run_id, approval, key=said.key, subject=subject)
        await call.answer(200, encode(answered), {})

    async def _send(self, call: HttpCall, subject: str) -> None:
        said = read_table(Said, read_json(await call.read_body()), "body")
        await self.runs.send(call.names["id"], said.produce_canister(), subject=subject)
        await self._find(call, subject)

    async def _stop(self, call: HttpCall, subject: str) -> None:
        reason = read_json(await call.read_body()).get("reason", "")
        if not isinstance(reason, str):
            raise _refuse("reason", "The reason is a text.")
        await self.runs.stop(call.names["id"], reason=reason, subject=subject)
        await self._find(call, subject)

    async def _resume(self, call: HttpCall, subject: str) -> None:
        await self.runs.resume(call.names["id"], subject=subject)
        await self._find(call, subject)

    async def _fork(self, call: HttpCall, subject: str) -> None:
        said = read_table(Fork, read_json(await call.read_body()), "body")
        summary = await self.runs.fork(
            call.names["id"], **attrs.asdict(said, recurse=False), subject=subject
        )
        await call.answer(201, encode(summary), {"location": f"/runs/{summary.id}"})

    async def _watch(self, call: HttpCall, subject: str) -> None:
        run_id, query = call.names["id"], call.query
        last = await self.runs.count_events(run_id, subject=subject)
        given = call.headers.get("last-event-id", query.get("after", ""))
        after = read_number(given, last)
        if len(self._standing) >= self._most_watchers:
            raise LimitError(
                detail=f"{self._most_watchers} event streams are open here.",
                remedy="Close one, or try again later.",
                limit="watchers",
                value=self._most_watchers,
                stage=Stage.EXECUTE,
            )
        ends, task = query.get("follow", "true") == "false", asyncio.current_task()
        assert task is not None
        self._standing[task] = call
        try:
            await call.read_body()
            call.watch_client()
            await call.begin(
                200, {"content-type": "text/event-stream", "cache-control": "no-cache"}
            )
            if call.method != "HEAD":
                frames = follow(self._feeds, run_id, after, last, ends=ends)
                async with aclosing(frames):
                    async for data in frames:
                        await call.send(data)
            await call.finish()
        finally:
            del self._standing[task]


def _describe_queries(name: str) -> Mapping[str, JsonObject]:
    queries: Mapping[str, Mapping[str, JsonObject]] = {
        "_survey": {
            "state": {"enum": [*STATES]},
            "limit": {"type": "integer", "minimum": 1, "maximum": _MOST},
            "after": _TEXT,
        },
        "_watch": {"after": _TEXT, "follow": {"enum": ["true", "false"]}},
    }
    return queries.get(name, {})


def _read_limit(given: str) -> int:
    if not given:
        return _PAGE
    if given.isascii() and given.isdigit() and len(given) < 5 and 1 <= int(given) <= _MOST:
        return int(given)
    raise _refuse("limit", f"A page has from 1 to {_MOST} runs.")


def _refuse(path: str, detail: str) -> RequestError:
    return RequestError(path=path, detail=detail, stage=Stage.FRAME)
