"""Build the gateway's ASGI application from a configuration."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.application import Application
from vibe_llms.daemons.admission import ServiceLimits
from vibe_llms.daemons.arrivals import admits_page
from vibe_llms.daemons.gateway import realtime
from vibe_llms.daemons.gateway.api_description import describe_routes
from vibe_llms.daemons.gateway.batches.files import FileStorage
from vibe_llms.daemons.gateway.batches.running import GatewayBatchRunner
from vibe_llms.daemons.gateway.batches.storage import GatewayBatchStorage
from vibe_llms.daemons.gateway.batches.vendor_following import GatewayVendors
from vibe_llms.daemons.gateway.faces import (
    batches,
    bedrock,
    calls,
    chat_completions,
    completions,
    converse,
    generate_content,
    interactions,
    media,
    messages,
    models,
    ollama,
    responses,
)
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.path_aliases import survey_aliases
from vibe_llms.daemons.gateway.realtime import RealtimeSockets
from vibe_llms.daemons.gateway.request_limits import GatewayLimits
from vibe_llms.daemons.gateway.responses.sockets import ResponseSockets
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage, StorageLimits
from vibe_llms.daemons.gateway.tables import Tables
from vibe_llms.daemons.gateway.upstreams import Upstreams
from vibe_llms.daemons.health import add_health
from vibe_llms.daemons.page_files import PAGE_PATH
from vibe_llms.daemons.records import Listener
from vibe_llms.daemons.server.asgi_types import Receive, Scope, Send
from vibe_llms.daemons.service import Service
from vibe_llms.exceptions import ConfigurationError, DependencyError, Finding
from vibe_llms.plugins.specification.daemons import Authorizer
from vibe_llms.providers.incremental_translation import MEMORY_BUDGET

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.operate.operator_page import OperatorPage
    from vibe_llms.daemons.tracing import Tracing

_LOGGER: Final = logging.getLogger("vibe_llms.daemons")

_FACES = (
    chat_completions,
    completions,
    responses,
    messages,
    generate_content,
    interactions,
    ollama,
    bedrock,
    converse,
    models,
    calls,
    media,
    batches,
)


def produce_service(
    application: Application,
    *,
    limits: ServiceLimits | None = None,
    authorizer: Authorizer | None = None,
    listeners: Sequence[Listener] = (),
    file: Path | None = None,
    needs_models: bool = False,
    storage_limits: StorageLimits | None = None,
    tracing: Tracing | None = None,
    keeps_contents: bool = False,
    hosts: Collection[str] | None = None,
    has_page: bool = False,
    workers_folder: Path | None = None,
) -> Service:
    """Build the gateway as an ASGI application, for ``vibe serve`` or another host.

    Args:
        application: Has the providers; is restricted by this call (:meth:`.Application.restrict`).
            Its limits apply to answers. Set its attempts to 1, so that only tables cause retries.
        limits: Limits on requests.
        authorizer: Authenticates clients; by default all are accepted.
        listeners: Called with the record of each completed request.
        file: The gateway's TOML file with the tables of models; :meth:`.Service.reload` reads them
            again. Other settings in the file apply unless an argument overrides them.
        needs_models: Refuse a file without models, as after a reload.
        storage_limits: Limits on stored responses and conversations.
        tracing: Creates spans; by default, as configured.
        keeps_contents: Add request and response bodies to records; ``log_contents`` in the file has
            the same effect. Without effect if guards are configured.
        hosts: Accepted host names without an authorizer; ``None`` for any. Pages of these
            hosts may read responses, with or without an authorizer.
        has_page: Serve the operator's page, and the routes below ``/operate``.
        workers_folder: Folder in which several worker processes exchange the data of the page; by
            default, the page shows this process.

    Raises:
        ConfigurationError: The file has mistakes; the error lists every mistake. Or the page would
            be open to all clients, because no authorizer is configured.
    """
    application.restrict()
    has_guards = bool(application.guards)  # reports mistakes before the first request
    tracing = tracing or _produce_tracing(application)
    storage = _produce_storage(application, storage_limits, knows_subjects=authorizer is not None)
    gateway = _produce_gateway(application, storage, tracing, authorizer=authorizer, hosts=hosts)
    operator_page = _produce_operator_page(gateway, hosts, workers_folder) if has_page else None
    tables = None
    if file is not None:
        tables = Tables(file, application, gateway, needs_models=needs_models)
        limits = limits or tables.settings.limits
        storage.storage_limits = storage_limits or tables.settings.responses
        keeps_contents = keeps_contents or tables.settings.log_contents
    if keeps_contents and has_guards:
        _LOGGER.warning("Bodies are not logged, as they may have what the guards replace")
        keeps_contents = False
    if isinstance(limits, GatewayLimits):
        gateway.request_limits = limits
    service = _produce_service(
        gateway,
        operator_page,
        limits=limits,
        listeners=listeners,
        on_reload=None if tables is None else tables.reload,
        tracing=tracing,
        keeps_contents=keeps_contents,
        admits_page=partial(admits_page, hosts=hosts),
    )
    if tables is not None:
        tables.serve(service)
    _connect_background_work(service, gateway, storage)
    return service


def _produce_gateway(
    application: Application,
    storage: ResponseStorage,
    tracing: Tracing | None,
    *,
    authorizer: Authorizer | None,
    hosts: Collection[str] | None,
) -> Gateway:
    return Gateway(
        Upstreams(application),
        limits=application.configuration.limits,
        authorizer=authorizer,
        storage=storage,
        batches=_produce_batches(application),
        reactors=None if tracing is None else tracing.reactors,
        call_listeners=() if tracing is None else tracing.call_listeners,
        hosts=hosts,
    )


def _connect_background_work(service: Service, gateway: Gateway, storage: ResponseStorage) -> None:
    """Let responses in the background and batches send their requests through the service."""
    storage.background.service = service
    if gateway.batches is not None:
        gateway.batches.service = service
        gateway.batches.vendors = GatewayVendors(gateway, service.report)
        gateway.batches.days = storage.storage_limits.days


def _produce_operator_page(
    gateway: Gateway, hosts: Collection[str] | None, folder: Path | None
) -> OperatorPage:
    if gateway.authorizer is None:
        finding = Finding(
            place="page", message="The page needs an operator's key, and authorizer is not set."
        )
        raise ConfigurationError(findings=(finding,), remedy='Set authorizer = "keys".')
    # Imported late, as few gateways have a page.
    from vibe_llms.daemons.gateway.operate.operator_page import OperatorPage

    return OperatorPage(gateway, hosts, folder=folder)


def _produce_service(
    gateway: Gateway, operator_page: OperatorPage | None, **options: Any
) -> Service:
    """Build the service with the routes, sockets and metrics of a gateway.

    Args:
        options: Further arguments of :class:`.Service`.
    """
    routes = [route for face in _FACES for route in face.produce_routes(gateway)]
    routes = describe_routes(routes, needs_key=gateway.needs_key)
    if operator_page is not None:
        routes += operator_page.produce_routes()
        options["listeners"] = (*options["listeners"], operator_page.history)
        options["start"] = operator_page.start
    service: Service

    async def answer_socket(scope: Scope, receive: Receive, send: Send) -> None:
        await ResponseSockets(gateway, service)(scope, receive, send)

    async def connect_realtime(scope: Scope, receive: Receive, send: Send) -> None:
        await RealtimeSockets(gateway, service)(scope, receive, send)

    service = Service(
        routes,
        stop=gateway.close if operator_page is None else operator_page.close,
        on_drain=None if gateway.batches is None else gateway.batches.drain,
        sockets={"/v1/responses": answer_socket, realtime.PATH: connect_realtime},
        survey_aliases=survey_aliases,
        **options,
    )
    _add_gauges(service, gateway)
    page = "" if operator_page is None else PAGE_PATH.removeprefix("/")
    add_health(service, admit=gateway.authorize, needs_key=gateway.needs_key, page=page)
    if operator_page is not None:
        operator_page.service = service
    return service


def _add_gauges(service: Service, gateway: Gateway) -> None:
    """Add the metrics of memory for conversations."""
    service.gauges["vibe_read_conversations_bytes"] = (
        "Memory for conversations that were read.",
        lambda: gateway.prefixes.size,
    )
    service.gauges["vibe_written_conversations_bytes"] = (
        "Memory for conversations that were translated for vendors.",
        lambda: MEMORY_BUDGET.size,
    )


def _produce_tracing(application: Application) -> Tracing | None:
    settings = application.configuration.access_table("telemetry")
    if not settings.get("opentelemetry"):
        return None
    from vibe_llms.daemons.tracing import Tracing

    try:
        return Tracing(captures_texts=settings.get("texts") or None)
    except DependencyError as error:  # spans are optional; requests are answered without them
        _LOGGER.warning("%s", error)
        return None


def _produce_batches(application: Application) -> GatewayBatchRunner:
    folder = application.configuration.data_directory / "gateway"
    files = FileStorage(folder / "files")
    application.add_vendor_files(files.vendor_files)
    return GatewayBatchRunner(GatewayBatchStorage(folder / "batches"), files)


def _produce_storage(
    application: Application, storage_limits: StorageLimits | None, *, knows_subjects: bool
) -> ResponseStorage:
    configuration = application.configuration
    return ResponseStorage(
        lambda: application.store,
        configuration.data_directory / "gateway",
        limits=configuration.limits,
        storage_limits=storage_limits,
        knows_subjects=knows_subjects,
    )
