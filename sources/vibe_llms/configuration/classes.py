"""The configuration, and the source of each value.

These are named tuples because every command reads the configuration before anything else, and
importing attrs would double Python's own start-up time (decision 0008).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from vibe_llms.foundation.limits import Limits
    from vibe_llms.messages.contents import CacheHint
    from vibe_llms.messages.requests import WindowPolicy
    from vibe_llms.tables.documents import Document

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Layer(enum.StrEnum):
    """Layers of the configuration; a later layer overrides an earlier one."""

    DEFAULTS = "defaults"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


class Source(NamedTuple):
    """The place of a value.

    Attributes:
        layer: The layer.
        place: The file's path, or the name of the environment variable.
        document: The file, if there is one.
        path: The path of the value in it.
    """

    layer: Layer
    place: str = ""
    document: Document | None = None
    path: tuple[str | int, ...] = ()

    @property
    def line(self) -> int:
        """The line, from 1; 0 if the place has no lines. Computed on demand, as that is slow."""
        return 0 if self.document is None else self.document.find_line(self.path)

    def __str__(self) -> str:
        place = f"{self.place}:{self.line}" if self.line else self.place
        return f"{self.layer} {place}".rstrip()


class Setting(NamedTuple):
    """One value, its path through the tables, and its source.

    Attributes:
        path: The path, with the name of the provider in place of its alias.
        value: The value.
        source: The source.
        written_path: The path as written, if it uses an alias of a provider; otherwise empty.
    """

    path: tuple[str, ...]
    value: Any
    source: Source
    written_path: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return _represent(self, without="value")

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)


class PluginEntry(NamedTuple):
    """A plugin in the configuration.

    Attributes:
        table: ``providers``, ``ensembles`` or ``plugins``: the table that names it.
        name: Name of the plugin in that table.
        module: The module that has its hooks.
        source: The place where the module was named.
        package: The requirement that provides the module; empty if none is named.
        is_enabled: Whether it may be loaded at all.
        is_trusted: Whether the trust in the project folder allows loading it.
        settings: The other keys of its table; only the plugin knows their meaning.
    """

    table: str
    name: str
    module: str
    source: Source
    package: str = ""
    is_enabled: bool = True
    is_trusted: bool = True
    settings: Mapping[str, Any] = _NOTHING

    def __repr__(self) -> str:
        return _represent(self, without="settings")


class ModelOverride(NamedTuple):
    """The user's attributes of models: one ``[[models]]``, or ``[defaults]``.

    Attributes:
        pattern: A valid regular expression; ``None`` for ``[defaults]``, which means all models.
        source: The place where the value was written.
        provider: The provider of the models; ``None`` means all providers.
        attributes: The other keys, flat, as in the files of ``data/providers``.
    """

    pattern: str | None
    source: Source
    provider: str | None = None
    attributes: Mapping[str, Any] = _NOTHING


class ConfigurationFile(NamedTuple):
    """A configuration file that was read, or looked for."""

    layer: Layer
    path: Path
    exists: bool


class TrustRequest(NamedTuple):
    """Settings of a project's file that have no effect until the folder is trusted.

    Attributes:
        folder: The folder that has ``.vibe-llms``.
        file: The file.
        digest: The SHA-256 of the file as it was read, in hexadecimal.
        settings: The settings without effect.
        data_directory: The user's own data directory, where trust is recorded. The project cannot
            move it.
    """

    folder: Path
    file: Path
    digest: str
    settings: tuple[Setting, ...]
    data_directory: Path


class Configuration(NamedTuple):
    """The merged configuration; each value has its source.

    Attributes:
        settings: The settings in effect, by dotted name, including those of plugins.
        plugins: The plugins, in the order in which they were first named.
        overrides: Every ``[[models]]``, in the order of the layers; later ones override earlier.
        files: The files of all layers, also those that do not exist.
        trust_request: The settings of the project's file without effect; ``None`` without any.
    """

    settings: Mapping[str, Setting]
    plugins: tuple[PluginEntry, ...]
    overrides: tuple[ModelOverride, ...] = ()
    files: tuple[ConfigurationFile, ...] = ()
    trust_request: TrustRequest | None = None

    @property
    def model(self) -> str:
        """The default model: ``provider:name``, or a provider for its default model."""
        return str(self.settings["model"].value)

    def find_default(self, genus: str) -> str:
        """Return the default model of another genus than converser, as :attr:`model` is.

        Raises:
            ConfigurationError: There is none.
        """
        if genus in self.settings:
            return str(self.settings[genus].value)
        from vibe_llms.exceptions import ConfigurationError

        raise ConfigurationError(
            detail=f"There is no default {genus}.",
            remedy=f"Name a model, or set one: vibe config set {genus} <provider>:<model>",
        )

    @property
    def aliases(self) -> dict[str, str]:
        """The provider, or the address of the model, that each alias stands for."""
        return self.access_table("aliases")

    @property
    def provider_names(self) -> tuple[str, ...]:
        """Names of providers and their aliases, sorted; aliases of models are left out."""
        addresses = {name: self.follow_aliases(name) for name in self.aliases}
        others = (name for name, address in addresses.items() if address in self.providers)
        return tuple(sorted({*self.providers, *others}))

    def follow_aliases(self, address: str) -> str:
        """Return the name of a model or a provider with its aliases resolved.

        An alias stands for a whole address, or for a provider before a colon. It does not hide a
        provider.
        """
        aliases, providers = self.aliases, self.providers
        for _ in aliases:  # an alias of an alias is valid; the limit ends a cycle of aliases
            provider, colon, name = address.partition(":")
            if address in aliases and address not in providers:
                address = aliases[address]
            elif provider in aliases and provider not in providers:
                address = f"{aliases[provider]}{colon}{name}"
            else:
                break
        return address

    @property
    def stream(self) -> bool:
        """True if answers are streamed to the user."""
        return bool(self.settings["stream"].value)

    @property
    def window(self) -> WindowPolicy:
        """Handling of the oldest turns of a conversation that exceeds the model's window."""
        window: WindowPolicy = self.settings["window"].value
        return window

    @property
    def lenient(self) -> bool:
        """True if an unsupported control is left out and reported as a loss."""
        return bool(self.settings["lenient"].value)

    @property
    def cache(self) -> CacheHint | None:
        """The cache hint of all requests; ``None`` if prompt caching is off."""
        value = str(self.settings["cache"].value)
        if value == "off":
            return None
        from vibe_llms.messages.contents import CacheHint

        return CacheHint(None if value == "on" else value)

    @property
    def approver(self) -> str:
        """The approver of calls: ``terminal``, or one of a plugin."""
        return str(self.settings["approver"].value)

    @property
    def store(self) -> str:
        """The store of conversations: ``directory``, or one of a plugin."""
        return str(self.settings["store"].value)

    @property
    def yes(self) -> bool:
        """True if every question for consent is answered with yes."""
        return bool(self.settings["yes"].value)

    @property
    def data_directory(self) -> Path:
        """Directory of conversations, weights, plugins and trust. It may not exist yet."""
        return Path(self.settings["directories.data"].value)

    @property
    def cache_directory(self) -> Path:
        """Directory of files that may be deleted at any time. It may not exist yet."""
        return Path(self.settings["directories.cache"].value)

    @property
    def controls(self) -> dict[str, Any]:
        """Default controls of every request, by name."""
        return self.access_table("controls")

    @property
    def limits(self) -> Limits:
        """The named limits."""
        from vibe_llms.foundation.limits import Limits  # only conversations need them

        return Limits(**self.access_table("limits"))

    @property
    def providers(self) -> dict[str, PluginEntry]:
        """The plugins that are configured as providers, by name."""
        return {entry.name: entry for entry in self.plugins if entry.table == "providers"}

    @property
    def ensembles(self) -> dict[str, PluginEntry]:
        """The plugins that are configured as ensembles, by name."""
        return {entry.name: entry for entry in self.plugins if entry.table == "ensembles"}

    @property
    def servers(self) -> dict[str, dict[str, Setting]]:
        """Settings of MCP servers, by server and key."""
        return self._group("mcp")

    @property
    def guards(self) -> dict[str, dict[str, Setting]]:
        """Settings of guards, by guard and key."""
        return self._group("guards")

    def _group(self, table: str) -> dict[str, dict[str, Setting]]:
        """Return the settings of a table of tables, by the name of the inner table and key."""
        groups: dict[str, dict[str, Setting]] = {}
        for setting in self.settings.values():
            if setting.path[0] == table:
                groups.setdefault(setting.path[1], {})[setting.path[2]] = setting
        return groups

    def access_table(self, table: str) -> dict[str, Any]:
        """Return the values in a table, at any depth, by the rest of their names."""
        prefix = f"{table}."
        return {
            name.removeprefix(prefix): setting.value
            for name, setting in self.settings.items()
            if name.startswith(prefix)
        }


def _represent(value: Any, *, without: str) -> str:
    """Format a named tuple without the field that may have a provider's secret."""
    fields = (f"{name}={inner!r}" for name, inner in value._asdict().items() if name != without)
    return f"{type(value).__name__}({', '.join(fields)})"
