"""Transports of remote providers: connections of this package, or of a plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import attrs

from vibe_llms.exceptions import ConfigurationError, ConverseError, PluginError, Stage
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.specification.models import (
    ProviderContext,
    TransportContext,
    TransportSpecification,
)
from vibe_llms.providers.settings import TLS_FILES, RemoteSettings
from vibe_llms.wire.exchanges import Exchange, Transport, WireRequest

if TYPE_CHECKING:
    from vibe_llms.wire.direct import DirectTransport


def produce_transport(context: ProviderContext, settings: RemoteSettings) -> Transport:
    """Create the transport that a provider's table chooses; the default is ``direct``.

    Args:
        settings: Checked settings, whose transport is not an official package.

    Raises:
        PluginError: The plugin's factory fails, or returns something else.
    """
    chosen = settings.values.get("transport", "direct")
    direct = partial(produce_direct, context, settings)
    if chosen == "direct":
        return direct()
    specification = next(each for each in context.survey_transports() if each.name == chosen)
    transport_context = TransportContext(
        provider=context.name,
        limits=context.limits,
        timeouts=settings.timeouts,
        produce_direct=direct,
    )
    attribution = ErrorAttribution(specification, context.name)
    with attribution.catching("cannot be created: the factory"):
        transport = specification.factory(transport_context)
    if all(callable(getattr(transport, name, None)) for name in ("send", "close")):
        return PluggedTransport(transport, attribution)
    raise attribution.compose(f"cannot be created: the factory returned {type(transport).__name__}")


def ensure_files(context: ProviderContext, settings: RemoteSettings) -> None:
    """Check that the certificates and client keys in a provider's table can be used.

    Raises:
        ConfigurationError: One cannot be used.
    """
    if any(name in settings.values for name in TLS_FILES):
        produce_direct(context, settings)


@frozen
class ErrorAttribution:
    """Attribution of errors to the plugin whose transport failed.

    Attributes:
        specification: Specification of the transport.
        provider: Name of the provider whose table chooses the transport.
    """

    specification: TransportSpecification
    provider: str

    @contextmanager
    def catching(self, action: str) -> Iterator[None]:
        """Convert any error except a ConverseError to a PluginError; let cancellation pass."""
        try:
            yield
        except ConverseError:
            raise
        # A plugin that calls `sys.exit` must not end the program.
        except (Exception, SystemExit) as error:
            words = f"{action} raised {type(error).__name__}: {error}".rstrip(": ")
            raise self.compose(words) from error

    def compose(self, action: str) -> PluginError:
        """Return the error that names the plugin and what its transport did."""
        name, plugin = self.specification.name, self.specification.plugin
        owner = f"of the plugin {plugin!r}" if plugin else "of a plugin"
        return PluginError(
            plugin=plugin or name,
            detail=f"The transport {name!r} {owner}, chosen by [providers.{self.provider}], "
            f"{action}.",
            remedy="Report this to the plugin's author, or choose transport = 'direct'.",
            stage=Stage.SEND,
        )


@frozen
class PluggedTransport:
    """A plugin's transport; its errors name the plugin."""

    _transport: Transport
    _attribution: ErrorAttribution

    async def send(self, request: WireRequest) -> Exchange:
        """Send a request. Raises PluginError, in addition to the errors of any transport."""
        with self._attribution.catching("broke: send"):
            exchange = await self._transport.send(request)
        if callable(getattr(exchange, "receive", None)):
            return PluggedExchange(exchange, self._attribution)
        raise self._attribution.compose(f"broke: send returned {type(exchange).__name__}")

    async def close(self) -> None:
        """Close all connections."""
        with self._attribution.catching("broke: close"):
            await self._transport.close()


@frozen
class PluggedExchange(Closing):
    """An exchange of a plugin's transport; its errors name the plugin."""

    _exchange: Exchange
    _attribution: ErrorAttribution

    @property
    def status(self) -> int:
        """The HTTP status."""
        with self._attribution.catching("broke: status"):
            return self._exchange.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer."""
        with self._attribution.catching("broke: headers"):
            return self._exchange.headers

    @property
    def is_spent(self) -> bool:
        """True if the response was read completely, so that its connection is free already."""
        return getattr(self._exchange, "is_spent", False) is True

    async def receive(self) -> bytes:
        """Return the bytes of the body that have arrived."""
        with self._attribution.catching("broke: receive"):
            return await self._exchange.receive()

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body."""
        with self._attribution.catching("broke: read"):
            return await self._exchange.read(limit)

    async def close(self) -> None:
        """Close the exchange."""
        with self._attribution.catching("broke: close"):
            await self._exchange.close()


def produce_direct(context: ProviderContext, settings: RemoteSettings) -> DirectTransport:
    """Create a direct transport. Raises ConfigurationError."""
    from vibe_llms.wire.direct import DirectTransport

    try:
        return DirectTransport(
            limits=context.limits,
            timeouts=settings.timeouts,
            proxy=settings.access_secret("proxy"),
            certificate_authorities=settings.access_path("certificate_authorities"),
            client_certificate=settings.access_path("client_certificate"),
            client_key=settings.access_path("client_key"),
        )
    except ConfigurationError as error:
        table = f"providers.{context.name}"
        error.findings = tuple(
            attrs.evolve(each, place=f"{table}.{each.place}") for each in error.findings
        )
        raise
