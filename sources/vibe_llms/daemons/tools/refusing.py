"""A daemon of tools knows no model: where a provider is configured, it does not start."""

from __future__ import annotations

from vibe_llms.configuration.classes import Configuration, Layer
from vibe_llms.exceptions import ConfigurationError, Finding


def refuse_providers(configuration: Configuration) -> None:
    """Sees to it that nobody has configured a provider; what ships does not count.

    Raises:
        ConfigurationError: Somebody has; it names each, with its file and line.
    """
    found: dict[str, Finding] = {}
    for setting in configuration.settings.values():
        if setting.path[0] != "providers" or setting.source.layer is Layer.DEFAULTS:
            continue
        source, provider = setting.source, setting.path[1]
        finding = Finding(
            place=source.place or str(source.layer),
            line=source.line,
            message=f"The provider {provider!r} is configured, and a server of tools may know none."
            " Give it a configuration of its own: VIBE_LLMS_CONFIG=FILE vibe serve tools",
        )
        found.setdefault(provider, finding)
    if found:
        raise ConfigurationError(findings=tuple(found.values()))
