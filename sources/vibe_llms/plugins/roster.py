"""The configured plugins: their states, and surveys of their specifications."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from vibe_llms.configuration.classes import Configuration, PluginEntry
from vibe_llms.exceptions import (
    ConverseError,
    DependencyError,
    PluginError,
    TrustError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.suggestions import order_by_nearness
from vibe_llms.plugins.availability import is_importable
from vibe_llms.plugins.listings import PluginListing, PluginState

if TYPE_CHECKING:  # listing plugins imports neither pluggy nor the layers below providers
    from vibe_llms.plugins.loading import PluginFailure, PluginHost
    from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification
    from vibe_llms.plugins.specification.conversations import StoreSpecification
    from vibe_llms.plugins.specification.models import ProviderSpecification
    from vibe_llms.plugins.specification.runs import ApproverSpecification, EnsembleSpecification
    from vibe_llms.plugins.specification.users import Consent

_T = TypeVar("_T")
_S = TypeVar("_S", "ProviderSpecification", "EnsembleSpecification")
_C = TypeVar("_C", "ApproverSpecification", "AuthorizerSpecification", "StoreSpecification")


@define(kw_only=True, eq=False)
class PluginRoster:
    """Finds, loads and surveys the plugins of a configuration; calls none of their factories.

    Attributes:
        configuration: The configuration, which names the plugins.
        consent: Asked before a package is installed.
        lock: Held during loads and surveys, which are serialized.
    """

    configuration: Configuration
    consent: Consent
    # Reentrant, because a provider's factory may ask for the attributes of its models, which takes
    # the lock again.
    lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    _host: PluginHost | None = attrs.field(default=None, init=False)

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """Failures of plugins so far, in their order."""
        return tuple(self._host.failures) if self._host else ()

    def is_loaded(self, entry: PluginEntry) -> bool:
        """Return whether a plugin was imported and is not set aside."""
        return self._host is not None and self._host.is_loaded(entry)

    def describe(self, entry: PluginEntry) -> PluginListing:
        """Return the listing of a plugin. Imports nothing."""
        failure = self._host.find_failure(entry) if self._host else None
        if not entry.is_enabled:
            state = PluginState.DISABLED
        elif not entry.is_trusted:
            state = PluginState.UNTRUSTED
        elif failure and failure.is_fatal:
            state = PluginState.FAILED
        elif self.is_loaded(entry):
            state = PluginState.LOADED
        elif is_importable(entry.module, [str(self._access_directory(entry))]):
            state = PluginState.AVAILABLE
        else:
            state = PluginState.NOT_INSTALLED
        return PluginListing(entry=entry, state=state, reason=failure.reason if failure else "")

    def access_entry(self, table: str, name: str) -> PluginEntry:
        """Return the entry of a name in the configuration. Raises UnknownNameError."""
        entries = {each.name: each for each in self.configuration.plugins if each.table == table}
        full_name = self.configuration.follow_aliases(name) if table == "providers" else name
        if full_name in entries:
            return entries[full_name]
        known = self.configuration.provider_names if table == "providers" else sorted(entries)
        raise UnknownNameError(
            kind=table.removesuffix("s"),
            name=name,
            known=order_by_nearness(name, known),
            remedy=f"Configure it: [{table}.{name}] with its module, and its package.",
        )

    def load(self, entry: PluginEntry) -> PluginHost:
        """Load a plugin. Raises TrustError, DependencyError, PluginError."""
        if not entry.is_enabled:
            raise PluginError(
                plugin=entry.name,
                detail=f"The plugin {entry.name!r} is disabled.",
                remedy="Remove it from plugins.disabled, and 'enabled = false' from its table.",
            )
        if not entry.is_trusted:
            raise TrustError(
                subject=f"plugin:{entry.name}",
                detail=f"{entry.source} loads the plugin {entry.module}, but that folder is not "
                "trusted.",
                remedy="To trust the folder and run its code: vibe trust",
            )
        host = self.access_host()
        host.load(entry, prepare=partial(self._install_package, entry))
        return host

    def access_host(self) -> PluginHost:
        """Return the host, which imports and calls plugins."""
        if self._host is None:
            from vibe_llms.plugins.loading import PluginHost

            self._host = PluginHost()
        return self._host

    def find_specification(self, entry: PluginEntry, kind: type[_S]) -> _S:
        """Find a plugin's specification by the name of its table. Raises as :meth:`load` does."""
        from vibe_llms.plugins.specification.models import ANY_NAME

        host = self.load(entry)
        specifications = host.call(entry, kind)
        # An exact name takes precedence over one that applies to any name.
        for name in (entry.name, ANY_NAME):
            for specification in specifications:
                if specification.name == name:
                    return specification
        names = ", ".join(repr(each.name) for each in specifications) or "none"
        failure = host.find_failure(entry)
        raise PluginError(
            plugin=entry.name,
            detail=f"The module {entry.module} ({entry.source}) has no "
            f"{entry.table.removesuffix('s')} {entry.name!r}; its survey_{entry.table} names "
            f"{names}.",
            remedy=failure.reason if failure else "Use one of these names.",
        )

    def survey(self, kind: type[_T]) -> list[tuple[PluginEntry, _T]]:
        """Call the hook for a kind of specification in each module; skip failing modules."""
        from vibe_llms.plugins.specification.hooks import find_hook

        return self.survey_hook(find_hook(kind))

    def survey_hook(self, hook: str) -> list[tuple[PluginEntry, Any]]:
        """Call a hook in each module; skip failing modules.

        Imports the types of the hook's items only if a module has the hook.
        """
        answers: list[tuple[PluginEntry, Any]] = []
        surveyed_modules: set[str] = set()
        with self.lock:
            for entry in self.configuration.plugins:
                # Several tables may name one module, whose hooks would return the same again.
                if entry.module in surveyed_modules or not self._is_surveyed(entry, hook):
                    continue
                if not self.describe(entry).is_usable:
                    continue
                surveyed_modules.add(entry.module)
                with self.record_failures(entry):
                    specifications = self.load(entry).call_hook(entry, hook)
                    answers += [(entry, specification) for specification in specifications]
        return answers

    def _is_surveyed(self, entry: PluginEntry, hook: str) -> bool:
        """Return whether a survey calls the plugin's hook, and loads it if necessary."""
        from vibe_llms.plugins.specification.hooks import ALWAYS_IN_USE

        if entry.table == "plugins":
            return True
        # An ensemble's or a provider's module must not be loaded only for its reactors.
        if hook == "survey_reactors":
            return self.is_loaded(entry)
        return hook not in ALWAYS_IN_USE  # these are called only in plugins of [plugins]

    def choose(
        self, setting: str, name: str, kind: type[_C], *, shipped: str = ""
    ) -> tuple[PluginEntry, _C]:
        """Find the user's choice among the plugins' specifications: an approver, a store.

        Args:
            setting: The setting that chooses it, such as ``approver``.
            name: The user's value.
            kind: Type of the specification.
            shipped: The name of the shipped one, if there is one; no plugin can use this name.

        Raises:
            UnknownNameError: The name is unknown: another one must not replace it.
        """
        found: list[tuple[PluginEntry, _C]] = self.survey(kind)
        for entry, specification in found:
            if specification.name == name:
                return entry, specification
        plugins = [each for each in self.configuration.plugins if each.table == "plugins"]
        unusable = [each for each in map(self.describe, plugins) if not each.is_usable]
        reasons = ", ".join(f"{each.entry.name} ({each.reason or each.state})" for each in unusable)
        names = [shipped] if shipped else []
        names += [each.name for _, each in found]
        remedy = f"Set {setting} to a known name"
        raise UnknownNameError(
            kind=setting,
            name=name,
            known=order_by_nearness(name, names),
            remedy=f"{remedy}. Plugins that cannot be used: {reasons}."
            if reasons
            else f"{remedy}, or add the plugin that provides it.",
        )

    def survey_directories(self, entry: PluginEntry) -> tuple[Path, ...]:
        """List the plugin's directories with data about the models of an entry's provider.

        The plugin's data for any provider are returned only if neither the plugin nor vibe-llms
        has data for this provider's name.
        """
        from vibe_llms.plugins.specification.models import ANY_NAME, ModelAttributesSpecification

        host = self.load(entry)
        found = host.call(entry, ModelAttributesSpecification)
        own_directories = tuple(each.directory for each in found if each.provider == entry.name)
        has_shipped_data = access_data("providers", entry.name).is_dir()
        if own_directories or has_shipped_data:
            return own_directories
        return tuple(each.directory for each in found if each.provider == ANY_NAME)

    def check(self, entry: PluginEntry) -> None:
        """Load a plugin and call all its survey hooks. Raises its failure."""
        from vibe_llms.plugins.specification.hooks import HOOKS, access_kind

        host = self.load(entry)
        for hook in HOOKS:
            host.call(entry, access_kind(hook))
        hook = f"survey_{entry.table}"
        # After a recorded failure, a missing specification is only its consequence.
        if hook in HOOKS and host.find_failure(entry) is None:
            self.find_specification(entry, access_kind(hook))

    @contextmanager
    def record_failures(self, entry: PluginEntry) -> Iterator[None]:
        """Record an error that the block raises as a failure of a plugin, and continue after it."""
        try:
            yield
        except ConverseError as error:
            known = ((failure.name, failure.error) for failure in self.failures)
            if not any(name == entry.name and other is error for name, other in known):
                self.access_host().record_failure(entry, error)

    @contextmanager
    def warn_of_failures(self) -> Iterator[None]:
        """Report each new failure in a warning."""
        with self.lock:
            before = len(self.failures)
            yield
            for failure in self.failures[before:]:
                import logging  # needed only after a failure

                logging.getLogger("vibe_llms.plugins").warning(
                    "The plugin %r (%s): %s", failure.name, failure.place, failure.reason
                )

    def _access_directory(self, entry: PluginEntry) -> Path:
        """Return the directory for the plugin's package and its dependencies."""
        return self.configuration.data_directory / "plugins" / entry.name

    def _install_package(self, entry: PluginEntry) -> None:
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
                    detail=f"The package of the plugin {entry.name!r} cannot be installed in "
                    f"{directory}: {error.strerror}.",
                ) from error
