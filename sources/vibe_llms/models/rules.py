"""Reads one table of attributes: which models it concerns, and what it sets.

All mistakes are found in one go and appended to a list of findings; a rule with mistakes is
still returned where that makes sense, so that the findings of later steps are complete.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

import attrs

from vibe_llms.exceptions import Finding
from vibe_llms.models.attributes import Layer, Provenance
from vibe_llms.models.genera import Genus
from vibe_llms.models.keys import (
    KEYS_BY_NAME,
    KeyRole,
    classify_key,
    resolve_spelling,
)
from vibe_llms.models.merging import MergeError, is_list, name_kind, read_directive
from vibe_llms.nearness import find_near, suggest_among
from vibe_llms.patterns import Pattern, PatternError, compile_pattern
from vibe_llms.plain import JsonValue

MODELS_HEADER = r"\[\[models\]\]"
_MODELS_HEADER = re.compile(rf"\s*{MODELS_HEADER}")


@attrs.frozen(kw_only=True)
class Document:
    """The text that a table was read from, to find the line of a mistake in it.

    Attributes:
        file: The path, or another word for the place.
        text: Empty where the place has no lines.
    """

    file: str
    text: str = ""

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines as TOML counts them."""
        return tuple(self.text.split("\n"))

    def locate_all(self, pattern: str) -> tuple[int, ...]:
        """Returns the numbers of all lines that the pattern begins, read in one go."""
        expression = re.compile(rf"\s*{pattern}")
        return tuple(n for n, line in enumerate(self.lines, start=1) if expression.match(line))

    def locate_key(self, key: str, after: int = 0) -> int:
        """Returns the line that sets a key, or else the line to search after.

        Args:
            after: Where its table begins; the search ends where the next of ``[[models]]`` does, so
                that a mistake in one of many costs no reading of all the others.
        """
        name = rf"[\"']?{re.escape(key)}[\"']?"
        expression = re.compile(rf"\s*(?:{name}\s*[=.]|\[.*\b{re.escape(key)}\b.*\])")
        for index in range(max(after - 1, 0), len(self.lines)):
            if index >= after > 0 and _MODELS_HEADER.match(self.lines[index]):
                break
            if expression.match(self.lines[index]):
                return index + 1
        return after


