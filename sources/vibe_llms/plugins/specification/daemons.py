"""Specifications of daemons: authorization of clients.

A daemon has no rules of its own for its clients. If the configuration names an authorizer, the
daemon calls it three times for each request: on arrival (``authorize``), before anything is sent
upstream (``reserve``), and at the end (``settle`` or ``release``).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.secrets import Settings

if TYPE_CHECKING:  # types only: this module is below theirs
    from vibe_llms.messages.canisters import Usage


@frozen(kw_only=True)
class Arrival:
    """A request on arrival at a daemon, before its body is read.

    Attributes:
        method, path: Method and path of the request, without the query.
        headers: With names in lower case, including a key.
        credential: The client's key, from its place in the protocol; empty without one.
        client: The client's address; empty if unknown.
        certificate: The subject of the client's certificate (mutual TLS); empty without one.
    """

    method: str
    path: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    credential: str = attrs.field(default="", repr=False)
    client: str = ""
    certificate: str = ""


@frozen(kw_only=True)
class Demand:
    """Estimated usage of a request, before anything is sent.

    Attributes:
        model: The name that the client used.
        address: The model that will be asked, as ``provider:name``.
        input_tokens: An upper estimate.
        output_tokens: Maximum output of the request, ``None`` without a limit.
        cents: Maximum cost of both, in US cents; ``None`` if unknown.
        is_paced: Whether limits per minute apply. They do not apply to a vendor's batch, which is
            answered later.
    """

    model: str
    address: str
    input_tokens: int
    output_tokens: int | None = None
    cents: Decimal | None = None
    is_paced: bool = True


class Reservation(Protocol):
    """Reservation of a budget for one request. It is settled or released, once.

    A reservation may also have the method ``async def defer(name: str) -> None``, called before it
    is settled or released: the request's usage may become known only later, perhaps in another
    process. Until then, the reserved amounts stand. Afterwards, ``settle`` or ``settle_deferred``
    of a grant replaces them, whichever is called first with the usage. Without the method, the
    reserved amounts of such a request stand forever.
    """

    async def settle(self, usage: Usage | None, cents: Decimal | None) -> None:
        """Record the usage of a request that was sent; ``None`` if it is unknown."""

    async def release(self) -> None:
        """Cancel the reservation: nothing was sent."""


class Grant(Protocol):
    """Permissions of a known client.

    A grant may also have the attribute ``is_operator``, a bool: whether the client may use the page
    and the routes that operate the daemon, such as those of the gateway below ``/operate``. Without
    the attribute, the client may not.

    Grants whose reservations have ``defer`` have the method ``async def settle_deferred(name: str,
    usage: Usage, cents: Decimal | None) -> bool``, which replaces the reserved amounts of a
    deferred request of the same client. It has an effect once; it returns whether it had one.
    """

    @property
    def subject(self) -> str:
        """Name of the client for logs, never the key."""

    def admits(self, model: str) -> bool:
        """Return whether the client may ask this model, by the name that it used."""

    async def reserve(self, demand: Demand) -> Reservation:
        """Reserve the estimated usage of a request, durably, before anything is sent.

        Raises:
            AccessError: A rate or a budget is reached, or the model is not permitted for this
                client.
        """


class Authorizer(Protocol):
    """Authorizes the clients of a daemon; it lives as long as the daemon."""

    async def authorize(self, arrival: Arrival) -> Grant:
        """Identify the client of a request, and of an open event stream every 15 seconds.

        Raises:
            AccessError: The client is unknown, or its access has expired.
        """

    async def close(self) -> None:
        """Free the resources of the authorizer."""


@frozen(kw_only=True)
class AuthorizerContext:
    """Context for making an authorizer.

    Attributes:
        name: Its name, as configured.
        settings: The keys of its table in the configuration except ``module``, ``package`` and
            ``enabled``.
        data_directory: Its directory for permanent data, shared by all processes of all daemons. It
            may not exist yet.
        clock: The current time.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    data_directory: Path
    clock: Clock = attrs.field(factory=Clock)
