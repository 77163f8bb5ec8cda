"""Access to the model of a task, with its key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from vibe_llms.application import Application
from vibe_llms.flows.tasks import SCRIPTED, ResourceLlm
from vibe_llms.instruments.models import Model

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration, PluginEntry

_KEYS = ("api_key", "api_key_file")


@asynccontextmanager
async def access_model(
    application: Application, llm: ResourceLlm, address: str | None = None
) -> AsyncIterator[Model]:
    """Open the model of a task, with a separate key if the task names one.

    Args:
        address: Address of another model to use instead, with the same controls.
    """
    own, is_own = application, address is None and not llm.address.startswith(f"{SCRIPTED}:")
    if llm.api_key_env is not None and is_own:
        provider = application.configuration.follow_aliases(llm.provider)
        own = Application(_name_key(application.configuration, provider, llm.api_key_env))
    model = Model(address or llm.address, application=own, **cast("Any", llm.controls))
    try:
        yield model
    finally:
        await (model.close() if own is application else own.close())


def _name_key(configuration: Configuration, provider: str, variable: str) -> Configuration:
    """Configure a provider to take its key only from an environment variable."""

    def name(entry: PluginEntry) -> PluginEntry:
        if (entry.table, entry.name) != ("providers", provider):
            return entry
        other_settings = {key: entry.settings[key] for key in entry.settings if key not in _KEYS}
        return entry._replace(settings={**other_settings, "api_key_variable": variable})

    return configuration._replace(plugins=tuple(map(name, configuration.plugins)))
