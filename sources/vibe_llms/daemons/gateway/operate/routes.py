"""Routes below ``/operate``, for clients with an operator's key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.daemons.arrivals import ensure_page
from vibe_llms.daemons.asgi import HttpCall, read_credential
from vibe_llms.daemons.bodies import read_json_body
from vibe_llms.daemons.class_schemas import describe_class
from vibe_llms.daemons.gateway.operate.entries import RequestEntry
from vibe_llms.daemons.gateway.operate.key_bodies import (
    KEY_LIMITS,
    NEW_KEY,
    read_limits,
    read_new_key,
    refuse,
)
from vibe_llms.daemons.gateway.operate.routing import RoutedModel, compose_models
from vibe_llms.daemons.gateway.operate.spending import (
    MOST_DAYS,
    SpendingReport,
    compose_spending,
    list_days,
    sum_by_key,
)
from vibe_llms.daemons.gateway.operate.traffic import Traffic, compose_requests, compose_traffic
from vibe_llms.daemons.gateway.operate.worker_states import WorkerStates
from vibe_llms.daemons.keys.administration import KeyAdministration
from vibe_llms.daemons.keys.descriptions import KeyDescription
from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route, write_plain_error
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.gateway import Gateway
    from vibe_llms.daemons.keys.ledger import KeyAccount

FACE: Final = "operate"
_DEFAULT_DAYS: Final = 30
_DAYS: Final[JsonObject] = {"type": "integer", "minimum": 1, "maximum": MOST_DAYS}

_Perform = Callable[[HttpCall], Awaitable[object]]


@frozen(kw_only=True)
class OperatedKey(KeyDescription):
    """A key with its spending.

    Attributes:
        today_cents: Cents of today (UTC), an exact decimal.
        today_perhaps_cents: Further cents of today that vendors may have billed.
    """

    today_cents: str
    today_perhaps_cents: str


def _list(title: str, kind: type, **more: JsonObject) -> JsonObject:
    return {
        "title": title,
        "type": "object",
        "required": ["data", *more],
        "properties": {"data": {"type": "array", "items": describe_class(kind)}, **more},
    }


_KEY: Final = describe_class(KeyDescription, "OperatedKey")
_NEW_KEY_ANSWER: Final[JsonObject] = {
    "title": "CreatedKey",
    "type": "object",
    "required": ["key", "description"],
    "properties": {"key": {"type": "string"}, "description": describe_class(KeyDescription)},
}


class OperateRoutes:
    """Routes that show traffic and routing, and administer keys.

    Args:
        gateway: Authorizes operators, and has the routing tables.
        workers: States of the worker processes.
        administration: Administration of the keys; ``None`` if the authorizer's keys cannot be
            administered here.
        hosts: Other sites whose pages may send requests.
        read_time: Returns seconds since 1970.
    """

    def __init__(
        self,
        gateway: Gateway,
        workers: WorkerStates,
        administration: KeyAdministration | None,
        hosts: Collection[str] | None,
        read_time: Callable[[], float],
    ) -> None:
        self._gateway, self._workers = gateway, workers
        self._administration = administration
        self._hosts = hosts
        self._read_time = read_time

    def produce_routes(self) -> list[Route]:
        """Return the routes; those about keys only if these can be administered."""
        routes = [
            self._produce(
                "GET",
                "/operate/traffic",
                self._show_traffic,
                "Return rates, latencies and errors of the last hour.",
                answer=describe_class(Traffic, "Traffic"),
            ),
            self._produce(
                "GET",
                "/operate/requests",
                self._list_requests,
                "List the last hundred requests.",
                answer=_list("OperatedRequests", RequestEntry),
            ),
            self._produce(
                "GET",
                "/operate/models",
                self._list_models,
                "List the targets of each model, with their circuits.",
                answer=_list("OperatedModels", RoutedModel),
            ),
        ]
        if (administration := self._administration) is not None:
            routes += KeyRoutes(administration, self._produce).produce_routes()
        return routes

    def _produce(
        self,
        method: str,
        pattern: str,
        perform: _Perform,
        summary: str,
        *,
        answer: JsonObject,
        body: JsonObject | None = None,
        queries: Mapping[str, JsonObject] = {},  # it is not changed
        status: int = 200,
    ) -> Route:
        async def respond(call: HttpCall, record: CallRecord) -> None:
            await self._admit(call, record)
            # A key or a name must not stay in a cache.
            headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
            await call.send_json(await perform(call), status, headers)

        return Route(
            method=method,
            pattern=pattern,
            handler=respond,
            write_error=write_plain_error,
            is_admitted=False,
            operation=ApiOperation(
                summary=summary,
                tag=FACE,
                body=body,
                queries=queries,
                answers={"application/json": answer},
                status=status,
                needs_key=True,
            ),
        )

    async def _admit(self, call: HttpCall, record: CallRecord) -> None:
        """Admit an operator. Raises AccessError.

        The key must be in a header, which no page of another site can set: a key in the address
        would be in histories and logs.
        """
        record.face = FACE
        ensure_page(call, self._hosts)
        if not read_credential(call.headers, {}) and not call.certificate:
            raise AccessError(
                fault=ProviderFault.AUTHENTICATION,
                detail="The operator's key is missing.",
                remedy="Send it in the header Authorization: Bearer KEY.",
            )
        grant = await self._gateway.authorize(call, record)
        if not getattr(grant, "is_operator", False):
            raise AccessError(
                fault=ProviderFault.PERMISSION,
                subject=record.subject,
                detail=f"The key {record.subject!r} may not operate this gateway.",
                remedy="Use an operator's key: vibe keys add NAME --operator.",
            )

    async def _show_traffic(self, call: HttpCall) -> Traffic:
        states = await self._workers.survey()
        return await asyncio.to_thread(compose_traffic, states, self._read_time())

    async def _list_requests(self, call: HttpCall) -> dict[str, object]:
        return {"data": compose_requests(await self._workers.survey())}

    async def _list_models(self, call: HttpCall) -> dict[str, object]:
        return {"data": compose_models(self._gateway.router, await self._workers.survey())}


class KeyRoutes:
    """Routes about keys and their spending.

    Args:
        administration: Administration of the keys.
        produce: Returns a route, with the arguments of ``OperateRoutes._produce``.
    """

    def __init__(self, administration: KeyAdministration, produce: Callable[..., Route]) -> None:
        self._administration = administration
        self._produce = produce

    def produce_routes(self) -> list[Route]:
        """Return the routes."""
        path, produce = "/operate/keys", self._produce
        return [
            produce(
                "GET",
                "/operate/spending",
                self._show_spending,
                "Return the spending of the last days, by key, model and day.",
                answer=describe_class(SpendingReport, "SpendingReport"),
                queries={"days": _DAYS, "key": {"type": "string"}},
            ),
            produce(
                "GET",
                path,
                self._list_keys,
                "List the keys, with their limits and the spending of today.",
                answer=_list("OperatedKeys", OperatedKey),
            ),
            produce(
                "POST",
                path,
                self._add_key,
                "Create a key; only this answer contains it.",
                body=NEW_KEY,
                answer=_NEW_KEY_ANSWER,
                status=201,
            ),
            produce(
                "PATCH",
                f"{path}/{{id}}",
                self._limit_key,
                "Change limits of a key; null removes a limit.",
                body=KEY_LIMITS,
                answer=_KEY,
            ),
            produce(
                "POST",
                f"{path}/{{id}}/revoke",
                self._revoke_key,
                "Revoke a key; its next request is refused.",
                answer=_KEY,
            ),
        ]

    @property
    def _today(self) -> date:
        return self._administration.read_now().date()

    async def _show_spending(self, call: HttpCall) -> SpendingReport:
        query = call.query
        days = list_days(self._today, _read_days(query.get("days")))
        account = await self._administration.survey_spending(days[0])
        keys = await self._administration.survey_keys()
        names = {key.id: key.name for key in keys}
        # In a thread: many keys and days take seconds.
        return await asyncio.to_thread(compose_spending, account, days, names, query.get("key", ""))

    async def _list_keys(self, call: HttpCall) -> dict[str, object]:
        keys = await self._administration.survey_keys()
        account = await self._administration.survey_spending(self._today.isoformat())
        return {"data": await asyncio.to_thread(_compose_keys, keys, account)}

    async def _add_key(self, call: HttpCall) -> dict[str, object]:
        name, limits = read_new_key(await read_json_body(call), self._administration.read_now())
        text, description = await self._administration.add(name, limits)
        return {"key": text, "description": description}

    async def _limit_key(self, call: HttpCall) -> KeyDescription:
        limits = read_limits(await read_json_body(call), self._administration.read_now())
        return await self._administration.limit(await self._find(call), limits)

    async def _revoke_key(self, call: HttpCall) -> KeyDescription:
        return await self._administration.revoke(await self._find(call))

    async def _find(self, call: HttpCall) -> str:
        """Return the public part of the key in the path. Raises UnknownNameError."""
        await self._administration.ensure(call.names["id"])
        return call.names["id"]


def _compose_keys(keys: Iterable[KeyDescription], account: KeyAccount) -> list[dict[str, Any]]:
    sums = sum_by_key(account)
    rows = []
    for key in keys:
        cents, perhaps = sums.get(key.id, (0, 0))
        spent = {"today_cents": f"{cents:f}", "today_perhaps_cents": f"{perhaps:f}"}
        rows.append({**attrs.asdict(key, recurse=False), **spent})
    return rows


def _read_days(text: str | None) -> int:
    if text is None:
        return _DEFAULT_DAYS
    if text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= MOST_DAYS:
        return int(text)
    raise refuse("days", f"It must be a number from 1 to {MOST_DAYS}.")
