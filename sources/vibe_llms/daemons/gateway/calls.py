"""A request to a model, as the gateway's stages process it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face, read_client_request
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.upstreams import Upstream
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Handler
from vibe_llms.plugins.specification.daemons import Grant, Reservation

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.answer_cache import AnswerRecorder
    from vibe_llms.daemons.gateway.routing.targets import TargetPlan

Stage: TypeAlias = Callable[["GatewayCall"], Awaitable[None]]
"""One step of a request. It calls :meth:`GatewayCall.proceed` unless it has answered the client."""

_Stage = TypeVar("_Stage", bound=Stage)


_IS_IDLE: Final[dict[Stage, Callable[[Gateway, Face], bool]]] = {}


def skipped_if(is_idle: Callable[[Gateway, Face], bool]) -> Callable[[_Stage], _Stage]:
    """Mark a stage that does nothing for a gateway and a protocol; its tables may come later."""

    def mark(stage: _Stage) -> _Stage:
        _IS_IDLE[stage] = is_idle
        return stage

    return mark


def read_body(call: GatewayCall, body: bytes) -> ClientRequest:
    """Read a body in which the model's name is a field. Raises RequestError."""
    return read_client_request(call.face, body, call.decoded and call.decoded[1])


class GatewayCall:
    """A request to a model, with the results of the stages so far.

    Args:
        gateway: Shared by all requests: upstreams, tables, authorizer, limits.
        http: The HTTP request and its response.
        record: Facts for logs, metrics and spans.
        face: The client's protocol.
        stages: The stages of the request, in order.
        read: Parses the body. A face has a separate reader if the model is not a field of the body,
            but for example a part of the path.

    Attributes:
        grant: Set by ``authenticate``; ``None`` without an authorizer.
        decoded: Set by ``read``, if the request will probably be translated: the body as bytes and
            as JSON.
        request: Set by ``read``.
        plan: Set by ``route``: the targets to try; ``None`` if the gateway has no tables.
        upstream: The model to ask; set by ``find_upstream``, or for each attempt by ``fall_back``.
        recorder: Set by ``cache``: receives a copy of the answer.
        reservation: Set by ``account``.
        is_deferred: Whether the reservation stands until the usage is final, perhaps later.
    """

    grant: Grant | None = None
    decoded: tuple[bytes, dict[str, Any]] | None = None
    request: ClientRequest
    plan: TargetPlan | None = None
    upstream: Upstream
    recorder: AnswerRecorder | None = None
    reservation: Reservation | None = None
    is_deferred = False

    def __init__(
        self,
        gateway: Gateway,
        http: HttpCall,
        record: CallRecord,
        face: Face,
        stages: Iterable[Stage] = (),
        read: Callable[[GatewayCall, bytes], ClientRequest] = read_body,
    ) -> None:
        # Not by attrs: the other fields are results, and to set them takes as long as a stage.
        self.gateway, self.http, self.record = gateway, http, record
        self.face, self.read = face, read
        self._following = iter(stages)

    def proceed(self) -> Awaitable[None]:
        """Perform the stages that follow the current one. Raises ConverseError."""
        return next(self._following)(self)

    def take_decoded(self) -> dict[str, Any] | None:
        """Return the decoded body, once; ``None`` if it was not decoded, or was replaced since."""
        decoded, self.decoded = self.decoded, None
        return decoded[1] if decoded and decoded[0] is self.request.body else None

    def choose(self, upstream: Upstream) -> None:
        """Set the upstream to ask."""
        self.upstream, self.record.address = upstream, upstream.address

    def fork(self, http: HttpCall) -> GatewayCall:
        """Return a copy at the current stage, for one attempt that is answered to ``http``."""
        attempt = object.__new__(GatewayCall)
        # Much faster than copy.copy of the call.
        attempt.__dict__ = {**self.__dict__, "http": http, "_following": copy(self._following)}
        return attempt


def handle(
    gateway: Gateway,
    face: Face,
    stages: Sequence[Stage],
    read: Callable[[GatewayCall, bytes], ClientRequest] = read_body,
) -> Handler:
    """Return the handler of a route whose requests pass through these stages."""

    active: dict[bool, Sequence[Stage]] = {}

    def perform(http: HttpCall, record: CallRecord) -> Awaitable[None]:
        has_tables = gateway.router is not None  # they may be read again at any time
        following = active.get(has_tables)
        if following is None:
            following = active[has_tables] = [
                each for each in stages if each not in _IS_IDLE or not _IS_IDLE[each](gateway, face)
            ]
        # By place, as names would be gathered in a dictionary first.
        call = GatewayCall(gateway, http, record, face, following, read)
        return call.proceed()

    return perform
