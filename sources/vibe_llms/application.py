"""The one place that builds the object graph, from a configuration.

Other code receives the two or three objects that it needs; only front ends and instruments use the
application. Everything is created on first use, so that listing conversations, for example, loads
no provider.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from vibe_llms.configuration.definitions import DIRECTORY_STORE, TERMINAL_APPROVER
from vibe_llms.exceptions import DependencyError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.reprs import represent
from vibe_llms.providers.address_book import AddressBook
from vibe_llms.providers.client_pool import ClientPool, evict_oldest

if TYPE_CHECKING:
    import asyncio
    from typing import Any, Self, Unpack

    from vibe_llms.configuration.classes import Configuration
    from vibe_llms.conversations.index import Index
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.guards.active import ActiveGuard
    from vibe_llms.guards.arguments import ArgumentGuard
    from vibe_llms.invocables.approvals import DeferringApprover
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.invocables.mcp.ensembles import Answerers, McpEnsemble
    from vibe_llms.messages.vendor_files import VendorFileNotes
    from vibe_llms.models.addresses import ModelAddress
    from vibe_llms.models.catalogue import Catalogue
    from vibe_llms.models.genera import Genus
    from vibe_llms.plugins.specification.daemons import Authorizer
    from vibe_llms.plugins.specification.users import Consent, Progress
    from vibe_llms.providers.interfaces import (
        CallModel,
        Client,
        ConverserModel,
        ModelDescriptor,
        Provider,
    )
    from vibe_llms.providers.shared_limits import Budgets
    from vibe_llms.telemetry.opentelemetry import OpenTelemetryObserver


class Application(Closing):
    """The loaded configuration: plugins, models, stored conversations.

    Args:
        configuration: The user's configuration.
        consent: Called before code is fetched or a large file is downloaded; by default the setting
            ``yes`` answers, without asking the user.
        progress: Shows long operations; by default nothing is shown.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        consent: Consent | None = None,
        progress: Progress | None = None,
    ) -> None:
        # Imported here, so that importing the package stays fast.
        from vibe_llms.plugins.manager import PluginManager

        self.configuration = configuration
        callbacks: dict[str, Any] = {"consent": consent, "progress": progress}
        self.plugins = PluginManager(
            configuration=configuration,
            application=self,
            **{name: value for name, value in callbacks.items() if value is not None},
        )
        self._addresses = AddressBook(configuration, lambda: self.catalogue)
        self._pool = ClientPool(lambda name: self.plugins.load_provider(name), self._produce_client)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # shared by all copies of its users: clients and plugins exist once

    def __repr__(self) -> str:
        return represent("Application", (("model", self.configuration.model),))

    @classmethod
    def load(
        cls,
        *,
        command_line: Mapping[str, Any] | None = None,
        consent: Consent | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Load the configuration.

        Raises:
            ConfigurationError: With all mistakes at once.
        """
        from vibe_llms.configuration.sources import load_configuration

        configuration = load_configuration(command_line=command_line or {})
        return cls(configuration, consent=consent, progress=progress)

    @cached_property
    def catalogue(self) -> Catalogue:
        """Catalogue of the known facts about the models of all providers."""
        return self.plugins.produce_catalogue()

    @cached_property
    def store(self) -> ConversationStore:
        """The configured store of conversations.

        Raises:
            UnknownNameError: No store has that name.
            PluginError: The store cannot be created.
        """
        from vibe_llms.conversations.stores.choosing import produce_shipped

        name = self.configuration.store
        shipped = produce_shipped(name, self.configuration.data_directory)
        return self.plugins.load_store(name) if shipped is None else shipped

    @cached_property
    def index(self) -> Index:
        """The index that lists and searches conversations."""
        if self.configuration.store != DIRECTORY_STORE:
            return self.store.index
        from vibe_llms.conversations.index import ConversationIndex

        return ConversationIndex.open_cached(
            self.configuration.data_directory / "conversations",
            self.configuration.cache_directory,
        )

    async def access_model(self, address: str = "", *, holder: object = None) -> ConverserModel:
        """Return a model that can be called.

        Args:
            address: ``provider:name``, a provider for its default model, or a name that only
                one provider knows; empty for the configured model.
            holder: The object that will :meth:`release` the model's client; by default the client
                stays open until :meth:`close`.

        Raises:
            UnknownNameError: No such provider or model.
            ConverseError: The provider cannot be loaded.
        """
        resolved = self.resolve_address(address)
        shared = await self._pool.access(resolved.provider, holder or self)
        self._addresses.ensure_configured(resolved, shared.client.provider)
        model = shared.models.get(resolved.name)
        if model is None:
            model = await shared.client.access_model(resolved.name)
            # Other models are not cached: the callers of this method refuse them.
            if model.descriptor.attributes.genus == "converser":
                model = await self._guard(model, "converser")
                evict_oldest(shared.models)
                shared.models[resolved.name] = model
        return model

    async def access(
        self, genus: Genus, address: str = "", *, holder: object = None
    ) -> CallModel[Any, Any]:
        """Return a model of another genus than converser, such as an embedder.

        Args:
            address: ``provider:name``, or a provider that has a default model of the genus; empty
                for the configured one.
            holder: As for :meth:`access_model`.

        Raises:
            UnknownNameError: No such provider, or it has no models of the genus.
            ConverseError: The provider cannot be loaded.
        """
        from vibe_llms.providers.genera import access_model

        resolved = self._addresses.resolve_call(genus, address)
        shared = await self._pool.access(resolved.provider, holder or self)
        self._addresses.ensure_configured(resolved, shared.client.provider)
        model = shared.call_models.get((genus, resolved.name))
        if model is None:
            model = await access_model(shared.client, resolved.name, genus)
            model = await self._guard(model, genus)
            evict_oldest(shared.call_models)
            shared.call_models[genus, resolved.name] = model
        return model

    @cached_property
    def guards(self) -> tuple[ActiveGuard, ...]:
        """The configured guards. Raises ConverseError: no model may be used without one.

        Not for the thread of an event loop: plugins may be imported.
        """
        return self.plugins.load_guards(self._access_unguarded) if self._is_guarded else ()

    @cached_property
    def _is_guarded(self) -> bool:
        return bool(self.configuration.guards)

    async def access_argument_guard(self) -> ArgumentGuard | None:
        """Return what examines the arguments of tools; ``None`` without such guards."""
        if not self._is_guarded:
            return None
        import asyncio

        from vibe_llms.guards.arguments import find_argument_guard

        return find_argument_guard(await asyncio.to_thread(lambda: self.guards))

    async def _guard(self, model: Any, genus: str) -> Any:
        """Return the model, or one that the configured guards watch."""
        if not self._is_guarded:
            return model
        import asyncio

        from vibe_llms.guards import guarding

        return guarding.guard(model, genus, await asyncio.to_thread(lambda: self.guards))

    async def _access_unguarded(self, genus: str, address: str) -> Any:
        """Return a model of a genus without its guards, which ask it."""
        from vibe_llms.models.genera import Genus

        is_converser = genus == "converser"
        access = self.access_model(address) if is_converser else self.access(Genus(genus), address)
        model: Any = await access
        return getattr(model, "unguarded", model)

    def restrict(self, named: Iterable[str] = ()) -> None:
        """Restrict from now on which models and files the clients of a daemon can use.

        Nothing is downloaded or installed, and no user is asked. A local file is a model only if
        the operator has configured it: as the default model, by an alias, or in ``named``. May be
        called again, with other names.

        Args:
            named: Further addresses that the operator has configured.
        """
        self._addresses.restrict(named)
        self.plugins.consent.is_revoked = True
        self._pool.forget_models()

    def ensure_configured(self, address: str) -> None:
        """Refuse a file that the operator has not configured; loads the provider to decide.

        Raises:
            UnknownNameError: The address names such a file, or no provider.
            ConverseError: The provider cannot be loaded.
        """
        if self._addresses.is_restricted:
            resolved = self.resolve_address(address)
            provider = self.plugins.load_provider(resolved.provider)
            self._addresses.ensure_configured(resolved, provider)

    def find_model(self, address: str, holder: object) -> ConverserModel | None:
        """Return a model that was accessed before; else ``None``: use :meth:`access_model`."""
        resolved = self._addresses.find(address)
        shared = resolved and self._pool.find(resolved.provider, self._find_loop(), holder)
        return shared.models.get(resolved.name) if resolved and shared else None

    def find_call_model(
        self, genus: Genus, address: str, holder: object
    ) -> CallModel[Any, Any] | None:
        """Return a model that was accessed before; else ``None``: use :meth:`access`."""
        resolved = self._addresses.find_call(genus, address)
        shared = resolved and self._pool.find(resolved.provider, self._find_loop(), holder)
        return shared.call_models.get((genus, resolved.name)) if resolved and shared else None

    @cached_property
    def _find_loop(self) -> Callable[[], asyncio.AbstractEventLoop]:
        """``asyncio.get_running_loop``; cached, because each import statement takes 2 µs."""
        import asyncio

        return asyncio.get_running_loop

    async def survey_models(
        self, provider: str, *, refresh: bool = False
    ) -> Sequence[ModelDescriptor]:
        """List the models of a provider, as it reports them; see ``Client.survey_models``.

        Raises:
            ConverseError: The provider cannot be loaded, or the request to its vendor failed.
        """
        shared = await self._pool.access(self.configuration.follow_aliases(provider), self)
        return await shared.client.survey_models(refresh=refresh)

    def resolve_address(self, address: str = "") -> ModelAddress:
        """Parse the name of a model; see :meth:`access_model`."""
        return self._addresses.resolve(address)

    @cached_property
    def controls(self) -> Mapping[str, Any]:
        """The configured default parameters of every request."""
        return self.configuration.controls

    @property
    def is_silent(self) -> bool:
        """True if neither plugins nor telemetry observe conversations."""
        return self.plugins.has_no_reactors and self._observer is None

    async def produce_reactors(self) -> Sequence[ConversationReactors]:
        """Create the reactors of plugins and telemetry for a conversation; once per turn."""
        reactors: Sequence[ConversationReactors] = ()
        if not self.plugins.has_no_reactors:  # checked first: a thread costs about 100 µs
            import asyncio

            reactors = await asyncio.to_thread(self.plugins.produce_reactors)
        return reactors if self._observer is None else [*reactors, self._observer.reactors]

    @property
    def call_listeners(self) -> tuple[OpenTelemetryObserver, ...]:
        """Listeners of calls outside of conversations: the configured telemetry."""
        return () if self._observer is None else (self._observer,)

    def share_budgets(self, budgets: Budgets) -> None:
        """Share the vendors' rate limits with other processes, for providers loaded from now on.

        The limits per minute still come from the settings of each provider.
        """
        self.plugins.budgets = budgets

    def add_vendor_files(self, notes: VendorFileNotes) -> None:
        """Use further notes about contents that vendors have, beside those of the store."""
        self.plugins.other_vendor_files = notes

    async def produce_listeners(self) -> Sequence[Callable[[Any], object]]:
        """Create the listeners of plugins and telemetry for a run; once per run."""
        listeners: Sequence[Callable[[Any], object]] = ()
        if not self.plugins.has_no_listeners:
            import asyncio

            listeners = await asyncio.to_thread(self.plugins.produce_listeners)
        return listeners if self._observer is None else [*listeners, self._observer]

    @cached_property
    def _observer(self) -> OpenTelemetryObserver | None:
        settings = self.configuration.access_table("telemetry")
        if not settings.get("opentelemetry"):
            return None
        from vibe_llms.telemetry.opentelemetry import OpenTelemetryObserver

        try:
            return OpenTelemetryObserver(captures_texts=settings.get("texts") or None)
        except DependencyError as error:  # answers are possible without telemetry
            import logging

            logging.getLogger("vibe_llms.telemetry").warning("%s", error)
            return None

    async def produce_approver(self, name: str | None = None) -> DeferringApprover | None:
        """Create an approver; ``None`` if only a person at a terminal approves.

        Args:
            name: Name of the approver; by default the configuration chooses.

        Raises:
            UnknownNameError: No approver has that name.
            PluginError: The approver cannot be created.
        """
        import asyncio

        name = name or self.configuration.approver
        if name == TERMINAL_APPROVER:
            return None
        return await asyncio.to_thread(self.plugins.load_approver, name)

    async def produce_authorizer(self, name: str) -> Authorizer:
        """Create the authorizer of a daemon's clients; the daemon closes it.

        Raises:
            UnknownNameError: No authorizer has that name.
            PluginError: The authorizer cannot be created.
        """
        import asyncio

        return await asyncio.to_thread(self.plugins.load_authorizer, name)

    async def produce_ensembles(self, names: Sequence[str]) -> tuple[Ensemble, ...]:
        """Create the ensembles that are configured under these names, not connected.

        Args:
            names: The names, in the order of the returned ensembles; repeated names count once.

        Raises:
            UnknownNameError: The configuration has no such ensemble; the error lists the known
                names, the most similar first.
            ConverseError: An ensemble cannot be loaded, or its settings are invalid.
        """
        import asyncio

        load = self.plugins.load_ensemble
        return tuple([await asyncio.to_thread(load, name) for name in dict.fromkeys(names)])

    async def produce_mcp_ensembles(
        self, sources: Sequence[str] | None = None, **answerers: Unpack[Answerers]
    ) -> tuple[McpEnsemble, ...]:
        """Create ensembles of MCP servers, not connected.

        Args:
            sources: Names of configured servers, and paths of files that name servers; ``None`` for
                all that are configured.
            answerers: Functions that answer the servers' requests; requests without one are
                denied.

        Raises:
            UnknownNameError: Neither a server nor a file has that name.
            ConfigurationError: The settings of a server are invalid.
        """
        import asyncio

        from vibe_llms.invocables.mcp.ensembles import produce_mcp_ensemble
        from vibe_llms.invocables.mcp.settings import access_servers

        servers = await asyncio.to_thread(access_servers, self.configuration, sources)
        grants = self.configuration.data_directory / "grants"
        limits = self.configuration.limits
        return tuple(
            produce_mcp_ensemble(server, grants=grants, limits=limits, **answerers)
            for server in servers
        )

    async def release(self, holder: object) -> None:
        """Close the clients of this event loop that only the holder uses."""
        await self._pool.release(holder)

    async def close(self) -> None:
        """Close all clients of this event loop."""
        await self._pool.close()

    def _produce_client(self, provider: Provider) -> Client:
        from vibe_llms.configuration.locating import locating

        with locating(self.configuration):
            return provider.produce_client()


_lock = threading.Lock()
_application: Application | None = None


def access_application(given: object = None) -> Application:
    """Return an application, or that of this process, built on first use."""
    global _application
    found = given if isinstance(given, Application) else _application
    if found is not None:  # fast path for each request, without the lock
        return found
    with _lock:
        _application = _application or Application.load()
        return _application
