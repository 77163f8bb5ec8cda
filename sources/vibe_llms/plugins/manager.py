"""The plugins of an application: what is configured, and the providers it makes of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from vibe_llms.configuration.classes import Configuration, PluginEntry
from vibe_llms.exceptions import ConverseError, PluginError, TrustError, UnknownNameError
from vibe_llms.plugins.availability import is_importable
from vibe_llms.plugins.consents import SettledConsent, SilentProgress
from vibe_llms.plugins.listings import PluginListing, PluginState

if TYPE_CHECKING:  # to list plugins costs neither pluggy nor what lies below providers
    from vibe_llms.models.catalogue import Catalogue
    from vibe_llms.plugins.loading import PluginFailure, PluginHost
    from vibe_llms.plugins.specification import (
        CommandSpecification,
        Consent,
        Progress,
        ProviderContext,
        ProviderSpecification,
        ReactorsSpecification,
    )
    from vibe_llms.providers.interfaces import Provider

_T = TypeVar("_T")


@attrs.define(kw_only=True, eq=False)
class PluginManager:
    """Lists the configured plugins, and loads each when it is first used.

    Attributes:
        configuration: Names them.
        consent: Asked before a package is installed, and by providers. By default nobody is
            asked, and the setting ``yes`` answers.
        progress: Shows long work of providers; by default nothing is shown.
    """

    configuration: Configuration
    consent: Consent = attrs.field()
    progress: Progress = attrs.field(factory=SilentProgress)
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
        if name not in self._providers:
            entry = self._access_entry(name)
            specification = self._find_specification(entry)
            self._providers[name] = self._produce(entry, specification)
        return self._providers[name]

    def load_all(self) -> tuple[PluginFailure, ...]:
        """Loads every plugin that is available, asks each what it has, and returns what failed.

        Installs nothing and asks nobody.
        """
        from vibe_llms.plugins.specification import ModelAttributesSpecification

        self.survey_providers()
        self.survey_reactors()
        self.survey_commands()
        for _ in self._survey_hook("survey_model_attributes", ModelAttributesSpecification):
            pass
        return self.failures

    def survey_providers(self) -> tuple[ProviderSpecification, ...]:
        """Returns the providers of all plugins that are available, with their summaries.

        Loads the plugins; see :meth:`survey` for a listing that does not.
        """
        from vibe_llms.plugins.specification import ProviderSpecification

        return tuple(self._survey_hook("survey_providers", ProviderSpecification))

    def survey_commands(self) -> tuple[CommandSpecification, ...]:
        """Returns the commands of all plugins that are available. Loads them."""
        from vibe_llms.plugins.specification import CommandSpecification

        return tuple(self._survey_hook("survey_commands", CommandSpecification))

    def survey_reactors(self) -> tuple[ReactorsSpecification, ...]:
        """Returns the reactors of the plugins in use: those without a provider, which are in
        use always and so are loaded, and those whose provider has been loaded.
        """
        from vibe_llms.plugins.specification import ReactorsSpecification

        in_use = [
            listing
            for listing in self.survey()
            if listing.entry.table == "plugins" or listing.state is PluginState.LOADED
        ]
        return tuple(self._survey_hook("survey_reactors", ReactorsSpecification, in_use))

    def produce_catalogue(self) -> Catalogue:
        """Produces the catalogue of models of all providers that are available. Loads them."""
        names = [
            listing.entry.name
            for listing in self.survey()
            if listing.entry.table == "providers" and listing.is_usable
        ]
        directories = {}
        for name in names:
            try:
                directories[name] = self._survey_directories(self.configuration.providers[name])
            except ConverseError:
                continue  # among the failures by now; the others' models are wanted
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

    def _access_entry(self, name: str) -> PluginEntry:
        entry = self.configuration.providers.get(name)
        if entry is not None:
            return entry
        from vibe_llms.nearness import find_nearest

        known = sorted(self.configuration.providers)
        nearest = find_nearest(name, known)
        raise UnknownNameError(
            kind="provider",
            name=name,
            known=tuple(sorted(known, key=lambda word: word != nearest)),
            remedy=f"Configure it: [providers.{name}] with its module, and its package.",
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
        if self._host is None:
            from vibe_llms.plugins.loading import PluginHost

            self._host = PluginHost()
        self._host.load(entry, prepare=partial(self._prepare, entry))
        return self._host

    def _prepare(self, entry: PluginEntry) -> None:
        if entry.package:
            from vibe_llms.plugins.installation import ensure_installed

            ensure_installed(entry, self._access_directory(entry), self.consent)

    def _survey_hook(
        self, hook: str, kind: type[_T], listings: Sequence[PluginListing] | None = None
    ) -> Iterator[_T]:
        """Asks each module once, by default of all plugins; those that fail are passed over."""
        modules = set()
        for listing in self.survey() if listings is None else listings:
            if not listing.is_usable or listing.entry.module in modules:
                continue
            modules.add(listing.entry.module)
            try:
                answer = self._load(listing.entry).call(listing.entry, hook, kind)
            except ConverseError:
                continue  # among the failures by now
            yield from answer

    def _find_specification(self, entry: PluginEntry) -> ProviderSpecification:
        from vibe_llms.plugins.specification import ProviderSpecification

        host = self._load(entry)
        found = host.call(entry, "survey_providers", ProviderSpecification)
        for specification in found:
            if specification.name == entry.name:
                return specification
        names = ", ".join(repr(specification.name) for specification in found) or "none"
        failure = host.find_failure(entry)
        raise PluginError(
            plugin=entry.name,
            detail=f"The module {entry.module} ({entry.source}) has no provider {entry.name!r}; "
            f"its survey_providers names {names}.",
            remedy=failure.reason if failure else "Configure it under the name it has.",
        )

    def _produce(self, entry: PluginEntry, specification: ProviderSpecification) -> Provider:
        try:
            provider = specification.factory(self._produce_context(entry))
        except ConverseError:
            raise
        except Exception as error:
            raise PluginError(
                plugin=entry.name,
                detail=f"The provider {entry.name!r} ({entry.module}) cannot be made: "
                f"{type(error).__name__}: {error}.",
            ) from error
        if not callable(getattr(provider, "produce_client", None)):
            raise PluginError(
                plugin=entry.name,
                detail=f"The factory of the provider {entry.name!r} ({entry.module}) returned "
                f"{type(provider).__name__}, which cannot produce_client.",
            )
        return provider

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
            produce_attributes=partial(self._produce_attributes, entry),
        )

    def _produce_attributes(self, entry: PluginEntry) -> Any:
        catalogue = self._produce_catalogue({entry.name: self._survey_directories(entry)})
        return catalogue.access_integrator(entry.name)

    def _survey_directories(self, entry: PluginEntry) -> tuple[Path, ...]:
        from vibe_llms.plugins.specification import ModelAttributesSpecification

        host = self._load(entry)
        found = host.call(entry, "survey_model_attributes", ModelAttributesSpecification)
        return tuple(item.directory for item in found if item.provider == entry.name)

    def _produce_catalogue(self, directories: dict[str, tuple[Path, ...]]) -> Catalogue:
        from vibe_llms.models.catalogue import Catalogue
        from vibe_llms.models.folders import Overrides

        overrides = []
        for override in self.configuration.overrides:
            table: dict[str, object] = {**override.attributes, "pattern": override.pattern}
            if override.provider is not None:
                table["provider"] = override.provider
            place = f"{override.source.place}:{override.source.line}"
            overrides.append(Overrides(place=place, table={"models": [table]}))
        return Catalogue(plugin_directories=directories, overrides=tuple(overrides))
