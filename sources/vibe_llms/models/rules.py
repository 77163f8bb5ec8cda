"""Read one table of attributes: the models that it applies to, and the values that it sets.

Errors are appended to a list of findings. A rule with errors is still returned if possible, so that
later steps can report further errors at the same time.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.suggestions import find_near, suggest_among
from vibe_llms.models.attributes import AttributeLayer, Provenance
from vibe_llms.models.genera import Genus
from vibe_llms.models.keys import (
    KEYS_BY_NAME,
    KeyRole,
    classify_key,
    resolve_spelling,
)
from vibe_llms.models.merging import MergeError, read_directive
from vibe_llms.tables.annotations import DATE
from vibe_llms.tables.kinds import PATTERN, TEXT, Kind, is_list, name_kind
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import TableReader

if TYPE_CHECKING:
    from vibe_llms.foundation.linear_regex import Pattern

ORIGIN: Final[Mapping[str, Kind]] = {"source": TEXT, "date": DATE}
"""Fields about the source of a value."""

_HEAD: Final[Mapping[str, Kind]] = {"pattern": PATTERN, "model": TEXT, "provider": TEXT, **ORIGIN}
"""Fields about the table itself."""


@frozen(kw_only=True)
class Rule:
    """The values that one table sets for the models it applies to.

    Attributes:
        provenance: The source of the rule as a whole.
        pattern: Regular expression to find in a model's name; ``None`` without one.
        model: The exact name of the only model; empty without one.
        provider: The only provider; empty for any.
        values: Genus, capabilities, attributes and defaults of controls by key; they may be
            directives, see ``merging``.
        controls: Definitions of controls by name; they may be directives too.
        sources: Source and date of single keys.
    """

    provenance: Provenance
    pattern: Pattern | None = None
    model: str = ""
    provider: str = ""
    values: Mapping[str, JsonValue] = attrs.field(factory=dict)
    controls: Mapping[str, JsonValue] = attrs.field(factory=dict)
    sources: Mapping[str, tuple[str, str]] = attrs.field(factory=dict)

    @property
    def is_general(self) -> bool:
        """True if it applies to all models of all providers."""
        return self.pattern is None and not self.model and not self.provider

    def applies_to(self, provider: str, model: str) -> bool:
        """Return whether the rule applies to a model."""
        if self.provider and self.provider != provider:
            return False
        if self.pattern is not None:
            return self.pattern.is_found_in(model)
        return not self.model or self.model == model

    def trace(self, key: str) -> Provenance:
        """Return the source of one key's value."""
        if key not in self.sources:
            return self.provenance
        source, date = self.sources[key]
        return attrs.evolve(self.provenance, source=source, date=date)


