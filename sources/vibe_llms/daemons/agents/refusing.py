"""Checks at the start: the agents daemon must neither hold vendors' keys nor run tools itself."""

from __future__ import annotations

from typing import Final

from vibe_llms.configuration.classes import Configuration, Layer, Setting
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.plugins.manager import PluginManager
from vibe_llms.providers.remote import RemoteProvider

PROVIDER: Final = "remote"
"""The only provider that runs may use: that of a gateway."""


def describe_gateway(plugins: PluginManager) -> str:
    """Describe the gateway that serves the models, for the user who starts the daemon.

    Raises:
        ConverseError: The provider cannot be created, such as with invalid settings.
    """
    provider = plugins.load_provider(PROVIDER)
    if isinstance(provider, RemoteProvider) and provider.address:
        return f"models are asked through {provider.address}"
    return "no gateway is set, so runs cannot ask models: add --gateway URL"


def refuse_foreign(configuration: Configuration) -> None:
    """Check that no other provider, and no tools of this process, are configured.

    Built-in ensembles do not count: runs may not name them. MCP servers are allowed, including
    programs that this daemon starts, because they work in separate processes.

    Raises:
        ConfigurationError: Some are configured; names each with its file and line.
    """
    findings: dict[tuple[str, str], Finding] = {}
    for setting in configuration.settings.values():
        if setting.source.layer is Layer.DEFAULTS or len(setting.path) < 2:
            continue
        if message := _explain_refusal(setting):
            source = setting.source
            place = source.place or str(source.layer)
            finding = Finding(place=place, line=source.line, message=message)
            findings.setdefault((setting.path[0], setting.path[1]), finding)
    if findings:
        raise ConfigurationError(findings=tuple(findings.values()))


def _explain_refusal(setting: Setting) -> str:
    """Return why a setting is refused; empty if it is allowed."""
    table, name, *rest = setting.path
    remedy = "Use a configuration of its own: VIBE_LLMS_CONFIG=FILE vibe serve agents"
    if table == "providers" and (name != PROVIDER or rest == ["module"]):
        return (
            f"The provider {name!r} is configured, but runs may only ask the gateway, with "
            f"the provider {PROVIDER!r} as shipped. {remedy}"
        )
    if table == "ensembles":
        return (
            f"The ensemble {name!r} is configured, but runs may only use MCP servers, such "
            f"as [mcp.{name}]. {remedy}"
        )
    return ""
