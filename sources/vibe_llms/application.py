"""The one place that builds the object graph: from a configuration to what can be used.

Other code receives the two or three things it needs; only front ends and instruments ask here.
Everything is made when it is first wanted, so that listing conversations, say, loads no provider.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from vibe_llms.configuration import load_configuration
from vibe_llms.plugins.manager import PluginManager

if TYPE_CHECKING:
    from typing import Any, Self

    from vibe_llms.configuration.classes import Configuration
    from vibe_llms.conversations.index import ConversationIndex
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.models.catalogue import Catalogue
    from vibe_llms.plugins.specification import Consent, Progress
    from vibe_llms.providers.interfaces import Client, ConverserModel


class Application:
    """What a configuration amounts to: plugins, models, stored conversations.

    Args:
        configuration: What the user wrote.
        consent: Asked before code is fetched or much is downloaded; by default nobody is asked
            and the setting ``yes`` answers.
        progress: Shows long work; by default nothing is shown.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        consent: Consent | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.configuration = configuration
        given: dict[str, Any] = {"consent": consent, "progress": progress}
        self.plugins = PluginManager(
            configuration=configuration,
            **{name: value for name, value in given.items() if value is not None},
        )
        self._clients: dict[tuple[str, asyncio.AbstractEventLoop], Client] = {}

    @classmethod
    def load(
        cls,
        *,
        command_line: Mapping[str, Any] | None = None,
        consent: Consent | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Reads the configuration and builds what it amounts to.

        Raises:
            ConfigurationError: With all mistakes at once.
        """
        configuration = load_configuration(command_line=command_line or {})
        return cls(configuration, consent=consent, progress=progress)

    @cached_property
    def catalogue(self) -> Catalogue:
        """What is known about the models of all providers."""
        return self.plugins.produce_catalogue()

    @cached_property
    def store(self) -> ConversationStore:
        """Where conversations are kept."""
        from vibe_llms.conversations.stores.directory import DirectoryStore

        return DirectoryStore(self.configuration.data_directory)

    @cached_property
    def index(self) -> ConversationIndex:
        """The cache through which conversations are listed and searched."""
        from vibe_llms.conversations.index import ConversationIndex

        return ConversationIndex(
            self.configuration.data_directory / "conversations",
            self.configuration.cache_directory / "index.sqlite",
        )

    async def access_client(self, provider: str) -> Client:
        """Returns the client of a provider, the same one for each event loop."""
        key = (provider, asyncio.get_running_loop())
        if key not in self._clients:
            loaded = await asyncio.to_thread(self.plugins.load_provider, provider)
            self._clients.setdefault(key, loaded.produce_client())
        return self._clients[key]

    async def access_model(self, address: str = "") -> ConverserModel:
        """Returns a model that can be asked.

        Args:
            address: ``provider:name``, a provider for its default model, or a name that only
                one provider knows; empty for the configured model.

        Raises:
            UnknownNameError: No such provider or model.
            ConverseError: The provider cannot be loaded.
        """
        from vibe_llms.models.addresses import ModelAddress

        address = address or self.configuration.model
        provider, colon, _ = address.partition(":")
        if colon or provider in self.configuration.providers:
            resolved = ModelAddress.parse(address)
        else:
            resolved = self.catalogue.resolve_address(address)
        client = await self.access_client(resolved.provider)
        return await client.access_model(resolved.name)

    def produce_reactors(self) -> list[ConversationReactors]:
        """Makes the reactors which plugins have for every conversation; once per turn.

        Only plugins that are loaded already are asked, so that no turn loads any.
        """
        return [specification.factory() for specification in self._reactors]

    @cached_property
    def _reactors(self) -> list[Any]:
        return list(self.plugins.survey_reactors())

    async def close(self) -> None:
        """Closes the clients of this event loop."""
        loop = asyncio.get_running_loop()
        for key in [key for key in self._clients if key[1] is loop]:
            await self._clients.pop(key).close()


_lock = threading.Lock()
_application: Application | None = None


def access_application() -> Application:
    """Returns the application of this process, built from its configuration when first wanted."""
    global _application
    with _lock:
        if _application is None:
            _application = Application.load()
        return _application