@frozen(kw_only=True)
class RuleReader:
    """Reads the tables of one document.

    Attributes:
        place: The document.
        tables: Collects the errors, and finds their lines.
        source: The source of tables that do not name one.
        date: The date of tables that do not name one.
    """

    place: str
    tables: TableReader
    source: str = ""
    date: str = ""

    def read(
        self,
        table: Mapping[str, object],
        layer: AttributeLayer,
        path: KeyPath = (),
        *,
        name: str = "",
        line: int = 0,
    ) -> Rule:
        """Read one table.

        Args:
            table: The table without the keys of its document, such as ``families``.
            path: Path of the table in the document.
            name: The name of the rule in the provenance; by default its pattern or its model.
            line: The line at which the table begins.
        """
        for key in table:
            self._check_key(key, table, path)
        head_fields = {key: table[key] for key in _HEAD if key in table}
        head = self.tables.read_fields(_HEAD, head_fields, path)
        pattern, model = head.get("pattern"), head.get("model", "")
        source, date = head.get("source", self.source), head.get("date", self.date)
        default_name = pattern.text if pattern else model
        return Rule(
            provenance=Provenance(
                layer=layer,
                name=name or default_name,
                file=self.place,
                line=line,
                source=source,
                date=date,
            ),
            pattern=pattern,
            model=model,
            provider=head.get("provider", ""),
            values=self._read_values(table, path),
            controls=self._read_controls(table, path),
            sources=self._read_sources(table, path, (source, date)),
        )

    def _check_key(self, key: str, table: Mapping[str, object], path: KeyPath) -> None:
        # A dot means a field of a control, as in `temperature.maximum`.
        if "." in key:
            self.tables.report((*path, key), "A key must not contain a dot.")
        if key in KEYS_BY_NAME or key in _access_table(table, "controls"):
            return
        near = _find_near_key(key)
        if near:
            self.tables.report((*path, key), f"Unknown key; did you mean {near!r}?")

    def _read_values(self, table: Mapping[str, object], path: KeyPath) -> dict[str, JsonValue]:
        values: dict[str, JsonValue] = {}
        for key, raw in table.items():
            role = classify_key(key)
            if role is KeyRole.METADATA and key != "genus":
                continue
            try:
                value = normalize_plain(raw)
                read_directive(value)
                if key == "genus":
                    value = _check_genus(value)
                elif role is KeyRole.CAPABILITY:
                    value = _normalize_capability(value)
            except MergeError as error:
                self.tables.report((*path, key), compose_sentence(error))
                continue
            if resolve_spelling(key) in values:
                self.tables.report((*path, key), "This key is already set with another spelling.")
            values[resolve_spelling(key)] = value
        return values

    def _read_controls(self, table: Mapping[str, object], path: KeyPath) -> dict[str, JsonValue]:
        controls: dict[str, JsonValue] = {}
        path = (*path, "controls")
        for name, raw in self.tables.survey(path, table.get("controls", {})):
            try:
                definition = normalize_plain(raw)
                directive, content = read_directive(definition)
                if directive != "remove" and not isinstance(content, Mapping):
                    raise MergeError(f"a definition must be a table, not {name_kind(content)}")
                if "." in name:
                    raise MergeError("a control name must not contain a dot")
                if name in KEYS_BY_NAME and classify_key(name) is not KeyRole.CONTROL:
                    raise MergeError(
                        f"the name {name!r} is reserved for a key ({classify_key(name)})"
                    )
            except MergeError as error:
                self.tables.report((*path, name), compose_sentence(error))
                continue
            controls[name] = definition
        return controls

    def _read_sources(
        self, table: Mapping[str, object], path: KeyPath, inherited: tuple[str, str]
    ) -> dict[str, tuple[str, str]]:
        sources: dict[str, tuple[str, str]] = {}
        path = (*path, "sources")
        for key, entry in self.tables.survey(path, table.get("sources", {})):
            origin = self.tables.read_fields(ORIGIN, entry, (*path, key))
            if key not in table and key not in _access_table(table, "controls"):
                self.tables.report((*path, key), "The key is not set here.")
            source, date = inherited
            sources[resolve_spelling(key)] = (
                origin.get("source", source),
                origin.get("date", date),
            )
        return sources


@lru_cache  # thousands of tables have the same keys
def _find_near_key(key: str) -> str:
    return next(iter(find_near(key, KEYS_BY_NAME, cutoff=0.85)), "")


def compose_sentence(error: Exception) -> str:
    """Make a sentence of an error's text, with a capital and a full stop."""
    text = str(error)
    end = "" if text.endswith((".", "?")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def normalize_plain(value: object) -> JsonValue:
    """Convert a value of the TOML reader to plain data; a date becomes its text.

    Raises:
        MergeError: A file cannot have such a value.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): normalize_plain(element) for key, element in value.items()}
    if is_list(value):
        assert isinstance(value, Sequence)
        return [normalize_plain(element) for element in value]
    raise MergeError(f"{type(value).__name__} is not a plain value")


def _access_table(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


def _check_genus(value: JsonValue) -> JsonValue:
    known = [genus.value for genus in Genus]
    if value not in known:
        raise MergeError(f"unknown genus {value!r}{suggest_among(value, known)}")
    return value


def _normalize_capability(value: JsonValue) -> JsonValue:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in ("yes", "no", "unknown") or value == {"remove": True}:
        return value
    raise MergeError(f"a capability must be true, false or 'unknown', not {value!r}")
