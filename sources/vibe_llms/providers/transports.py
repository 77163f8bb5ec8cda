"""What carries a remote provider's requests: our own connections, or what a plugin has."""

from __future__ import annotations

from functools import partial

from vibe_llms.exceptions import ConverseError, PluginError
from vibe_llms.plugins.specification import ProviderContext, TransportContext
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.wire.exchanges import Transport


def produce_transport(context: ProviderContext, settings: RemoteSettings) -> Transport:
    """Makes the transport that a provider's table chooses; ``direct`` where it chooses none.

    Args:
        settings: Are checked, and choose no official package.

    Raises:
        PluginError: The plugin's factory fails, or makes something else.
    """
    chosen = settings.values.get("transport", "direct")
    direct = partial(_produce_direct, context, settings)
    if chosen == "direct":
        return direct()
    specification = next(each for each in context.survey_transports() if each.name == chosen)
    given = TransportContext(
        provider=context.name,
        limits=context.limits,
        timeouts=settings.timeouts,
        produce_direct=direct,
    )
    cause: BaseException | None = None
    try:
        made = specification.factory(given)
        if all(callable(getattr(made, name, None)) for name in ("send", "close")):
            return made
        deed = f"the factory returned {type(made).__name__}"
    except ConverseError:
        raise
    except (Exception, SystemExit) as error:
        deed, cause = f"the factory raised {type(error).__name__}: {error}".rstrip(": "), error
    raise PluginError(
        plugin=str(chosen),
        detail=f"The transport {chosen!r} of [providers.{context.name}] cannot be made: {deed}.",
        remedy="Report it to whoever wrote the plugin, or choose transport = 'direct'.",
    ) from cause


def _produce_direct(context: ProviderContext, settings: RemoteSettings) -> Transport:
    from vibe_llms.wire.direct import DirectTransport

    return DirectTransport(
        limits=context.limits,
        timeouts=settings.timeouts,
        proxy=settings.access_secret("proxy"),
        certificate_authorities=settings.access_path("certificate_authorities"),
        client_certificate=settings.access_path("client_certificate"),
        client_key=settings.access_path("client_key"),
    )
