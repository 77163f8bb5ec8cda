"""Test environment of a provider: its plugin loaded as with a user's configuration."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs

from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import PluginError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.attributes import Capability
from vibe_llms.plugins.manager import PluginManager
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.providers.interfaces import Client, ConverserModel, Provider
from vibe_llms.testing.clocks import HurriedClock

CANARY = "canary-7c1e5b9f2a"
"""Key for the providers under test: it must not appear anywhere."""


@define(kw_only=True, eq=False)
class World:
    """A provider, a client of it and a model, configured in a temporary directory.

    Attributes:
        module: The plugin's module.
        name: The provider's name; empty for the only one of the plugin.
        model_name: A model's; empty for the provider's default.
        settings: The provider's table in the configuration.
        directory: For its data, its cache and its configuration.
    """

    module: str
    directory: Path
    name: str = ""
    model_name: str = ""
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    manager: PluginManager = attrs.field(init=False)
    client: Client = attrs.field(init=False)
    model: ConverserModel = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.name = self.name or find_provider(self.module)
        self.manager = load_manager(self.module, self.name, self.settings, self.directory)

    @property
    def provider(self) -> Provider:
        """The provider, made by its plugin."""
        return self.manager.load_provider(self.name)

    async def __aenter__(self) -> Self:
        self.client = self.provider.produce_client()
        self.model = await self.client.access_model(self.model_name)
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.client.close()

    def can(self, capability: str) -> bool:
        """Return whether the model is not known to lack a capability."""
        attributes = self.model.descriptor.attributes
        return attributes.access_capability(capability) is not Capability.NO

    async def ask(self, request: Request, *, stream: bool = True) -> Response:
        """Ask the model."""
        return await self.model.converse(request, stream=stream)


def find_provider(module: str) -> str:
    """Return the name of a plugin's only provider; the module's if any name is valid.

    Raises:
        PluginError: It cannot be imported, or has none, or several.
    """
    try:
        specifications = importlib.import_module(module).survey_providers()
    except Exception as error:
        raise PluginError(
            plugin=module,
            detail=f"Cannot load the plugin {module}: {type(error).__name__}: {error}",
            remedy="Name a module that Python finds from here, such as vibe_hello.",
        ) from error
    names = [specification.name for specification in specifications]
    if len(names) == 1:
        return module.rpartition(".")[2] if names == [ANY_NAME] else str(names[0])
    known = f"several providers: {', '.join(names)}" if names else "no provider"
    raise PluginError(
        plugin=module,
        detail=f"The plugin {module} has {known}.",
        remedy="Name one of them.",
    )


def load_manager(
    module: str, name: str, settings: Mapping[str, Any], directory: Path
) -> PluginManager:
    """Return a plugin manager for a user who has configured this provider."""
    import tomli_w

    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "config.toml"
    table = {"module": module, **settings}
    file.write_text(tomli_w.dumps({"providers": {name: table}}), encoding="utf-8")
    environment = {
        "VIBE_LLMS_CONFIG": str(file),
        "VIBE_LLMS_DIRECTORIES_DATA": str(directory / "data"),
        "VIBE_LLMS_DIRECTORIES_CACHE": str(directory / "cache"),
    }
    configuration = load_configuration(environment=environment, working_directory=directory)
    return PluginManager(configuration=configuration, clock=HurriedClock())  # retries take no time
