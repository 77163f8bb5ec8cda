"""Shared parts of providers over the network.

Each vendor's folder has a subclass of :class:`.vendors.Vendor` with the vendor's own behavior.
The provider in this module and its clients in ``remote_clients`` do everything else: settings, key,
transport and errors. The models are in ``remote_models``.
"""

from __future__ import annotations

from collections.abc import Callable

from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.rates import RateLimiter
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.requirements import Requirement
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.shared_limits import produce_limiter
from vibe_llms.providers.vendors import Vendor
from vibe_llms.wire.exchanges import Transport
from vibe_llms.wire.size_limits import describe_address


class RemoteProvider:
    """Makes clients of one vendor.

    Args:
        context: Context from the plugin manager.
        vendor: Makes the vendor; usually its class.
    """

    def __init__(
        self, context: ProviderContext, vendor: Callable[[ProviderContext], Vendor]
    ) -> None:
        self._context = context
        self._vendor = vendor
        self._transport: Transport | None = None
        self._limiter: RateLimiter | None = None

    @property
    def name(self) -> str:
        """The name in the configuration."""
        return self._context.name

    def use_transport(self, transport: Transport) -> None:
        """Send the requests of all later clients through a transport of the host application.

        For example ``SdkTransport(client)``, with a client of the official library.
        """
        self._transport = transport

    def access_limiter(self, settings: RemoteSettings) -> RateLimiter:
        """Return the rate limiter: one for all clients."""
        if self._limiter is None:
            context = self._context
            self._limiter = produce_limiter(
                context.name, context.limits, settings.rates, context.clock, context.budgets
            )
        return self._limiter

    @property
    def address(self) -> str:
        """The vendor's address, without secret parts; empty if none is set.

        Raises:
            ConfigurationError: Its settings are invalid.
        """
        return describe_address(self._vendor(self._context).settings.base_url)

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements. Raises ConfigurationError."""
        return self._vendor(self._context).survey_requirements()

    def produce_client(self) -> RemoteClient:
        """Make a client. Does not connect yet. Raises ConfigurationError."""
        return RemoteClient(self, self._vendor(self._context), self._transport)
