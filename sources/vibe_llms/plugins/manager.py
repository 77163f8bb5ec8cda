"""The plugins of an application: what is configured, and what it makes of that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from vibe_llms.clocks import Clock
from vibe_llms.configuration.classes import Configuration, PluginEntry
from vibe_llms.configuration.locating import locating
from vibe_llms.exceptions import (
    ConverseError,
    DependencyError,
    PluginError,
    TrustError,
    UnknownNameError,
)
from vibe_llms.plugins.availability import is_importable
from vibe_llms.plugins.consents import SettledConsent, SilentProgress
from vibe_llms.plugins.factories import explain_factory
from vibe_llms.plugins.listings import PluginListing, PluginState
from vibe_llms.resources import access_data

if TYPE_CHECKING:  # to list plugins costs neither pluggy nor what lies below providers
    from vibe_llms.engine.contexts import RunEvent
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.invocables.approvals import DeferringApprover
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.models.catalogue import Catalogue
    from vibe_llms.plugins.loading import PluginFailure, PluginHost
    from vibe_llms.plugins.specification import (
        CommandSpecification,
        Consent,
        EnsembleContext,
        EnsembleSpecification,
        Progress,
        ProviderContext,
        ProviderSpecification,
        ReactorsSpecification,
        TransportSpecification,
    )
    from vibe_llms.providers.interfaces import Provider

_T = TypeVar("_T")
_S = TypeVar("_S", "ProviderSpecification", "EnsembleSpecification")


@attrs.define(kw_only=True, eq=False)
class PluginManager:
    """Lists the configured plugins, and loads each when it is first used.

    Safe for several threads. One at a time loads and asks plugins: while it installs a
    package, or its user thinks about whether to, the others wait.

    Attributes:
        configuration: Names them.
        consent: Asked before a package is installed, and by plugins. By default nobody is
            asked, and the setting ``yes`` answers.
        progress: Shows long work of plugins; by default nothing is shown.
    """

    configuration: Configuration
    consent: Consent = attrs.field()
    progress: Progress = attrs.field(factory=SilentProgress)
    clock: Clock = attrs.field(factory=Clock)
    # Reentrant: the factory of a provider may ask for the attributes of its models.
    _lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    _host: PluginHost | None = attrs.field(default=None, init=False)
    _providers: dict[str, Provider] = attrs.field(factory=dict, init=False)

    @consent.default
    def _settle_consent(self) -> Consent:
        return SettledConsent(self.configuration.yes)

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """What went wrong with plugins so far, in the order in which it did."""
        return tuple(self._host.failures) if self._host else ()

    def survey(self) -> tuple[PluginListing, ...]:
        """Lists the configured plugins, in their order. Imports none of them."""
        return tuple(self._describe(entry) for entry in self.configuration.plugins)

    def load_provider(self, name: str) -> Provider:
        """Returns the provider of this name, the same one each time.

        Imports its plugin, and installs the plugin's package if need be, after consent.

        Raises:
            UnknownNameError: The configuration has no such provider.
            TrustError: Its project folder is not trusted, or installing was not consented to.
            DependencyError: A package that it needs is missing.
            PluginError: It is disabled, or fails.
        """
        with self._lock:
            if name not in self._providers:
                entry = self._access_entry("providers", name)
                self._providers[name] = self._produce_provider(entry)
            return self._providers[name]

    def load_ensemble(self, name: str) -> Ensemble:
        """Makes an ensemble of this name: a new one each time, as each is connected once.

        Imports its plugin, and installs the plugin's package if need be, after consent.

        Raises:
            UnknownNameError: The configuration has no such ensemble.
            TrustError: Its project folder is not trusted, or installing was not consented to.
            DependencyError: A package that it needs is missing.
            ConfigurationError: Its settings do not hold.
            PluginError: It is disabled, or fails.
        """
        with self._lock:
            return self._produce_ensemble(self._access_entry("ensembles", name))

    def load_approver(self, name: str) -> DeferringApprover:
        """Makes an approver of a plugin of ``[plugins]``. Raises UnknownNameError, PluginError."""
        from vibe_llms.plugins.approvers import choose_approver, make_approver
        from vibe_llms.plugins.specification import ApproverSpecification

        found = self._survey_always(ApproverSpecification)
        entry, specification = choose_approver(name, found, self.survey())
        with locating(self.configuration), explain_factory(entry):
            return make_approver(entry, specification)

    def load_all(self) -> tuple[PluginFailure, ...]:
        """Loads every plugin, asks each what it has, and returns all that failed.

        Installs nothing and asks nobody: what waits for its package is passed over.
        """
        with self._lock:
            for entry in self.configuration.plugins:
                is_meant = entry.is_enabled and entry.is_trusted
                if is_meant and (not entry.package or self._describe(entry).is_usable):
                    self._check(entry)
            return self.failures

    def survey_providers(self) -> tuple[ProviderSpecification, ...]:
        """Returns the providers of all plugins that are available, with their summaries.

        Loads the plugins; see :meth:`survey` for a listing that does not.
        """
        from vibe_llms.plugins.specification import ProviderSpecification

        return tuple(item for _, item in self._survey("survey_providers", ProviderSpecification))

    def survey_ensembles(self) -> tuple[EnsembleSpecification, ...]:
        """Returns the ensembles of all plugins that are available, with their summaries.

        Loads the plugins; see :meth:`survey` for a listing that does not.
        """
        from vibe_llms.plugins.specification import EnsembleSpecification

        return tuple(item for _, item in self._survey("survey_ensembles", EnsembleSpecification))

    def survey_commands(self) -> tuple[CommandSpecification, ...]:
        """Returns the commands of all plugins that are available. Loads them.

        One that fails is named in a warning and among the failures, once, and the others go on.
        """
        from vibe_llms.plugins.specification import CommandSpecification

        with self._warn_of_failures():
            return tuple(item for _, item in self._survey("survey_commands", CommandSpecification))

    def survey_pieces(self, kind: type[_T]) -> tuple[_T, ...]:
        """Returns what the plugins of ``[plugins]`` have of a kind, such as exporters.

        Loads these plugins alone. One that fails is named in a warning and among the failures,
        once, and the others go on.

        Args:
            kind: What the list of a hook is made of, such as ``ExporterSpecification``.
        """
        with self._warn_of_failures():
            return tuple(item for _, item in self._survey_always(kind))

    def survey_reactors(self) -> tuple[ReactorsSpecification, ...]:
        """Returns the reactors of the plugins in use: those of ``[plugins]``, which are in use
        always and so are loaded, and those whose provider or ensemble has been loaded.
        """
        return tuple(specification for _, specification in self._survey_reactors())

    def produce_reactors(self) -> list[ConversationReactors]:
        """Makes the reactors of the plugins in use (:meth:`survey_reactors`), for one turn.

        What fails at this is named in a warning and among the failures, once, and set aside.
        Not for the thread of an event loop: the first call imports plugins.
        """
        with self._warn_of_failures():
            made = [
                self._access_host().produce_reactors(entry, specification)
                for entry, specification in self._survey_reactors()
            ]
            return [reactors for reactors in made if reactors is not None]

    def produce_listeners(self) -> list[Callable[[RunEvent], object]]:
        """Makes what listens to a run, as :meth:`produce_reactors` does for a turn."""
        from vibe_llms.plugins.specification import ListenerSpecification

        with self._warn_of_failures():
            made = [
                self._access_host().produce_listener(entry, specification)
                for entry, specification in self._survey_always(ListenerSpecification)
            ]
            return [listener for listener in made if listener is not None]

    @contextmanager
    def _warn_of_failures(self) -> Iterator[None]:
        """Names in a warning each failure that is new."""
        with self._lock:
            before = len(self.failures)
            yield
            for failure in self.failures[before:]:
                import logging  # needed after a mistake only

                logging.getLogger("vibe_llms.plugins").warning(
                    "The plugin %r (%s): %s", failure.name, failure.place, failure.reason
                )

    def produce_catalogue(self) -> Catalogue:
        """Produces the catalogue of models of all providers that are available. Loads them."""
        directories = {}
        with self._lock:
            for entry in self.configuration.providers.values():
                if self._describe(entry).is_usable:
                    with self._set_failures_aside(entry):
                        directories[entry.name] = self._survey_directories(entry)
        return self._produce_catalogue(directories)

    def _describe(self, entry: PluginEntry) -> PluginListing:
        failure = self._host.find_failure(entry) if self._host else None
        if not entry.is_enabled:
            state = PluginState.DISABLED
        elif not entry.is_trusted:
            state = PluginState.UNTRUSTED
        elif failure and failure.is_fatal:
            state = PluginState.FAILED
        elif self._host and self._host.is_loaded(entry):
            state = PluginState.LOADED
        elif is_importable(entry.module, [str(self._access_directory(entry))]):
            state = PluginState.AVAILABLE
        else:
            state = PluginState.NOT_INSTALLED
        return PluginListing(entry=entry, state=state, reason=failure.reason if failure else "")

    def _access_directory(self, entry: PluginEntry) -> Path:
        """Returns the directory for the plugin's package and all that it depends on."""
        return self.configuration.data_directory / "plugins" / entry.name

    def _access_entry(self, table: str, name: str) -> PluginEntry:
        entries = {each.name: each for each in self.configuration.plugins if each.table == table}
        meant = self.configuration.follow_aliases(name) if table == "providers" else name
        if meant in entries:
            return entries[meant]
        from vibe_llms.nearness import find_nearest

        known = self.configuration.provider_names if table == "providers" else sorted(entries)
        nearest = find_nearest(name, known)
        raise UnknownNameError(
            kind=table.removesuffix("s"),
            name=name,
            known=tuple(sorted(known, key=lambda word: word != nearest)),
            remedy=f"Configure it: [{table}.{name}] with its module, and its package.",
        )

    def _load(self, entry: PluginEntry) -> PluginHost:
        if not entry.is_enabled:
            raise PluginError(
                plugin=entry.name,
                detail=f"The plugin {entry.name!r} is disabled.",
                remedy="Take it out of plugins.disabled, and out of its table 'enabled = false'.",
            )
        if not entry.is_trusted:
            raise TrustError(
                subject=f"plugin:{entry.name}",
                detail=f"{entry.source} wants to load {entry.module}, and that folder is not "
                "trusted.",
                remedy="If its code may run here, run: vibe trust",
            )
        host = self._access_host()
        host.load(entry, prepare=partial(self._prepare, entry))
        return host

    def _access_host(self) -> PluginHost:
        if self._host is None:
            from vibe_llms.plugins.loading import PluginHost

            self._host = PluginHost()
        return self._host

    def _prepare(self, entry: PluginEntry) -> None:
        if entry.package:
            from vibe_llms.plugins.installation import ensure_installed

            directory = self._access_directory(entry)
            try:
                ensure_installed(entry, directory, self.consent)
            except ConverseError:
                raise  # some of these are an OSError too
            except OSError as error:
                raise DependencyError(
                    package=entry.package,
                    detail=f"The package of the plugin {entry.name!r} cannot be put into "
                    f"{directory}: {error.strerror}.",
                ) from error

    def _survey_reactors(self) -> list[tuple[PluginEntry, ReactorsSpecification]]:
        from vibe_llms.plugins.specification import ReactorsSpecification

        in_use = [
            entry
            for entry in self.configuration.plugins
            if entry.table == "plugins" or (self._host and self._host.is_loaded(entry))
        ]
        return self._survey("survey_reactors", ReactorsSpecification, in_use)

    def _survey_always(self, kind: type[_T]) -> list[tuple[PluginEntry, _T]]:
        """Asks the plugins of ``[plugins]``, which are in use always, for what is of a kind."""
        from vibe_llms.plugins.specification import HOOKS

        (hook,) = (hook for hook, made_of in HOOKS.items() if made_of is kind)
        entries = [entry for entry in self.configuration.plugins if entry.table == "plugins"]
        return self._survey(hook, kind, entries)

    def _survey(
        self, hook: str, kind: type[_T], entries: Sequence[PluginEntry] | None = None
    ) -> list[tuple[PluginEntry, _T]]:
        """Asks each module once, by default of all plugins; those that fail are passed over."""
        answers: dict[str, list[tuple[PluginEntry, _T]]] = {}
        with self._lock:
            for entry in self.configuration.plugins if entries is None else entries:
                if entry.module in answers or not self._describe(entry).is_usable:
                    continue
                answers[entry.module] = []
                with self._set_failures_aside(entry):
                    found = self._load(entry).call(entry, hook, kind)
                    answers[entry.module] += [(entry, item) for item in found]
        return [answer for found in answers.values() for answer in found]

    @contextmanager
    def _set_failures_aside(self, entry: PluginEntry) -> Iterator[None]:
        """What a plugin fails with becomes one of the failures, and the others go on."""
        try:
            yield
        except ConverseError as error:
            known = ((failure.name, failure.error) for failure in self.failures)
            if not any(name == entry.name and other is error for name, other in known):
                self._access_host().note(entry, error)

    def _check(self, entry: PluginEntry) -> None:
        """Loads a plugin, asks it for all that it has, and reads what it says of models."""
        from vibe_llms.plugins.specification import HOOKS

        with self._set_failures_aside(entry):
            host = self._load(entry)
            for hook, kind in HOOKS.items():
                host.call(entry, hook, kind)
            hook = f"survey_{entry.table}"
            if hook in HOOKS and host.find_failure(entry) is None:  # the reason for another
                self._find_specification(entry, hook, HOOKS[hook])
            if entry.table == "providers":
                self._produce_attributes(entry)

    def _find_specification(self, entry: PluginEntry, hook: str, kind: type[_S]) -> _S:
        from vibe_llms.plugins.specification import ANY_NAME

        host = self._load(entry)
        found = host.call(entry, hook, kind)
        for name in (entry.name, ANY_NAME):
            for specification in found:
                if specification.name == name:
                    return specification
        names = ", ".join(repr(specification.name) for specification in found) or "none"
        failure = host.find_failure(entry)
        raise PluginError(
            plugin=entry.name,
            detail=f"The module {entry.module} ({entry.source}) has no "
            f"{entry.table.removesuffix('s')} {entry.name!r}; its {hook} names {names}.",
            remedy=failure.reason if failure else "Configure it under the name it has.",
        )

    def _produce_provider(self, entry: PluginEntry) -> Provider:
        from vibe_llms.plugins.specification import ProviderSpecification

        specification = self._find_specification(entry, "survey_providers", ProviderSpecification)
        with locating(self.configuration), explain_factory(entry):
            provider = specification.factory(self._produce_context(entry))
        if not callable(getattr(provider, "produce_client", None)):
            raise PluginError(
                plugin=entry.name,
                detail=f"The factory of the provider {entry.name!r} ({entry.module}) returned "
                f"{type(provider).__name__}, which cannot produce_client.",
            )
        return provider

    def _produce_ensemble(self, entry: PluginEntry) -> Ensemble:
        from vibe_llms.invocables.ensembles import Ensemble
        from vibe_llms.plugins.specification import EnsembleSpecification

        specification = self._find_specification(entry, "survey_ensembles", EnsembleSpecification)
        with locating(self.configuration), explain_factory(entry):
            ensemble = specification.factory(self._produce_ensemble_context(entry))
        if not isinstance(ensemble, Ensemble):
            raise PluginError(
                plugin=entry.name,
                detail=f"The factory of the ensemble {entry.name!r} ({entry.module}) returned "
                f"{type(ensemble).__name__}, which is no ensemble.",
            )
        return ensemble

    def _produce_ensemble_context(self, entry: PluginEntry) -> EnsembleContext:
        from vibe_llms.plugins.specification import EnsembleContext

        return EnsembleContext(
            name=entry.name,
            settings=entry.settings,
            working_directory=Path.cwd(),
            data_directory=self.configuration.data_directory / "ensembles" / entry.name,
            cache_directory=self.configuration.cache_directory / "ensembles" / entry.name,
            consent=self.consent,
            progress=self.progress,
            limits=self.configuration.limits,
        )

    def _produce_context(self, entry: PluginEntry) -> ProviderContext:
        from vibe_llms.plugins.specification import ProviderContext

        return ProviderContext(
            name=entry.name,
            settings=entry.settings,
            data_directory=self.configuration.data_directory / "providers" / entry.name,
            cache_directory=self.configuration.cache_directory / "providers" / entry.name,
            consent=self.consent,
            progress=self.progress,
            limits=self.configuration.limits,
            clock=self.clock,
            produce_attributes=partial(self._produce_attributes, entry),
            survey_transports=self._survey_transports,
        )

    def _survey_transports(self) -> tuple[TransportSpecification, ...]:
        from vibe_llms.plugins.specification import TransportSpecification

        with self._warn_of_failures():
            found = self._survey_always(TransportSpecification)
            return tuple(attrs.evolve(item, plugin=entry.name) for entry, item in found)

    def _produce_attributes(self, entry: PluginEntry) -> Any:
        with self._lock:
            directories = self._survey_directories(entry)
        catalogue = self._produce_catalogue({entry.name: directories})
        return catalogue.access_integrator(entry.name)

    def _survey_directories(self, entry: PluginEntry) -> tuple[Path, ...]:
        """Lists where the plugin has data about a provider's models.

        What it has for any name holds where nothing is known by the name itself.
        """
        from vibe_llms.plugins.specification import ANY_NAME, ModelAttributesSpecification

        host = self._load(entry)
        found = host.call(entry, "survey_model_attributes", ModelAttributesSpecification)
        own = tuple(item.directory for item in found if item.provider == entry.name)
        if own or access_data("providers", entry.name).is_dir():
            return own
        return tuple(item.directory for item in found if item.provider == ANY_NAME)

    def _produce_catalogue(self, directories: dict[str, tuple[Path, ...]]) -> Catalogue:
        from vibe_llms.models.catalogue import Catalogue
        from vibe_llms.models.folders import Overrides

        overrides = []
        for override in self.configuration.overrides:
            table: dict[str, object] = dict(override.attributes)
            if override.provider is not None:
                table["provider"] = self.configuration.follow_aliases(override.provider)
            whole: dict[str, object] = {"defaults": table}
            if override.pattern is not None:
                whole = {"models": [{**table, "pattern": override.pattern}]}
            place = f"{override.source.place}:{override.source.line}"
            overrides.append(Overrides(place=place, table=whole))
        return Catalogue(
            providers=tuple(directories),
            plugin_directories=directories,
            overrides=tuple(overrides),
        )
