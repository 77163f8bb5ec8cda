"""What was configured, and where each value came from.

These are named tuples because every command reads the configuration before anything else, and
to start with attrs would cost once more what Python's own start costs (decision 0008).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from vibe_llms.foundation.limits import Limits
    from vibe_llms.messages.requests import WindowPolicy
    from vibe_llms.tables.documents import Document

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Layer(enum.StrEnum):
    """Where a value can come from; a later layer wins over an earlier one."""

    DEFAULTS = "defaults"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


class Source(NamedTuple):
    """The place where somebody wrote a value.

    Attributes:
        layer: The layer.
        place: The file's path, or the name of the environment variable.
        document: The file, where there is one.
        path: The way to the value in it.
    """

    layer: Layer
    place: str = ""
    document: Document | None = None
    path: tuple[str | int, ...] = ()

    @property
    def line(self) -> int:
        """Counted from 1; 0 where the place has no lines. Few ask, and to count takes a while."""
        return 0 if self.document is None else self.document.find_line(self.path)

    def __str__(self) -> str:
        place = f"{self.place}:{self.line}" if self.line else self.place
        return f"{self.layer} {place}".rstrip()


class Setting(NamedTuple):
    """One value, the way to it through the tables, and its source.

    Attributes:
        written: The way as it was written, where that is by another name of a provider.
    """

    path: tuple[str, ...]
    value: Any
    source: Source
    written: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return _represent(self, without="value")

    @property
    def name(self) -> str:
        """The dotted name under which it is set."""
        return ".".join(self.path)


class PluginEntry(NamedTuple):
    """A plugin which the configuration names.

    Attributes:
        table: ``providers``, ``ensembles`` or ``plugins``: the table that names it.
        name: Its name in that table.
        module: The module that has its hooks.
        source: Where the module was named.
        package: The requirement which, installed, brings the module; empty where none is named.
        is_enabled: Whether it may be loaded at all.
        is_trusted: Whether it may be loaded as far as the project folder's trust goes.
        settings: Whatever else its table holds; only the plugin knows what it means.
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
    """What a user says about models: one ``[[models]]``, or ``[defaults]``.

    Attributes:
        pattern: A regular expression that compiles; ``None`` where it is ``[defaults]``, which
            means all models.
        source: Where it was written.
        provider: Whose models are meant; ``None`` means everybody's.
        attributes: The other keys, flat, as in the files of ``data/providers``.
    """

    pattern: str | None
    source: Source
    provider: str | None = None
    attributes: Mapping[str, Any] = _NOTHING


class ConfigurationFile(NamedTuple):
    """A file that was read, or would have been, had it existed."""

    layer: Layer
    path: Path
    exists: bool


class TrustRequest(NamedTuple):
    """What a project folder's file asks for and does not get before its owner trusts it.

    Attributes:
        folder: The folder that holds ``.vibe-llms``.
        file: The file.
        digest: The SHA-256 of the file as it was read, in hexadecimal.
        settings: What is inert meanwhile.
        data_directory: The user's own data directory, where trust is recorded. The project
            cannot move it.
    """

    folder: Path
    file: Path
    digest: str
    settings: tuple[Setting, ...]
    data_directory: Path


class Configuration(NamedTuple):
    """Everything the user wrote, merged; each value with its source.

    Attributes:
        settings: The value that won, by dotted name. The settings of plugins are among them.
        plugins: The plugins named, in the order in which they were first named.
        overrides: Every ``[[models]]``, in the order of the layers: later wins.
        files: The files looked at, in the order of the layers.
        trust_request: What the project's file asks for in vain; ``None`` where nothing is.
    """

    settings: Mapping[str, Setting]
    plugins: tuple[PluginEntry, ...]
    overrides: tuple[ModelOverride, ...] = ()
    files: tuple[ConfigurationFile, ...] = ()
    trust_request: TrustRequest | None = None

    @property
    def model(self) -> str:
        """The model to converse with: ``provider:name``, or a provider for its default."""
        return str(self.settings["model"].value)

    @property
    def aliases(self) -> dict[str, str]:
        """From another name to the provider, or to the address of the model, that it stands for."""
        return self.access_table("aliases")

    @property
    def provider_names(self) -> tuple[str, ...]:
        """Providers, and their other names, by the alphabet; another name of a model is none."""
        meant = {name: self.follow_aliases(name) for name in self.aliases}
        others = (name for name, address in meant.items() if address in self.providers)
        return tuple(sorted({*self.providers, *others}))

    def follow_aliases(self, address: str) -> str:
        """Returns what a person calls a model or a provider, without the aliases in it.

        An alias stands for a whole address, or for a provider before a colon. It hides no provider.
        """
        aliases, providers = self.aliases, self.providers
        for _ in aliases:  # an alias of an alias is fine; one of itself ends, too
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
        """Whether answers are shown while they arrive."""
        return bool(self.settings["stream"].value)

    @property
    def window(self) -> WindowPolicy:
        """What becomes of the oldest turns of a conversation that exceeds the model's window."""
        window: WindowPolicy = self.settings["window"].value
        return window

    @property
    def lenient(self) -> bool:
        """Whether a control that a model does not take is left out, and told as a loss."""
        return bool(self.settings["lenient"].value)

    @property
    def approver(self) -> str:
        """Who decides which calls are executed: ``terminal``, or what a plugin has."""
        return str(self.settings["approver"].value)

    @property
    def store(self) -> str:
        """Where conversations are kept: ``directory``, or what a plugin has."""
        return str(self.settings["store"].value)

    @property
    def yes(self) -> bool:
        """Whether every question for consent counts as answered with yes."""
        return bool(self.settings["yes"].value)

    @property
    def data_directory(self) -> Path:
        """Where conversations, weights, plugins and trust are kept. It may not exist yet."""
        return Path(self.settings["directories.data"].value)

    @property
    def cache_directory(self) -> Path:
        """Where is kept what may be deleted at any time. It may not exist yet."""
        return Path(self.settings["directories.cache"].value)

    @property
    def controls(self) -> dict[str, Any]:
        """Control values which every request starts from, by control name."""
        return self.access_table("controls")

    @property
    def limits(self) -> Limits:
        """The named limits."""
        from vibe_llms.foundation.limits import Limits  # whoever converses needs them

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
        """What is said about MCP servers: of each, by name, its settings by their keys."""
        servers: dict[str, dict[str, Setting]] = {}
        for setting in self.settings.values():
            if setting.path[0] == "mcp":
                servers.setdefault(setting.path[1], {})[setting.path[2]] = setting
        return servers

    def access_table(self, table: str) -> dict[str, Any]:
        """Returns the values directly or deeper below a table, by the rest of their names."""
        prefix = f"{table}."
        return {
            name.removeprefix(prefix): setting.value
            for name, setting in self.settings.items()
            if name.startswith(prefix)
        }


def _represent(value: Any, *, without: str) -> str:
    """Writes a named tuple out, but for the field that may hold a provider's secret."""
    fields = (f"{name}={inner!r}" for name, inner in value._asdict().items() if name != without)
    return f"{type(value).__name__}({', '.join(fields)})"