@attrs.frozen(kw_only=True)
class Rule:
    """What one table sets for the models it concerns.

    Attributes:
        provenance: Of the rule as a whole.
        pattern: Searched in a model's name; ``None`` where the rule has none.
        model: The exact name of the only model; empty where the rule names none.
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
        """Whether it concerns all models of all providers."""
        return self.pattern is None and not self.model and not self.provider

    def concerns(self, provider: str, model: str) -> bool:
        """Tells whether the rule says something about a model."""
        if self.provider and self.provider != provider:
            return False
        if self.pattern is not None:
            return self.pattern.is_found_in(model)
        return not self.model or self.model == model

    def trace(self, key: str) -> Provenance:
        """Tells where the value of one key is from."""
        if key not in self.sources:
            return self.provenance
        source, date = self.sources[key]
        return attrs.evolve(self.provenance, source=source, date=date)


@attrs.frozen(kw_only=True)
class RuleReader:
    """Reads the tables of one document.

    Attributes:
        document: Where they are.
        findings: Takes the mistakes.
        source: What holds for tables that name no source of their own.
        date: Likewise.
    """

    document: Document
    findings: list[Finding]
    source: str = ""
    date: str = ""

    def read(
        self, table: Mapping[str, object], layer: Layer, *, name: str = "", line: int = 0
    ) -> Rule:
        """Reads one table.

        Args:
            table: Without the keys of its document, such as ``families``.
            name: What the provenance calls the rule; by default its pattern or its model.
            line: Where the table begins.
        """
        for key in table:
            self._check_key(key, table, line)
        pattern = self._read_pattern(table, line)
        model = self._read_text(table, "model", line)
        source = self._read_text(table, "source", line) or self.source
        date = self._read_date(table.get("date"), line) or self.date
        return Rule(
            provenance=Provenance(
                layer=layer,
                name=name or (pattern.text if pattern else model),
                file=self.document.file,
                line=line,
                source=source,
                date=date,
            ),
            pattern=pattern,
            model=model,
            provider=self._read_text(table, "provider", line),
            values=self._read_values(table, line),
            controls=self._read_controls(table, line),
            sources=self._read_sources(table, line, (source, date)),
        )

    def report(self, message: str, line: int = 0) -> None:
        """Appends a finding."""
        self.findings.append(Finding(place=self.document.file, line=line, message=message))

    def _report_key(self, key: str, message: str, line: int) -> None:
        self.report(end_sentence(message), self.document.locate_key(key, line))

    def _check_key(self, key: str, table: Mapping[str, object], line: int) -> None:
        if "." in key:
            self._report_key(key, f"The key {key!r} may not contain a dot.", line)
        if key in KEYS_BY_NAME or key in _access_table(table, "controls"):
            return
        near = _find_near_key(key)
        if near:
            message = f"Nothing is known as {key!r}; did you mean {near!r}?"
            self._report_key(key, message, line)

    def _read_pattern(self, table: Mapping[str, object], line: int) -> Pattern | None:
        text = self._read_text(table, "pattern", line)
        if not text:
            return None
        try:
            return compile_pattern(text)
        except PatternError as error:
            self._report_key("pattern", f"The pattern {text!r}: {error}.", line)
            return compile_pattern("^$")  # no model has no name

    def _read_text(self, table: Mapping[str, object], key: str, line: int) -> str:
        value = table.get(key, "")
        if isinstance(value, str) and (value or key not in table):
            return value
        kind = "an empty one" if value == "" else name_kind(value)
        self._report_key(key, f"{key!r} must be a text, not {kind}.", line)
        return ""

    def _read_date(self, value: object, line: int) -> str:
        if value is None:
            return ""
        if isinstance(value, datetime.date):
            return value.isoformat()
        try:
            return datetime.date.fromisoformat(str(value)).isoformat()
        except ValueError:
            message = f"'date' must be a date such as 2026-11-21, not {value!r}."
            self._report_key("date", message, line)
            return ""

    def _read_values(self, table: Mapping[str, object], line: int) -> dict[str, JsonValue]:
        values: dict[str, JsonValue] = {}
        for key, raw in table.items():
            role = classify_key(key)
            if role is KeyRole.WORD and key != "genus":
                continue
            try:
                value = normalize_plain(raw)
                read_directive(value)
                if key == "genus":
                    value = _check_genus(value)
                elif role is KeyRole.CAPABILITY:
                    value = _normalize_capability(value)
            except MergeError as error:
                self._report_key(key, f"{key!r}: {error}", line)
                continue
            if resolve_spelling(key) in values:
                self._report_key(key, f"{key!r} says again what another key said.", line)
            values[resolve_spelling(key)] = value
        return values

    def _read_controls(self, table: Mapping[str, object], line: int) -> dict[str, JsonValue]:
        controls: dict[str, JsonValue] = {}
        for name, raw in _access_table(table, "controls").items():
            try:
                definition = normalize_plain(raw)
                word, content = read_directive(definition)
                if word != "remove" and not isinstance(content, Mapping):
                    raise MergeError(f"a definition is a table, not {name_kind(content)}")
                if "." in name:
                    raise MergeError("its name may not contain a dot")
                if name in KEYS_BY_NAME and classify_key(name) is not KeyRole.CONTROL:
                    raise MergeError(f"this is the name of {classify_key(name)!s}, not a control's")
            except MergeError as error:
                self._report_key(name, f"The control {name!r}: {error}", line)
                continue
            controls[name] = definition
        if "controls" in table and not isinstance(table["controls"], Mapping):
            self._report_key("controls", "'controls' must be a table.", line)
        return controls

    def _read_sources(
        self, table: Mapping[str, object], line: int, inherited: tuple[str, str]
    ) -> dict[str, tuple[str, str]]:
        sources: dict[str, tuple[str, str]] = {}
        for key, entry in _access_table(table, "sources").items():
            if not isinstance(entry, Mapping) or not set(entry) <= {"source", "date"}:
                self._report_key(
                    "sources",
                    f"The source of {key!r} must be a table of 'source' and 'date'.",
                    line,
                )
                continue
            if key not in table and key not in _access_table(table, "controls"):
                self._report_key(
                    "sources", f"'sources' names {key!r}, which is not set here.", line
                )
            sources[resolve_spelling(key)] = (
                self._read_text(entry, "source", line) or inherited[0],
                self._read_date(entry.get("date"), line) or inherited[1],
            )
        return sources


@lru_cache  # thousands of tables may set the same attribute of their user's own
def _find_near_key(key: str) -> str:
    return next(iter(find_near(key, KEYS_BY_NAME, cutoff=0.85)), "")


def end_sentence(message: str) -> str:
    """Appends a full stop where the message has none of its own."""
    return message if message.endswith((".", "?")) else f"{message}."


def normalize_plain(value: object) -> JsonValue:
    """Turns what a TOML reader gave into plain data; a date becomes its text.

    Raises:
        MergeError: The value is nothing that a file could say.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): normalize_plain(element) for key, element in value.items()}
    if is_list(value):
        assert isinstance(value, Sequence)
        return [normalize_plain(element) for element in value]
    raise MergeError(f"{type(value).__name__} is no plain value")


def _access_table(table: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


def _check_genus(value: JsonValue) -> JsonValue:
    known = [genus.value for genus in Genus]
    if value not in known:
        raise MergeError(f"there is no genus {value!r}{suggest_among(value, known)}")
    return value


def _normalize_capability(value: JsonValue) -> JsonValue:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in ("yes", "no", "unknown") or value == {"remove": True}:
        return value
    raise MergeError(f"a capability is true, false or 'unknown', not {value!r}")
