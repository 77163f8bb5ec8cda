"""Remove or refuse the user's providers: the tools daemon must not know models."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.configuration.classes import Configuration, Layer, PluginEntry
from vibe_llms.exceptions import ConfigurationError, Finding


def leave_out_providers(configuration: Configuration) -> Configuration:
    """Return a configuration without the user's providers, including addresses and keys."""
    settings = {
        name: setting
        for name, setting in configuration.settings.items()
        if setting.path[0] != "providers" or setting.source.layer is Layer.DEFAULTS
    }
    plugins = (_leave_out(entry) for entry in configuration.plugins)
    return configuration._replace(
        settings=settings, plugins=tuple(entry for entry in plugins if entry is not None)
    )


def _leave_out(entry: PluginEntry) -> PluginEntry | None:
    if entry.table != "providers":
        return entry
    if entry.source.layer is not Layer.DEFAULTS:
        return None
    # The user may have given a built-in provider a key or an address: these are removed, too.
    return entry._replace(settings={})


def find_providers(configuration: Configuration) -> Sequence[Finding]:
    """Find the providers that a user has configured, each once; built-in ones do not count."""
    findings: dict[str, Finding] = {}
    for setting in configuration.settings.values():
        if setting.path[0] != "providers" or setting.source.layer is Layer.DEFAULTS:
            continue
        source, provider = setting.source, setting.path[1]
        finding = Finding(
            place=source.place or str(source.layer),
            line=source.line,
            message=f"The provider {provider!r} is configured, but a tools server does not use "
            "models.",
        )
        findings.setdefault(provider, finding)
    return tuple(findings.values())


def refuse_providers(configuration: Configuration) -> None:
    """Refuse a configuration that has a provider of the user.

    Raises:
        ConfigurationError: A provider is configured; names each with its file and line.
    """
    if findings := find_providers(configuration):
        raise ConfigurationError(findings=tuple(findings))
