"""Read one layer's tree into settings, and report all of its errors at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vibe_llms.configuration.classes import Layer, ModelOverride, Setting, Source
from vibe_llms.configuration.definitions import (
    ADDRESS,
    ALIASES,
    DEFAULTS,
    DIRECTORY,
    FREE_TABLES,
    NAMED_TABLES,
    OVERRIDE_KEYS,
    PLUGIN_KEYS,
    PLUGIN_TABLES,
    Definition,
    define_limit,
    is_plugin_name,
)
from vibe_llms.foundation.suggestions import find_nearest, suggest
from vibe_llms.tables.kinds import FAULTY, Kind
from vibe_llms.tables.paths import KeyPath, write_path
from vibe_llms.tables.reading import Position, TableReader

if TYPE_CHECKING:
    from vibe_llms.exceptions import Finding

_TABLES = (*PLUGIN_TABLES, *NAMED_TABLES, "models", ALIASES, DEFAULTS, *FREE_TABLES)


class LayerValues(NamedTuple):
    """The values of one layer."""

    settings: Mapping[tuple[str, ...], Setting] = MappingProxyType({})
    overrides: tuple[ModelOverride, ...] = ()


class LayerReader(TableReader):
    """Reads one layer.

    Attributes:
        layer: The layer.
        definitions: The known settings, by dotted name.
        produce_source: Returns the source of a path.
        resolve: Makes a path of this layer absolute.
        findings: The errors found so far; shared with the other layers.
        provider_aliases: The provider of each alias. A table with the name of an alias has settings
            of that provider, unless it names a module: then it defines a provider of its own.
    """

    def __init__(
        self,
        *,
        layer: Layer,
        definitions: Mapping[str, Definition],
        produce_source: Callable[[KeyPath], Source],
        resolve: Callable[[str], Path],
        findings: list[Finding],
        provider_aliases: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(self._find_position, findings)
        self.layer = layer
        self.definitions = definitions
        self.produce_source = produce_source
        self.resolve = resolve
        self.provider_aliases = provider_aliases
        self.settings: dict[tuple[str, ...], Setting] = {}
        self.overrides: list[ModelOverride] = []

    def read_layer(self, tree: Mapping[str, Any]) -> LayerValues:
        """Read the whole tree; invalid values become findings and are left out."""
        for key, value in tree.items():
            if key == "plugins":
                self._read_plugins(value)
            elif key in PLUGIN_TABLES:
                self._read_plugin_tables(key, value)
            elif key in NAMED_TABLES:
                self._read_plugin_tables(key, value, keys={})
            elif key == "models":
                self._read_overrides(value)
            elif key == DEFAULTS:
                attributes = dict(self.survey((key,), value))
                source = self.produce_source((key,))
                # First, wherever it is in the file: [[models]] override these attributes.
                self.overrides.insert(0, ModelOverride(None, source, attributes=attributes))
            elif key == ALIASES:
                for name, inner in self.survey((key,), value):
                    if self._check_name((key, name)):
                        self._add((key, name), inner, ADDRESS)
            elif key in FREE_TABLES:
                for name, inner in self.survey((key,), value):
                    self._add((key, name), inner)
            else:
                self._read_value((key,), value)
        return LayerValues(self.settings, tuple(self.overrides))

    def _read_value(self, path: tuple[str, ...], value: Any) -> None:
        """Read a known setting, or a table that contains known settings."""
        name = ".".join(path)
        definition = self.definitions.get(name)
        if definition is None and path[0] == "limits" and self.layer is Layer.DEFAULTS:
            definition = define_limit(name) if len(path) == 2 else None
        if definition is not None:
            self._read_defined(path, value, definition)
        elif any(known.startswith(f"{name}.") for known in self.definitions) or path == ("limits",):
            for key, inner in self.survey(path, value):
                self._read_value((*path, key), inner)
        else:
            self._report_unknown(path)

    def _read_defined(self, path: tuple[str, ...], value: Any, definition: Definition) -> None:
        if definition.name == "yes" and self.layer is Layer.PROJECT:
            self.report(
                path,
                "A project cannot set 'yes': set it in the user's own file, in "
                f"{definition.variable}, or on the command line.",
            )
        else:
            self._add(path, value, definition.kind)

    def _read_plugins(self, value: Any) -> None:
        """Read ``plugins``, where tables of plugins are mixed with our own settings."""
        tables = {}
        for key, inner in self.survey(("plugins",), value):
            if f"plugins.{key}" in self.definitions or not isinstance(inner, Mapping):
                self._read_value(("plugins", key), inner)
            else:
                tables[key] = inner
        self._read_plugin_tables("plugins", tables)

    def _read_plugin_tables(
        self, table: str, value: Any, keys: Mapping[str, Kind] = PLUGIN_KEYS
    ) -> None:
        for name, entry in self.survey((table,), value):
            if not self._check_name((table, name)):
                continue
            full_name = name
            if table == "providers" and isinstance(entry, Mapping) and "module" not in entry:
                full_name = self.provider_aliases.get(name, name)
            for key, inner in self.survey((table, name), entry):
                path = (table, full_name, key)
                self._add(path, inner, keys.get(key), written_path=(table, name, key))

    def _check_name(self, path: tuple[str, str]) -> bool:
        if is_plugin_name(path[1]):
            return True
        self.report(path, "A name may contain only letters, digits, '_', '.' and '-'.")
        return False

    def _read_overrides(self, value: Any) -> None:
        if not isinstance(value, (list, tuple)):
            self.report(("models",), "It must be an array of tables: write [[models]].")
            return
        for index, entry in enumerate(value):
            path = ("models", index)
            attributes = dict(self.survey(path, entry))
            fields = {key: attributes.pop(key) for key in OVERRIDE_KEYS if key in attributes}
            required = ("pattern",) if isinstance(entry, Mapping) else ()
            values = self.read_fields(OVERRIDE_KEYS, fields, path, required)
            # Leave one with an error out as a whole: without its provider it would apply to more
            # models.
            if "pattern" in values and values.keys() == fields.keys():
                source = self.produce_source(path)
                self.overrides.append(ModelOverride(**fields, attributes=attributes, source=source))

    def _add(
        self,
        path: tuple[str, ...],
        value: Any,
        kind: Kind | None = None,
        written_path: tuple[str, ...] | None = None,
    ) -> None:
        """Add a setting, if its value is valid; ``written_path`` is its path in the file."""
        written_path = path if written_path is None else written_path
        if kind is not None and kind.read(value, written_path, self) is FAULTY:
            return
        resolved = self.resolve(value) if kind is DIRECTORY else value
        source = self.produce_source(written_path)
        other_path = () if written_path == path else written_path
        self.settings[path] = Setting(path, resolved, source, other_path)

    def _report_unknown(self, path: tuple[str, ...]) -> None:
        name = ".".join(path)
        tables = {known.partition(".")[0] for known in self.definitions}
        end = suggest(name, {*self.definitions, *tables, *_TABLES})
        if end == ".":  # no suggestion: the name may be a key without its table
            names_by_key = {known.rpartition(".")[2]: known for known in self.definitions}
            nearest = find_nearest(name, names_by_key)
            end = f"; did you mean {names_by_key[nearest]!r}?" if nearest else end
        self.report(path, f"Unknown setting{end}")

    def _find_position(self, path: KeyPath) -> Position:
        source = self.produce_source(path)
        return source.place or str(source.layer), source.line, 0, write_path(path)
