"""Remote providers whose server we can start ourselves: ``start = true`` in the configuration."""

from __future__ import annotations

import abc
import shutil
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import attrs

from vibe_llms.exceptions import ConfigurationError, ConverseError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.children import ChildServer, ChildSettings
from vibe_llms.providers.rates import Ticket
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.request_encoding import EncodedBody
from vibe_llms.providers.requirements import Requirement, RequirementKind
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.vendors import Vendor
from vibe_llms.tables.kinds import BOOLEAN, SECONDS, STRINGS, TEXT, Kind
from vibe_llms.wire.exchanges import Exchange

CHILD_SETTINGS: Final[Mapping[str, Kind]] = {
    "arguments": STRINGS,
    "command": TEXT,
    "start": BOOLEAN,
    "startup_seconds": SECONDS,
}
"""Additional settings of a provider whose server can be started."""


class HostedVendor(Vendor):
    """A vendor whose server can run on this machine.

    Its ``further_settings`` include CHILD_SETTINGS.
    """

    further_settings = CHILD_SETTINGS

    @abc.abstractmethod
    def compose_child(self) -> ChildSettings:
        """Return the settings of the child process. Raises ConfigurationError."""

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements: the server, or the program with which we start it."""
        if not self.settings.values.get("start"):
            return super().survey_requirements()
        child = self.compose_child()
        if shutil.which(child.command[0]) is not None:
            return ()
        return (Requirement(RequirementKind.PROGRAM, child.command[0], child.remedy),)

    def advise_server(self) -> str:
        """Return what to do if the server is not running."""
        name = self.context.name
        return f"Start it: {self.server_command}; or set start = true in [providers.{name}]."

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings. Raises ConfigurationError."""
        settings = super().read_settings()
        if settings.values.get("start") and "base_url" in settings.values:
            place = f"providers.{self.context.name}.start"
            message = "start = true and base_url cannot be combined: remove one of them."
            raise ConfigurationError.at(place, message)
        return settings


class HostingProvider(RemoteProvider):
    """Makes clients of a hosted vendor; they share the server that we start, if any."""

    client_class: type[HostingClient]

    def __init__(self, context: ProviderContext, vendor: type[HostedVendor]) -> None:
        super().__init__(context, vendor)
        self._hosted = vendor
        self._child: ChildServer | None = None
        self._clients: set[int] = set()

    def produce_client(self) -> HostingClient:
        """Make a client. Starts nothing yet. Raises ConfigurationError."""
        vendor = self._hosted(self._context)
        if vendor.settings.values.get("start") and self._child is None:
            self._child = ChildServer(vendor.compose_child(), self._context.progress)
        client = self.client_class(self, vendor, self._transport)
        self._clients.add(id(client))
        return client

    async def acquire_address(self) -> str | None:
        """Return the address of our server, started if necessary; ``None`` if we start none."""
        return None if self._child is None else await self._child.acquire()

    async def release(self, client: HostingClient) -> None:
        """Stop the server after the last client is closed."""
        self._clients.discard(id(client))
        if self._child is not None and not self._clients:
            await self._child.close()


class HostingClient(RemoteClient):
    """A client that starts its server, if necessary, before it sends a request."""

    async def send(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        model: str = "",
        ticket: Ticket | None = None,
        encoded: EncodedBody | None = None,
    ) -> Exchange:
        """Send a request, once; see :class:`RemoteClient`."""
        assert isinstance(self.provider, HostingProvider)
        # Raise an error early if the key is missing. Read it before the server starts, so that it
        # is removed from the server's output.
        self.require_key()
        try:
            address = await self.provider.acquire_address()
        except ConverseError as error:
            raise self.clean(error)  # noqa: B904  # it is the same error
        if address is not None:
            vendor = self.vendor
            base_url = address + urlsplit(vendor.base_url).path.rstrip("/")
            # Set it at each call, since a restarted server listens on another port.
            vendor.settings = attrs.evolve(vendor.settings, base_url=base_url)
        return await super().send(method, path, body, model=model, ticket=ticket, encoded=encoded)

    async def close(self) -> None:
        """Close the connections, and stop the server if no other client uses it."""
        await super().close()
        assert isinstance(self.provider, HostingProvider)
        await self.provider.release(self)


HostingProvider.client_class = HostingClient
