"""One request to a model: who asks, who is asked, by which way, and what it has used."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from vibe_llms.daemons.arrivals import authorize, ensure_page, ensure_place
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import decode_body, perform_sized, read_json_body
from vibe_llms.daemons.gateway.accounting import demand_nothing, settling, settling_nothing
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face, read_client_request
from vibe_llms.daemons.gateway.estimating import estimate
from vibe_llms.daemons.gateway.loop_detection import enter, name_gateway
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.gateway.request_limits import GatewayLimits, ensure_bounds
from vibe_llms.daemons.gateway.responses.storage import ResponseStorage
from vibe_llms.daemons.gateway.responses.storing import detach, expand, hold
from vibe_llms.daemons.gateway.translating import translate
from vibe_llms.daemons.gateway.upstreams import (
    Upstream,
    Upstreams,
    can_pass_through,
)
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.seals import MARK as SEAL_MARK
from vibe_llms.exceptions import AccessError, ProviderFault, RequestError, Stage
from vibe_llms.limits import Limits
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.tokens import TokenCount
from vibe_llms.plain import JsonObject
from vibe_llms.plugins.specification.daemons import Authorizer, Grant
from vibe_llms.providers.remote_models import RemoteModel

if TYPE_CHECKING:
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.providers.interfaces import ConverserModel


class Router(Protocol):
    """Answers where a file says who is asked, and who else may be."""

    async def answer(
        self,
        gateway: Gateway,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        asked: ClientRequest,
        grant: Grant | None,
    ) -> None:
        """Answers a request to a model. Raises ConverseError."""


class Gateway:
    """Answers for models.

    Args:
        upstreams: Say who is asked.
        limits: Of what upstreams answer.
        authorizer: Says who may ask; by default everybody may.
        router: Answers where a file says who else may be asked; by default one upstream does.
        keeper: Keeps answers of the faces that want them kept; by default nothing is.
        reactors: Hear of what models answer on translate; by default nobody does.
        hosts: By which names clients come where no authorizer says who they are, so that no page
            of a stranger's asks by the browser of somebody here; by default any.

    Attributes:
        bounds: How many of each a request may have that is translated.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        *,
        limits: Limits,
        authorizer: Authorizer | None = None,
        router: Router | None = None,
        keeper: ResponseStorage | None = None,
        reactors: ConversationReactors | None = None,
        hosts: Collection[str] | None = None,
    ) -> None:
        self.upstreams = upstreams
        self.reactors = reactors
        self.router = router
        self.keeper = keeper
        self.limits = limits
        self.bounds = GatewayLimits()
        self._authorizer = authorizer
        self._hosts = hosts
        self._name = name_gateway()

    @property
    def needs_key(self) -> bool:
        """Whether clients have to say who they are."""
        return self._authorizer is not None

    async def authorize(self, call: HttpCall, record: CallRecord) -> Grant | None:
        """Says who asks; ``None`` where nobody has to say.

        Raises:
            AccessError: Nobody knows who asks; or they come by a name that is not ours.
            ProviderError: The gateway itself does, by whatever way.
        """
        enter(self._name, call.headers)
        if self._authorizer is None:
            ensure_place(call, self._hosts)
        elif call.certificate:  # which a browser shows for any page
            ensure_page(call, self._hosts)
        return await authorize(self._authorizer, call, record)

    async def answer(
        self,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        read: Callable[[Face, bytes], ClientRequest] = read_client_request,
    ) -> None:
        """Answers a request to a model. Raises ConverseError."""
        record.face, call.id_header = face.name, face.id_header
        grant = await self.authorize(call, record)
        body = await read_json_body(call)
        call.watch_client()
        asked = read(face, body)
        record.model, record.streamed = asked.model, asked.streaming
        if self.router is not None:
            await self.router.answer(self, call, record, face, asked, grant)
            return
        upstream = await self.upstreams.access(asked.model)
        if grant is not None:
            _ensure_admitted(grant, asked, upstream)
        await self.attempt(call, record, face, asked, upstream, grant)

    async def attempt(
        self,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        asked: ClientRequest,
        upstream: Upstream,
        grant: Grant | None = None,
    ) -> None:
        """Answers with what one upstream says, which is accounted for. Raises ConverseError."""
        record.address = upstream.address
        if self.keeper is None or not face.is_kept:
            await self._ask(call, record, face, asked, upstream, grant)
            return
        if await detach(self.keeper, call, record, asked, upstream):
            return
        async with hold(self.keeper, call, record, asked, upstream) as (holding, expanded):
            await self._ask(holding, record, face, expanded, upstream, grant)

    async def _ask(
        self,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        asked: ClientRequest,
        upstream: Upstream,
        grant: Grant | None = None,
        *,
        is_accounted: bool = False,
    ) -> None:
        if grant is not None:
            reservation = await grant.reserve(estimate(asked, upstream))
            async with settling(reservation, record, upstream):
                await self._ask(call, record, face, asked, upstream, is_accounted=True)
            return
        model = upstream.model
        if _carries(model, face, asked):
            await pass_through(
                call,
                record,
                face,
                asked,
                model,
                limits=self.limits,
                is_accounted=is_accounted,
            )
        else:
            await translate(call, record, face, asked, upstream, self.reactors, self.bounds)

    async def count(
        self,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        *,
        path: str,
        write: Callable[[TokenCount], JsonObject],
        read: Callable[[Face, bytes], ClientRequest] = read_client_request,
    ) -> None:
        """Answers how many tokens a request has: as the vendor says, or else as its model counts.

        Args:
            path: Where a vendor of this protocol counts, with ``{model}`` for its name.
            write: Writes a count in the words of the protocol.
        """
        record.face, call.id_header = face.name, face.id_header
        grant = await self.authorize(call, record)
        asked = read(face, await read_json_body(call))
        call.watch_client()
        record.model = asked.model
        upstream = await self.upstreams.access(asked.model)
        record.address = upstream.address
        _ensure_admitted(grant, asked, upstream)
        if self.keeper is not None and face.is_kept:
            asked = await expand(self.keeper, asked, record.subject, upstream)
        reservation = (
            None if grant is None else await grant.reserve(demand_nothing(asked, upstream))
        )
        async with settling_nothing(reservation):
            await self._count(call, record, face, asked, upstream, path=path, write=write)

    async def _count(
        self,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        asked: ClientRequest,
        upstream: Upstream,
        *,
        path: str,
        write: Callable[[TokenCount], JsonObject],
    ) -> None:
        model = upstream.model
        if _carries(model, face, asked):
            asked = asked.move(path.format(model=upstream.name)) if path else asked
            await pass_through(call, record, face, asked, model, limits=self.limits)
            return
        read = partial(_read_counted, face, asked.body, self.bounds)
        request = await perform_sized(asked.body, read)
        counted = await model.tokenizer.count_request(request, model.descriptor)
        await call.tell(write(counted))

    async def ask_beside(
        self,
        call: HttpCall,
        record: CallRecord,
        face: Face,
        asked: ClientRequest,
        grant: Grant | None,
        path: str,
    ) -> None:
        """Answers what a vendor of the same protocol alone can answer, by a path of its own.

        Raises:
            ConverseError: It cannot be asked; or the model's vendor speaks another protocol.
        """
        record.model = asked.model
        upstream = await self.upstreams.access(asked.model)
        record.address = upstream.address
        _ensure_admitted(grant, asked, upstream)
        model = upstream.model
        if not can_pass_through(model, face.dialect.PROTOCOL):
            raise RequestError(
                path="model",
                detail=f"{upstream.address} cannot do this: its vendor speaks another protocol.",
                remedy="Ask a model whose vendor has it, or send the conversation as it is.",
                stage=Stage.FRAME,
            )
        if self.keeper is not None and face.is_kept:
            asked = await expand(self.keeper, asked, record.subject, upstream)
        reservation = None if grant is None else await grant.reserve(estimate(asked, upstream))
        async with settling(reservation, record, upstream):
            await pass_through(call, record, face, asked.move(path), model, limits=self.limits)

    async def list_names(self, call: HttpCall, record: CallRecord) -> list[str]:
        """Returns the names of the models that whoever asks may use. Raises AccessError."""
        grant = await self.authorize(call, record)
        names = await self.upstreams.list_names()
        return [name for name in names if grant is None or grant.admits(name)]

    async def list_models(
        self, call: HttpCall, record: CallRecord, name: str | None = None
    ) -> dict[str, ModelDescriptor]:
        """Returns all that is known of the models that whoever asks may use, by their names.

        Args:
            name: Of the only one that is wanted; empty for the configured one.

        Raises:
            AccessError: Nobody knows who asks.
            UnknownNameError: There is no such model.
        """
        grant = await self.authorize(call, record)
        if name is None:
            models = await self.upstreams.list_models()
        else:
            upstream = await self.upstreams.access(name)
            models = {name or upstream.address: upstream.model.descriptor}
        return {
            each: model for each, model in models.items() if grant is None or grant.admits(each)
        }

    async def close(self) -> None:
        """Frees what is held."""
        if self.keeper is not None:  # first, as what is in the background still asks upstreams
            await self.keeper.close()
        await self.upstreams.close()
        if self._authorizer is not None:
            await self._authorizer.close()


