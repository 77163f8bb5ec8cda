"""Reads the tree of one layer into settings, and finds all mistakes in it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vibe_llms.configuration.classes import Layer, ModelOverride, Setting, Source
from vibe_llms.configuration.definitions import (
    ADDRESS,
    ALIASES,
    DEFAULTS,
    FREE_TABLES,
    NAMED_TABLES,
    PATH,
    PLUGIN_KEYS,
    PLUGIN_TABLES,
    Definition,
    Kind,
    define_limit,
    is_plugin_name,
)
from vibe_llms.nearness import find_nearest, suggest

if TYPE_CHECKING:
    from vibe_llms.exceptions import Finding

KeyPath = tuple[str | int, ...]


class LayerValues(NamedTuple):
    """What one layer says."""

    settings: Mapping[tuple[str, ...], Setting] = MappingProxyType({})
    overrides: tuple[ModelOverride, ...] = ()


class LayerReader:
    """Reads one layer.

    Attributes:
        layer: Which one.
        definitions: The settings that exist, by dotted name.
        produce_source: Tells where the key with a path was written.
        resolve: Makes a path that was written in this layer absolute.
        findings: The mistakes found so far; shared with the other layers.
        synonyms: From another name of a provider to its own: what is said of the one is said of
            the other, unless it names a module and so means a provider of its own.
    """

    def __init__(
        self,
        *,
        layer: Layer,
        definitions: Mapping[str, Definition],
        produce_source: Callable[[KeyPath], Source],
        resolve: Callable[[str], Path],
        findings: list[Finding],
        synonyms: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.layer = layer
        self.definitions = definitions
        self.produce_source = produce_source
        self.resolve = resolve
        self.findings = findings
        self.synonyms = synonyms
        self.settings: dict[tuple[str, ...], Setting] = {}
        self.overrides: list[ModelOverride] = []

    def read(self, tree: Mapping[str, Any]) -> LayerValues:
        """Reads the whole tree; what does not hold becomes a finding and is left out."""
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
                attributes = dict(self._survey_table((key,), value))
                source = self.produce_source((key,))
                self.overrides.insert(0, ModelOverride(None, source, attributes=attributes))
            elif key == ALIASES:
                for name, inner in self._survey_table((key,), value):
                    if self._check_name((key, name)) and self._check((key, name), inner, ADDRESS):
                        self._add((key, name), inner)
            elif key in FREE_TABLES:
                for name, inner in self._survey_table((key,), value):
                    self._add((key, name), inner)
            else:
                self._read_value((key,), value)
        return LayerValues(self.settings, tuple(self.overrides))

    def _read_value(self, path: tuple[str, ...], value: Any) -> None:
        """Reads a value of the closed table, or a table on the way to some."""
        name = ".".join(path)
        definition = self.definitions.get(name)
        if definition is None and path[0] == "limits" and self.layer is Layer.DEFAULTS:
            definition = define_limit(name) if len(path) == 2 else None
        if definition is not None:
            self._read_defined(path, value, definition)
        elif any(known.startswith(f"{name}.") for known in self.definitions) or path == ("limits",):
            for key, inner in self._survey_table(path, value):
                self._read_value((*path, key), inner)
        else:
            self._report_unknown(path)

    def _read_defined(self, path: tuple[str, ...], value: Any, definition: Definition) -> None:
        if definition.name == "yes" and self.layer is Layer.PROJECT:
            self._report(
                path,
                "A project cannot answer its user's questions: 'yes' belongs into the user's own "
                f"file, into {definition.variable}, or on the command line.",
            )
        elif self._check(path, value, definition.kind):
            is_path = definition.kind is PATH
            self._add(path, self.resolve(value) if is_path else value)

    def _read_plugins(self, value: Any) -> None:
        tables = {}
        for key, inner in self._survey_table(("plugins",), value):
            if f"plugins.{key}" in self.definitions or not isinstance(inner, Mapping):
                self._read_value(("plugins", key), inner)
            else:
                tables[key] = inner
        self._read_plugin_tables("plugins", tables)

    def _read_plugin_tables(
        self, table: str, value: Any, keys: Mapping[str, Kind] = PLUGIN_KEYS
    ) -> None:
        for name, entry in self._survey_table((table,), value):
            if not self._check_name((table, name)):
                continue
            meant = name
            if table == "providers" and isinstance(entry, Mapping) and "module" not in entry:
                meant = self.synonyms.get(name, name)
            for key, inner in self._survey_table((table, name), entry):
                kind = keys.get(key)
                if kind is None or self._check((table, name, key), inner, kind):
                    self._add((table, meant, key), inner, written=(table, name, key))

    def _check_name(self, path: tuple[str, str]) -> bool:
        if is_plugin_name(path[1]):
            return True
        message = f"{path[1]!r} cannot be a name: only letters, digits, '_', '.' and '-' can."
        self._report(path, message)
        return False

    def _read_overrides(self, value: Any) -> None:
        if not isinstance(value, list | tuple):
            self._report(("models",), "'models' must be an array of tables: write [[models]].")
            return
        for index, entry in enumerate(value):
            if isinstance(entry, Mapping):
                self._read_override(("models", index), dict(entry))
            else:
                self._report(("models", index), "Each of 'models' must be a table.")

    def _read_override(self, path: KeyPath, attributes: dict[str, Any]) -> None:
        pattern, provider = attributes.pop("pattern", None), attributes.pop("provider", None)
        if not isinstance(pattern, str):
            self._report((*path, "pattern"), "[[models]] needs a 'pattern', a regular expression.")
            return
        from vibe_llms.patterns import PatternError, compile_pattern  # few write any

        try:
            compile_pattern(pattern)
        except PatternError as error:
            self._report((*path, "pattern"), f"The pattern {pattern!r}: {error}.")
            return
        if provider is not None and not isinstance(provider, str):
            self._report((*path, "provider"), "'provider' of [[models]] must be a provider's name.")
            return
        source = self.produce_source(path)
        self.overrides.append(
            ModelOverride(pattern=pattern, provider=provider, attributes=attributes, source=source)
        )

    def _survey_table(self, path: tuple[str, ...], value: Any) -> Iterable[tuple[str, Any]]:
        if isinstance(value, Mapping):
            return value.items()
        self._report(path, f"{'.'.join(path)!r} must be a table.")
        return ()

    def _check(self, path: tuple[str, ...], value: Any, kind: Kind) -> bool:
        if kind.is_right(value):
            return True
        self._report(path, f"{'.'.join(path)!r} must be {kind.words}, not {value!r}.")
        return False

    def _add(
        self, path: tuple[str, ...], value: Any, written: tuple[str, ...] | None = None
    ) -> None:
        written = path if written is None else written
        other = () if written == path else written
        self.settings[path] = Setting(path, value, self.produce_source(written), other)

    def _report_unknown(self, path: tuple[str, ...]) -> None:
        name = ".".join(path)
        tables = (*PLUGIN_TABLES, *NAMED_TABLES, "models", ALIASES, DEFAULTS, *FREE_TABLES)
        known = {*self.definitions, *(known.partition(".")[0] for known in self.definitions)}
        end = suggest(name, {*known, *tables})
        if end == ".":  # who leaves out the table means what is in it
            inner = {known.rpartition(".")[2]: known for known in self.definitions}
            nearest = find_nearest(name, inner)
            end = f"; did you mean {inner[nearest]!r}?" if nearest else end
        self._report(path, f"There is no setting {name!r}{end}")

    def _report(self, path: KeyPath, message: str) -> None:
        source = self.produce_source(path)
        place = source.place or str(source.layer)
        from vibe_llms.exceptions import Finding  # needed after a mistake only

        self.findings.append(Finding(place=place, line=source.line, message=message))
