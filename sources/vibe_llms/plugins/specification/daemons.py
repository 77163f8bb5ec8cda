"""What a plugin says of daemons: who may ask them what.

A daemon has no policy of its own. Where the configuration names an authorizer, each request is
shown to it three times: when it arrives, before anything is sent upstream, and when it is over.
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

if TYPE_CHECKING:  # types only: this module lies below those that it speaks of
    from vibe_llms.messages.canisters import Usage


@frozen(kw_only=True)
class Arrival:
    """A request that has arrived at a daemon, before its body is read.

    Attributes:
        method, path: Of the request, without the query.
        headers: With names in lower case; a key among them.
        credential: The key that the client shows, wherever its protocol has it; empty without one.
        client: The address that it came from; empty where it is not known.
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
    """What a request would use, before anything is sent.

    Attributes:
        model: By the name that the client used.
        address: The model that will be asked, as ``provider:name``.
        input_tokens: An estimate, from above.
        output_tokens: As many as the request lets the model write, ``None`` where it has no bound.
        cents: What that comes to at most, in US cents; ``None`` where it is not known.
    """

    model: str
    address: str
    input_tokens: int
    output_tokens: int | None = None
    cents: Decimal | None = None


class Reservation(Protocol):
    """What was set aside for one request. It is settled or released, once."""

    async def settle(self, usage: Usage | None, cents: Decimal | None) -> None:
        """Is told what the request has used, as far as it is known; it was sent, in any case."""

    async def release(self) -> None:
        """Is told that nothing was sent."""


class Grant(Protocol):
    """What a client that is known may do."""

    @property
    def subject(self) -> str:
        """Who it is: a name for logs, never the key."""

    def admits(self, model: str) -> bool:
        """Tells whether the client may ask this model, by the name that it used."""

    async def reserve(self, demand: Demand) -> Reservation:
        """Sets aside what a request would use, durably, before anything is sent.

        Raises:
            AccessError: A rate or a budget is reached, or the model is not for this client.
        """


class Authorizer(Protocol):
    """Says who may ask a daemon what; it lives as long as the daemon."""

    async def authorize(self, arrival: Arrival) -> Grant:
        """Says who asks.

        Raises:
            AccessError: Nobody knows them, or they may not ask any more.
        """

    async def close(self) -> None:
        """Frees what it holds."""


@frozen(kw_only=True)
class AuthorizerContext:
    """What an authorizer is given when it is made.

    Attributes:
        name: Its name, as configured.
        settings: The keys of its table in the configuration besides ``module``, ``package`` and
            ``enabled``.
        data_directory: A directory of its own for what must last, shared by all processes of all
            daemons. It may not exist yet.
        clock: For whatever has a time.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    data_directory: Path
    clock: Clock = attrs.field(factory=Clock)
