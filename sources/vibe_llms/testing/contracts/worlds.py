"""Worlds: the environment of a test, with a provider that is configured as a user would."""

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
        model_name: The model's name; empty for the provider's default.
        settings: The provider's table in the configuration.
        directory: The directory for data, cache and configuration of the provider.
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
        """Return whether the model may have a capability: the capability is present or unknown."""
        attributes = self.model.descriptor.attributes
        return attributes.access_capability(capability) is not Capability.NO

    async def ask(self, request: Request, *, stream: bool = True) -> Response:
        """Ask the model."""
        return await self.model.converse(request, stream=stream)


def find_provider(module: str) -> str:
    """Return the name of a plugin's only provider; the name of the module if any name is valid.

    Raises:
        PluginError: The plugin cannot be imported, or does not have exactly one provider.
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
    providers = f"several providers: {', '.join(names)}" if names else "no provider"
    raise PluginError(
        plugin=module,
        detail=f"The plugin {module} has {providers}.",
        remedy="Name one of them.",
    )


def load_manager(
    module: str, name: str, settings: Mapping[str, Any], directory: Path
) -> PluginManager:
    """Write a user's configuration of a provider, and return its plugin manager."""
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
    return PluginManager(
        configuration=configuration, clock=HurriedClock()
    )  # retries wait no real time
