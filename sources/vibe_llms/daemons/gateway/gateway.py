"""Shared state of the gateway: upstreams, tables, authorizer and limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.arrivals import authorize, ensure_host, ensure_page
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.loop_detection import enter, name_gateway
from vibe_llms.daemons.gateway.request_limits import GatewayLimits
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage
from vibe_llms.daemons.gateway.upstreams import Upstreams
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.prefix_cache import PrefixCache
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.foundation.limits import Limits
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plugins.specification.daemons import Authorizer, Grant
from vibe_llms.wire.tracing import VIA, VIA_HEADER

_ORIGIN: Final = "origin"
"""Name of the note that a request comes from a known page, and not from a gateway."""

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.batches.running import GatewayBatchRunner
    from vibe_llms.daemons.gateway.routing.router import TableRouter
    from vibe_llms.events.calls import CallListener
    from vibe_llms.events.reactors import ConversationReactors


class Gateway:
    """Parts that all requests share; :mod:`.stages` lists the steps of a request.

    Args:
        upstreams: Finds models by the names that clients use.
        limits: Limits of upstream responses.
        authorizer: Authenticates clients; by default all are accepted.
        storage: Stores responses for protocols that refer to earlier ones.
        batches: Runs the batches of clients.
        reactors: Notified of translated answers.
        call_listeners: Notified of translated calls of other genera, such as embeddings.
        hosts: Accepted host names where no authorizer identifies clients, so that a foreign page
            cannot send requests through a local browser; ``None`` for any.

    Attributes:
        authorizer: Authenticates clients; ``None`` if all are accepted.
        router: The tables of the configuration file; ``None`` without any.
        request_limits: Limits on the counts in a translated request.
        translated: Names of the protocols whose last request was translated. The whole body of the
            next one is decoded at once, not its model's name first.
        prefixes: Cache of normalized conversations, so that only the new messages of a longer
            conversation are normalized.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        *,
        limits: Limits,
        authorizer: Authorizer | None = None,
        storage: ResponseStorage | None = None,
        batches: GatewayBatchRunner | None = None,
        reactors: ConversationReactors | None = None,
        call_listeners: Sequence[CallListener] = (),
        hosts: Collection[str] | None = None,
    ) -> None:
        self.upstreams = upstreams
        self.reactors = reactors
        self.call_listeners = call_listeners
        self.router: TableRouter | None = None
        self.storage = storage
        self.batches = batches
        self.limits = limits
        self.request_limits = GatewayLimits()
        self.prefixes = PrefixCache()
        self.translated: set[str] = set()
        self.authorizer = authorizer
        self._hosts = hosts
        self._name = name_gateway()

    @property
    def needs_key(self) -> bool:
        """True if clients must authenticate."""
        return self.authorizer is not None

    def check_origin(self, http: HttpCall) -> None:
        """Refuse requests with a foreign host or origin, and the gateway's own requests.

        Raises:
            AccessError: The request has a foreign host or origin.
            ProviderError: The request comes from this gateway itself.
        """
        if http.notes.get(_ORIGIN) is self:
            VIA.set(self._name)
            return
        enter(self._name, http.headers)
        if self.authorizer is None:
            ensure_host(http, self._hosts)
        elif http.certificate:
            # Browsers send a client certificate with the requests of any site's pages.
            ensure_page(http, self._hosts)
        if VIA_HEADER not in http.headers:
            http.notes[_ORIGIN] = self

    async def authorize(self, http: HttpCall, record: CallRecord) -> Grant | None:
        """Return the client's grant; ``None`` without an authorizer.

        Raises:
            AccessError: The client is unknown, or the request has a foreign host or origin.
            ProviderError: The request comes from this gateway itself.
        """
        self.check_origin(http)
        if self.authorizer is None:
            return None
        return await authorize(self.authorizer, http, record)

    async def list_names(self, http: HttpCall, record: CallRecord) -> list[str]:
        """Return the names of the models that the client may use. Raises AccessError."""
        grant = await self.authorize(http, record)
        names = await self.upstreams.list_names()
        return [name for name in names if grant is None or grant.admits(name)]

    async def list_models(
        self, http: HttpCall, record: CallRecord, name: str | None = None
    ) -> dict[str, ModelDescriptor]:
        """Return the descriptors of the models that the client may use, by name.

        Args:
            name: Only this model; empty for the configured one.

        Raises:
            AccessError: The client is unknown.
            UnknownNameError: The model is unknown.
        """
        grant = await self.authorize(http, record)
        if name is None:
            models = await self.upstreams.list_models()
        else:
            upstream = await self.upstreams.access(name)
            models = {name or upstream.address: upstream.model.descriptor}
        if grant is None:
            return models
        return {key: model for key, model in models.items() if grant.admits(key)}

    async def close(self) -> None:
        """Close the batches, the storage, the upstreams and the authorizer."""
        if self.batches is not None:
            await self.batches.close()
        if self.storage is not None:  # before the upstreams, which its background runs use
            await self.storage.close()
        await self.upstreams.close()
        if self.authorizer is not None:
            await self.authorizer.close()


def ensure_admitted(grant: Grant | None, name: str) -> None:
    """Refuse a model that the client may not use. Raises AccessError."""
    if grant is not None and not grant.admits(name):
        raise AccessError(
            fault=ProviderFault.PERMISSION,
            subject=grant.subject,
            detail=f"The key {grant.subject!r} may not use the model {name!r}.",
            remedy="GET /v1/models lists the models that it may use.",
        )
