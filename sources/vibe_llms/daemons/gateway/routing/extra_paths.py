"""Further paths of an upstream, passed through if a table allows it.

Examples are embeddings, images, speech and files. Only the model's name is read, and the usage if
the answer reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from vibe_llms.daemons.asgi import JSON, HttpCall, refuse_body
from vibe_llms.daemons.bodies import read_json_body
from vibe_llms.daemons.gateway.accounting import account
from vibe_llms.daemons.gateway.basic_stages import authenticate, fall_back
from vibe_llms.daemons.gateway.calls import GatewayCall, handle
from vibe_llms.daemons.gateway.client_requests import (
    ClientRequest,
    Face,
    find_model_in_form,
    read_client_request,
    rename_model,
    rename_model_in_form,
)
from vibe_llms.daemons.gateway.gateway import Gateway, ensure_admitted
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.gateway.routing.targets import Target, TargetPlan, order_targets
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import chat_completions
from vibe_llms.exceptions import UnknownNameError
from vibe_llms.providers.remote_models import RemoteModel

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.routing.router import ModelRoute, TableRouter

MODEL_HEADER: Final = "x-vibe-model"
"""Names the model of requests that name none themselves, such as those for files."""

_METHODS: Final = ("POST", "GET", "DELETE")

FACE: Final = Face(
    name="path",
    dialect=chat_completions,
    forwarded_headers=("openai-", "anthropic-", "idempotency-key"),
    is_path=True,
)
"""Most of these paths belong to OpenAI's protocols, so errors are written in their format."""

_DEPLOYMENTS: Final = "/openai/deployments/"


def produce_routes(
    gateway: Gateway, access_router: Callable[[], TableRouter], patterns: Iterable[str]
) -> list[Route]:
    """Return the routes of all paths that a table allows, and their Azure spellings."""
    produce = partial(Route, write_error=FACE.write_error, body_types=(JSON, "multipart/form-data"))
    routes = []
    for pattern in patterns:
        route = partial(_route, access_router=access_router, pattern=pattern)
        stages = (authenticate, _read_request, route, fall_back, account, pass_through)
        handler = handle(gateway, FACE, stages)
        routes += [produce(method=each, pattern=pattern, handler=handler) for each in _METHODS]
        if pattern.startswith("/v1/") and "{" not in pattern:
            deployed = f"/openai/deployments/{{model:path}}{pattern.removeprefix('/v1')}"
            routes.append(produce(method="POST", pattern=deployed, handler=handler))
    return routes


async def _read_request(call: GatewayCall) -> None:
    """Read the model's name, and nothing else of the body."""
    http = call.http
    is_form = http.headers.get("content-type", "").startswith("multipart/")
    body = await (http.read_body() if is_form else read_json_body(http))
    http.watch_client()
    if {".", ".."} & set(http.path.split("/")):  # it would reach other paths with our key
        raise refuse_body("A path must not contain '.' or '..'.")
    call.request = _read(http, body)
    await call.proceed()


async def _route(
    call: GatewayCall, *, access_router: Callable[[], TableRouter], pattern: str
) -> None:
    """Find the targets that allow the path."""
    router, http = access_router(), call.http
    request, path = call.request, http.path
    if (model := http.names.get("model", "")) and path.startswith(_DEPLOYMENTS):
        request, path = _read_deployment(request, model), pattern
    route = _find_route(router.routes, request.model, pattern)
    call.record.model = route.name
    ensure_admitted(call.grant, route.name)
    call.request = replace(
        request, model=route.name, method=http.method, find_path=partial(_find_path, path)
    )
    if request.rename is rename_model:
        ordered = order_targets(route.groups, router.draw)
    else:  # such as for files, which one vendor stores: always the same target
        ordered = [target for group in route.groups for target in group]
    targets = [target for target in ordered if _allows(target, pattern)]
    if request.rename is not rename_model:
        targets = targets[:1]
    call.plan = TargetPlan(targets=targets, clock=router.clock)
    await call.proceed()


def _read(http: HttpCall, body: bytes) -> ClientRequest:
    """Find the model's name in the body, the form or a header."""
    header_model = http.headers.get(MODEL_HEADER, "")
    if http.headers.get("content-type", "").startswith("multipart/"):
        name = find_model_in_form(body) or header_model
        return ClientRequest(body=body, model=name, streaming=False, rename=rename_model_in_form)
    if not body:
        return ClientRequest(body=body, model=header_model, streaming=False, rename=None)
    request = read_client_request(FACE, body)
    if request.model:
        return request
    return replace(request, model=header_model, rename=None)


def _read_deployment(request: ClientRequest, model: str) -> ClientRequest:
    """Return the request for the model in the path, which overrides the model in the body."""
    if request.model == model or request.rename is rename_model_in_form or not request.body:
        return replace(request, model=model)
    body = rename_model(request.body, model)
    return replace(request, model=model, body=body, rename=rename_model)


def _find_path(path: str, model: RemoteModel) -> str:
    """Return the path without a prefix that the base URL ends with, such as ``/v1``."""
    base, path = urlsplit(model.client.vendor.settings.base_url).path.rstrip("/"), quote(path)
    return path.removeprefix(base) if base and path.startswith(f"{base}/") else path


def _allows(target: Target, pattern: str) -> bool:
    return pattern in target.configured.passthrough


def _find_route(routes: Mapping[str, ModelRoute], name: str, pattern: str) -> ModelRoute:
    """Return the route of a model. Raises ConverseError if it is unknown or ambiguous."""
    candidates = {
        route.name: route
        for route in routes.values()
        if any(_allows(target, pattern) for group in route.groups for target in group)
    }
    if name in candidates:
        return candidates[name]
    if name or not candidates:
        raise UnknownNameError(kind="model", name=name, known=tuple(candidates))
    if len(candidates) > 1:
        raise refuse_body(f"Name the model in the header {MODEL_HEADER}.", "model")
    return next(iter(candidates.values()))