def _read_counted(face: Face, body: bytes, bounds: GatewayLimits) -> Request:
    native = decode_body(body)
    ensure_bounds(native, bounds)
    read: Translation[Request] = face.dialect.normalize_request(native)
    return read.value


def _carries(model: ConverserModel, face: Face, asked: ClientRequest) -> TypeGuard[RemoteModel]:
    if face.is_path:
        return isinstance(model, RemoteModel)
    # In our own protocol nothing is lost, and what the next one is asked for is another model.
    if face.is_ours or not can_pass_through(model, face.dialect.PROTOCOL):
        return False
    if SEAL_MARK.encode() in asked.body:  # of another vendor: this one would refuse it
        return False
    return not _touches_quirks(model, face, asked)


def _touches_quirks(model: RemoteModel, face: Face, asked: ClientRequest) -> bool:
    """Return whether the model's vendor is known to refuse or misread the body as it is."""
    touches: Callable[[bytes, Any], bool] | None = getattr(face.dialect, "touches_quirks", None)
    if touches is None:
        return False
    return touches(asked.body, model.client.vendor.find_known_quirks(model.descriptor))


def _ensure_admitted(grant: Grant | None, asked: ClientRequest, upstream: Upstream) -> None:
    if grant is not None:
        ensure_admitted(grant, asked.model or upstream.address)


def ensure_admitted(grant: Grant | None, name: str) -> None:
    """Refuses a client that may not ask a model, by the name that it uses. Raises AccessError."""
    if grant is not None and not grant.admits(name):
        raise AccessError(
            fault=ProviderFault.PERMISSION,
            subject=grant.subject,
            detail=f"The key {grant.subject!r} may not ask the model {name!r}.",
            remedy="GET /v1/models lists those that it may ask.",
        )
