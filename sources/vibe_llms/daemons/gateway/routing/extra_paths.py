"""Other paths of an upstream, carried as they are where a table allows it.

Such as embeddings, images, speech and files: nothing of them is read but which model they name, and
what they have used where the answer says it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

import attrs

from vibe_llms.daemons.asgi import JSON, HttpCall, refuse_body
from vibe_llms.daemons.bodies import read_json_body
from vibe_llms.daemons.gateway.client_requests import (
    ClientRequest,
    Face,
    read_client_request,
    rename_model,
)
from vibe_llms.daemons.gateway.gateway import Gateway, ensure_admitted
from vibe_llms.daemons.gateway.routing.fallback import FallbackChain
from vibe_llms.daemons.gateway.routing.targets import Target, plan
from vibe_llms.daemons.gateway.upstreams import Upstream
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import chat_completions
from vibe_llms.exceptions import RequestError, Stage, UnknownNameError
from vibe_llms.providers.remote_models import RemoteModel

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.routing.router import ModelRoute, TableRouter

MODEL_HEADER: Final = "x-vibe-model"
"""Says which model's upstream is meant where the request itself names none, as with files."""

_METHODS: Final = ("POST", "GET", "DELETE")

FACE: Final = Face(
    name="path",
    dialect=chat_completions,
    passed=("openai-", "anthropic-", "idempotency-key"),
    is_path=True,
)
"""Most of what is carried so is of OpenAI's family, in whose words our own errors are told."""

_DEPLOYMENTS: Final = "/openai/deployments/"

_FORM_MODEL: Final = re.compile(rb'(name="model"\r\n(?:[^\r]+\r\n)*\r\n)([^\r]*)(?=\r\n)')


def produce_routes(
    gateway: Gateway, access_router: Callable[[], TableRouter], patterns: Iterable[str]
) -> list[Route]:
    """Returns what answers the paths that some table allows, also where Azure's clients look."""
    produce = partial(Route, write_error=FACE.write_error, body_types=(JSON, "multipart/form-data"))
    routes = []
    for pattern in patterns:
        handler = partial(_answer, gateway, access_router, pattern)
        routes += [produce(method=each, pattern=pattern, handler=handler) for each in _METHODS]
        if pattern.startswith("/v1/") and "{" not in pattern:
            deployed = f"/openai/deployments/{{model:path}}{pattern.removeprefix('/v1')}"
            routes.append(produce(method="POST", pattern=deployed, handler=handler))
    return routes


async def _answer(
    gateway: Gateway,
    access_router: Callable[[], TableRouter],
    pattern: str,
    call: HttpCall,
    record: CallRecord,
) -> None:
    record.face = FACE.name
    grant = await gateway.authorize(call, record)
    is_form = call.headers.get("content-type", "").startswith("multipart/")
    body = await (call.read_body() if is_form else read_json_body(call))
    call.watch_client()
    if {".", ".."} & set(call.path.split("/")):  # it would lead elsewhere, with our key
        raise refuse_body("A path must not lead upwards.")
    router = access_router()
    asked, path = _read(call, body), call.path
    if (model := call.names.get("model", "")) and path.startswith(_DEPLOYMENTS):
        asked, path = _read_deployment(asked, model), pattern
    route = _find_route(router.routes, asked.model, pattern)
    record.model = route.name
    ensure_admitted(grant, route.name)
    asked = attrs.evolve(
        asked, model=route.name, method=call.method, find_path=partial(_find_path, path)
    )
    targets = [each for each in plan(route.groups, router.draw) if _allows(each, pattern)]
    if asked.rename is not rename_model:  # what is kept somewhere is there, and nowhere else
        targets = [each for group in route.groups for each in group if _allows(each, pattern)][:1]
    walk = FallbackChain(
        gateway=gateway,
        call=call,
        record=record,
        face=FACE,
        asked=asked,
        grant=grant,
        clock=router.clock,
        seals=None,
        check=_ensure_paths,
    )
    await walk.run(targets)


def _read(call: HttpCall, body: bytes) -> ClientRequest:
    """Reads which model a request names, in whatever way."""
    named = call.headers.get(MODEL_HEADER, "")
    if call.headers.get("content-type", "").startswith("multipart/"):
        found = _FORM_MODEL.search(body)
        name = found[2].decode("utf-8", "replace") if found else named
        return ClientRequest(body=body, model=name, streaming=False, rename=_rename_in_form)
    if not body:
        return ClientRequest(body=body, model=named, streaming=False, rename=None)
    asked = read_client_request(FACE, body)
    if asked.model:
        return asked
    return attrs.evolve(asked, model=named, rename=None)


def _read_deployment(asked: ClientRequest, model: str) -> ClientRequest:
    """Returns a request for a model of which its path says who it is, whatever the body says."""
    if asked.model == model or asked.rename is _rename_in_form or not asked.body:
        return attrs.evolve(asked, model=model)
    return attrs.evolve(
        asked, model=model, body=rename_model(asked.body, model), rename=rename_model
    )


def _rename_in_form(body: bytes, model: str) -> bytes:
    return _FORM_MODEL.sub(lambda found: found[1] + model.encode(), body, count=1)


def _find_path(path: str, model: RemoteModel) -> str:
    """Returns a path without what stands at the end of the base URL already, such as ``/v1``."""
    base, path = urlsplit(model.client.vendor.settings.base_url).path.rstrip("/"), quote(path)
    return path.removeprefix(base) if base and path.startswith(f"{base}/") else path


def _allows(target: Target, pattern: str) -> bool:
    return pattern in target.placement.passthrough


def _find_route(routes: Mapping[str, ModelRoute], name: str, pattern: str) -> ModelRoute:
    """Returns the model that is meant. Raises ConverseError where none is, or more than one."""
    carrying = {
        route.name: route
        for route in routes.values()
        if any(_allows(target, pattern) for group in route.groups for target in group)
    }
    if name in carrying:
        return carrying[name]
    if name or not carrying:
        raise UnknownNameError(kind="model", name=name, known=tuple(carrying))
    if len(carrying) > 1:
        raise refuse_body(f"Say which model is meant, by the header {MODEL_HEADER}.", "model")
    return next(iter(carrying.values()))


def _ensure_paths(upstream: Upstream) -> None:
    if not isinstance(upstream.model, RemoteModel):
        raise RequestError(
            detail="This model is asked in a way that has no paths.",
            remedy="Take the path out of passthrough in its table.",
            stage=Stage.SEND,
        )
