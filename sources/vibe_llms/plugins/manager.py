"""Manager of an application's plugins: lists and loads them, and makes their objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from vibe_llms.configuration.classes import Configuration, PluginEntry
from vibe_llms.configuration.definitions import DIRECTORY_STORE, TERMINAL_APPROVER
from vibe_llms.configuration.locating import locating
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.clocks import Clock
from vibe_llms.plugins.consents import RevocableConsent, SettledConsent, SilentProgress
from vibe_llms.plugins.listings import PluginListing
from vibe_llms.plugins.roster import PluginRoster

if TYPE_CHECKING:  # listing plugins imports neither pluggy nor the layers below providers
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.engine.contexts import RunEvent
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.guards.active import ActiveGuard
    from vibe_llms.invocables.approvals import DeferringApprover
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.messages.vendor_files import VendorFileNotes
    from vibe_llms.models.catalogue import Catalogue
    from vibe_llms.plugins.loading import PluginFailure
    from vibe_llms.plugins.specification.daemons import Authorizer
    from vibe_llms.plugins.specification.models import TransportSpecification
    from vibe_llms.plugins.specification.users import Consent, Progress
    from vibe_llms.providers.interfaces import Provider
    from vibe_llms.providers.shared_limits import Budgets

_T = TypeVar("_T")


@define(kw_only=True, eq=False)
class PluginManager:
    """Lists the configured plugins, and loads each when it is first used.

    Thread-safe. One thread at a time loads and calls plugins: while it installs a package, or waits
    for the user's consent, the others wait.

    Attributes:
        configuration: The configuration, which names the plugins.
        consent: Asked before a package is installed, and by plugins. By default the setting ``yes``
            answers, without asking the user. A daemon revokes it.
        progress: Shows long operations of plugins; by default nothing is shown.
        clock: The clock for timeouts.
        budgets: Rate limits that are shared with other processes; ``None`` if they are not shared.
        other_vendor_files: Notes about contents at vendors beside those of the store; ``None``
            without any.
        application: The ``Application``, whose module is above this one; ensembles receive it.
    """

    configuration: Configuration
    consent: RevocableConsent = attrs.field(converter=RevocableConsent)
    progress: Progress = attrs.field(factory=SilentProgress)
    clock: Clock = attrs.field(factory=Clock)
    budgets: Budgets | None = None
    other_vendor_files: VendorFileNotes | None = None
    application: object = attrs.field(default=None, repr=False)
    _roster: PluginRoster = attrs.field(init=False)
    _providers: dict[str, Provider] = attrs.field(factory=dict, init=False)
    _absent: dict[str, int] = attrs.field(factory=dict, init=False)
    """Number of loaded plugins when none of them had reactors, or listeners; by that word."""

    @consent.default
    def _produce_consent(self) -> Consent:
        return SettledConsent(self.configuration.yes)

    @_roster.default
    def _produce_roster(self) -> PluginRoster:
        return PluginRoster(configuration=self.configuration, consent=self.consent)

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """Failures of plugins so far, in their order."""
        return self._roster.failures

    def survey(self) -> tuple[PluginListing, ...]:
        """List the configured plugins, in their order. Imports none of them."""
        return tuple(self._roster.describe(entry) for entry in self.configuration.plugins)

    def load_provider(self, name: str) -> Provider:
        """Return the provider of this name, the same one each time.

        Import its plugin; install the plugin's package if necessary, after consent.

        Raises:
            UnknownNameError: The configuration has no such provider.
            TrustError: Its project folder is not trusted, or the user did not consent to install.
            DependencyError: A required package is missing.
            PluginError: It is disabled, or fails.
        """
        with self._roster.lock:
            if name not in self._providers:
                entry = self._roster.access_entry("providers", name)
                self._providers[name] = self._produce_provider(entry)
            return self._providers[name]

    def load_ensemble(self, name: str) -> Ensemble:
        """Make an ensemble of this name: a new one each time, as each is connected once.

        Import its plugin; install the plugin's package if necessary, after consent.

        Raises:
            UnknownNameError: The configuration has no such ensemble.
            TrustError: Its project folder is not trusted, or the user did not consent to install.
            DependencyError: A required package is missing.
            ConfigurationError: Its settings are invalid.
            PluginError: It is disabled, or fails.
        """
        with self._roster.lock:
            return self._produce_ensemble(self._roster.access_entry("ensembles", name))

    def load_approver(self, name: str) -> DeferringApprover:
        """Make an approver of a plugin of ``[plugins]``. Raises UnknownNameError, PluginError."""
        from vibe_llms.plugins.factories import make_approver
        from vibe_llms.plugins.specification.runs import ApproverContext, ApproverSpecification

        entry, specification = self._roster.choose(
            "approver", name, ApproverSpecification, shipped=TERMINAL_APPROVER
        )
        context = ApproverContext(name=name, settings=entry.settings, working_directory=Path.cwd())
        with locating(self.configuration):
            return make_approver(entry, specification, context)

    def load_authorizer(self, name: str) -> Authorizer:
        """Make an authorizer, as :meth:`load_approver` does an approver."""
        from vibe_llms.plugins.factories import make_authorizer
        from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification
        from vibe_llms.plugins.specification.daemons import AuthorizerContext

        entry, specification = self._roster.choose("authorizer", name, AuthorizerSpecification)
        context = AuthorizerContext(
            name=name,
            settings=entry.settings,
            data_directory=self.configuration.data_directory / "authorizers" / name,
            clock=self.clock,
        )
        with locating(self.configuration):
            return make_authorizer(entry, specification, context)

    def load_store(self, name: str) -> ConversationStore:
        """Make a store of a plugin of ``[plugins]``. Raises UnknownNameError, PluginError."""
        from vibe_llms.plugins.factories import make_store
        from vibe_llms.plugins.specification.conversations import StoreContext, StoreSpecification

        entry, specification = self._roster.choose(
            "store", name, StoreSpecification, shipped=DIRECTORY_STORE
        )
        context = StoreContext(
            name=name,
            settings=entry.settings,
            data_directory=self.configuration.data_directory / "stores" / name,
            cache_directory=self.configuration.cache_directory / "stores" / name,
        )
        with locating(self.configuration):
            return make_store(entry, specification, context)

    def load_guards(self, access: Callable[[str, str], Awaitable[Any]]) -> tuple[ActiveGuard, ...]:
        """Make the guards of ``[guards]``, in the order of the tables.

        Args:
            access: Returns an unguarded model by the word of its genus and its address.

        Raises:
            ConfigurationError: A table is invalid.
            UnknownNameError: A kind is unknown.
            PluginError: A guard cannot be created.
        """
        from vibe_llms.plugins.guards import make_guards

        with self._roster.warn_of_failures(), locating(self.configuration):
            return make_guards(self.configuration.guards, self._roster, access)

    def load_all(self) -> tuple[PluginFailure, ...]:
        """Load every plugin, survey each, and return all failures.

        Installs nothing and asks for no consent: plugins that lack their package are skipped.
        """
        with self._roster.lock:
            for entry in self.configuration.plugins:
                # Disabled and untrusted ones are the user's choice, not failures.
                if not (entry.is_enabled and entry.is_trusted):
                    continue
                if not entry.package or self._roster.describe(entry).is_usable:
                    with self._roster.record_failures(entry):
                        self._roster.check(entry)
                        if entry.table == "providers":
                            self._produce_attributes(entry)
            return self.failures

    def survey_specifications(self, kind: type[_T]) -> tuple[_T, ...]:
        """Return the plugins' specifications of a kind, such as exporters.

        Loads the plugins of ``[plugins]`` and calls their hooks. For providers, ensembles and
        commands, the same is done with all other available plugins; for reactors, only with those
        that have been loaded already. A failing plugin is reported in a warning and added to the
        failures, once, and the others are used.

        Args:
            kind: Type of a hook's items, such as ``ExporterSpecification``.
        """
        with self._roster.warn_of_failures():
            return tuple(item for _, item in self._roster.survey(kind))

    def produce_reactors(self) -> list[ConversationReactors]:
        """Make the reactors for one turn, of the plugins that :meth:`survey_specifications` uses.

        A failing plugin is reported in a warning and added to the failures, once, and set aside.
        Not for the thread of an event loop: the first call imports plugins.
        """
        return self._produce_all("reactors")

    @property
    def has_no_reactors(self) -> bool:
        """True if it is known that no plugin in use has reactors. Imports nothing."""
        return self._is_absent("reactors")

    def produce_listeners(self) -> list[Callable[[RunEvent], object]]:
        """Make the listeners of a run, as :meth:`produce_reactors` does for a turn."""
        return self._produce_all("listeners")

    @property
    def has_no_listeners(self) -> bool:
        """True if it is known that no plugin in use has listeners. Imports nothing."""
        return self._is_absent("listeners")

    def _produce_all(self, name: str) -> list[Any]:
        with self._roster.warn_of_failures():
            specifications = self._roster.survey_hook(f"survey_{name}")
            host = self._roster.access_host()
            # Outdated when another plugin is loaded: the plugin of a provider may have reactors.
            self._absent[name] = -1 if specifications else host.loaded_count
            objects = [host.make(entry, specification) for entry, specification in specifications]
            return [each for each in objects if each is not None]

    def _is_absent(self, name: str) -> bool:
        return self._absent.get(name) == self._roster.access_host().loaded_count

    def produce_catalogue(self) -> Catalogue:
        """Create the catalogue of models of all available providers. Loads them."""
        directories = {}
        with self._roster.lock:
            for entry in self.configuration.providers.values():
                if self._roster.describe(entry).is_usable:
                    with self._roster.record_failures(entry):
                        directories[entry.name] = self._roster.survey_directories(entry)
        return _produce_catalogue(self.configuration, directories)

    def _produce_provider(self, entry: PluginEntry) -> Provider:
        from vibe_llms.plugins.factories import make_provider
        from vibe_llms.plugins.specification.models import ProviderContext, ProviderSpecification

        specification = self._roster.find_specification(entry, ProviderSpecification)
        context = ProviderContext(
            name=entry.name,
            settings=entry.settings,
            data_directory=self.configuration.data_directory / "providers" / entry.name,
            cache_directory=self.configuration.cache_directory / "providers" / entry.name,
            consent=self.consent,
            progress=self.progress,
            limits=self.configuration.limits,
            clock=self.clock,
            produce_attributes=partial(self._produce_attributes, entry),
            find_base=partial(self._find_base, entry),
            survey_transports=self._survey_transports,
            access_vendor_files=self._access_vendor_files,
            budgets=self.budgets,
        )
        with locating(self.configuration):
            return make_provider(entry, specification, context)

    def _access_vendor_files(self) -> VendorFileNotes | None:
        """Return the notes of the application's store about contents that vendors have."""
        store: ConversationStore | None = getattr(self.application, "store", None)
        if store is None or self.other_vendor_files is None:
            return self.other_vendor_files if store is None else store.vendor_files
        from vibe_llms.messages.vendor_files import ChainedNotes

        return ChainedNotes((self.other_vendor_files, store.vendor_files))

    def _find_base(self, entry: PluginEntry, name: str) -> Path:
        """Return the directory of the file that contains a setting of a provider."""
        setting = self.configuration.settings.get(f"{entry.table}.{entry.name}.{name}")
        place = Path(setting.source.place) if setting is not None else Path()
        return place.parent if place.is_file() else Path()

    def _produce_ensemble(self, entry: PluginEntry) -> Ensemble:
        from vibe_llms.plugins.factories import make_ensemble
        from vibe_llms.plugins.specification.runs import EnsembleContext, EnsembleSpecification

        specification = self._roster.find_specification(entry, EnsembleSpecification)
        context = EnsembleContext(
            name=entry.name,
            settings=entry.settings,
            working_directory=Path.cwd(),
            data_directory=self.configuration.data_directory / "ensembles" / entry.name,
            cache_directory=self.configuration.cache_directory / "ensembles" / entry.name,
            consent=self.consent,
            progress=self.progress,
            limits=self.configuration.limits,
            application=self.application,
        )
        with locating(self.configuration):
            return make_ensemble(entry, specification, context)

    def _survey_transports(self) -> tuple[TransportSpecification, ...]:
        from vibe_llms.plugins.specification.models import TransportSpecification

        with self._roster.warn_of_failures():
            found = self._roster.survey(TransportSpecification)
            return tuple(attrs.evolve(item, plugin=entry.name) for entry, item in found)

    def _produce_attributes(self, entry: PluginEntry) -> Any:
        with self._roster.lock:
            directories = self._roster.survey_directories(entry)
        catalogue = _produce_catalogue(self.configuration, {entry.name: directories})
        return catalogue.access_integrator(entry.name)


def _produce_catalogue(
    configuration: Configuration, directories: dict[str, tuple[Path, ...]]
) -> Catalogue:
    from vibe_llms.models.catalogue import Catalogue
    from vibe_llms.models.folders import Overrides

    overrides = []
    for override in configuration.overrides:
        table: dict[str, object] = dict(override.attributes)
        if override.provider is not None:
            table["provider"] = configuration.follow_aliases(override.provider)
        document: dict[str, object] = {"defaults": table}
        if override.pattern is not None:
            document = {"models": [{**table, "pattern": override.pattern}]}
        place = f"{override.source.place}:{override.source.line}"
        overrides.append(Overrides(place=place, table=document))
    return Catalogue(
        providers=tuple(directories),
        plugin_directories=directories,
        overrides=tuple(overrides),
    )
