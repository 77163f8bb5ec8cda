"""Reads a task from a file or from plain data, and finds all mistakes in it at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.tasks import FlowDiagram, Goal, ResourceLlm, Task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import is_whole
from vibe_llms.foundation.suggestions import end_among, find_nearest
from vibe_llms.tables.annotations import survey_kinds, survey_required
from vibe_llms.tables.documents import Document, parse_document, read_bytes
from vibe_llms.tables.json_documents import find_excess, parse_json_document
from vibe_llms.tables.reading import KeyPath, TableReader

Written: TypeAlias = Path | str | Mapping[str, Any]
"""A task as it is handed in: the path of its file, or the same as plain data."""

PLACE: Final = "task"
"""What a task is called that was read from no file."""

SCHEMA_KEY: Final = "$schema"
"""By which editors find the schema of a file; it says nothing to us."""

_OURS: Final = {"place"}


@frozen(kw_only=True)
class TaskReading:
    """What came of reading a task.

    Attributes:
        task: As far as it could be read; what could not is named in ``unread`` and is empty.
        document: Where it is written.
        errors: What is wrong with it; with any of these it does not run.
        warnings: What is odd, but harms nobody.
        unread: The parts of the task about which nothing is known.
        strict: Whether what is harmless is an error.
    """

    task: Task
    document: Document
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    unread: frozenset[str] = frozenset()
    strict: bool = True

    def find(self, path: KeyPath, message: str, line: int = 0, column: int = 0) -> Finding:
        """Makes a finding about a value, or about a place within a text.

        Args:
            path: The way to the value, such as ``("prompts", 0, "template")``.
            line: Within the text, from 1; 0 where the whole of it is meant.
            column: The same.
        """
        return find_within(self.document, path, message, line, column)

    def access_task(self) -> Task:
        """Returns the task.

        Raises:
            ConfigurationError: There are mistakes in it; all of them.
        """
        if self.errors:
            raise ConfigurationError(findings=self.errors)
        return self.task


def read_task(written: Written, *, strict: bool = True) -> Task:
    """Reads a task.

    Args:
        written: The path of a file ending in ``.json`` or ``.toml``, or the same as plain data.
        strict: Whether what is unknown is an error. What could be a misspelt word always is.

    Raises:
        ConfigurationError: With all the mistakes in it, or why it cannot be read.
    """
    return examine_task(written, strict=strict).access_task()


def examine_task(written: Written, *, strict: bool = True) -> TaskReading:
    """Reads a task as far as that can be done, for whoever wants to find even more mistakes.

    Raises:
        ConfigurationError: There is no table to read.
    """
    document = access_document(written)
    reader = _TaskReader(document, strict=strict)
    tree = {key: value for key, value in document.tree.items() if key != SCHEMA_KEY}
    for path in _survey_halves(tree):
        reader.report(
            path,
            "The text has half of a surrogate pair: write both halves, or the character itself.",
        )
    kinds = {name: kind for name, kind in survey_kinds(Task).items() if name not in _OURS}
    values = reader.read_fields(kinds, tree, (), survey_required(Task))
    if REGISTRY not in tree and not find_nearest(REGISTRY, tree.keys() - kinds.keys()):
        reader.report_harmless(
            (), f"{REGISTRY!r} is missing: it lists what prompts can refer to, and may be empty."
        )
    unread = frozenset(
        name
        for name in kinds
        if name not in values and (name in tree or name in survey_required(Task))
    )
    place = document.place if not isinstance(written, Mapping) else ""
    return TaskReading(
        task=Task(**{**_EMPTY, **values}, place=place),
        document=document,
        errors=tuple(sorted(reader.findings, key=_rank)),
        warnings=tuple(sorted(reader.warnings, key=_rank)),
        unread=unread,
        strict=strict,
    )


def access_document(written: Written) -> Document:
    """Returns what was written, as plain data with places.

    Raises:
        ConfigurationError: It cannot be read, or is no table.
    """
    if isinstance(written, Mapping):
        excess = find_excess(written)
        if excess is not None:
            raise ConfigurationError(findings=(Finding(place=PLACE, message=excess),))
        return Document(PLACE, "", written)
    raw, place = read_bytes(written), str(written)
    is_toml = place.lower().endswith(".toml")
    return parse_document(raw, place) if is_toml else parse_json_document(raw, place)


def find_within(
    document: Document, path: KeyPath, message: str, line: int = 0, column: int = 0
) -> Finding:
    """Makes a finding about a place within a text of a document; see :meth:`TaskReading.find`."""
    place, line_there, column_there, name = document.locate(path)
    if line:
        name = f"{name}:{line}:{column}" if column else f"{name}:{line}"
        if document.text:
            line_there, column_there = document.find_within(path, line, max(column, 1))
    return Finding(place=place, line=line_there, column=column_there, path=name, message=message)


REGISTRY: Final = "resource_registry"
"""The one component of a task without which it can be read, where that is not done strictly."""

_EMPTY: Final[Mapping[str, Any]] = {
    "goal": Goal(description="unread"),
    "resource_llm": ResourceLlm(provider="scripted", model="echo"),
    "prompts": (),
    "flow_diagram": FlowDiagram(mermaid="graph TD"),
}
"""In the place of what could not be read."""


class _TaskReader(TableReader):
    """Reads the tables of a task; what is unknown is an error, or else a warning."""

    def __init__(self, document: Document, *, strict: bool) -> None:
        super().__init__(document.locate, document.produce_reader().findings)
        self.strict = strict
        self.warnings: list[Finding] = []

    def report_unknown(self, path: KeyPath, known: Iterable[str]) -> None:
        """Appends a finding about a key that is none of those that are known."""
        known = list(known)
        if path[-1] == SCHEMA_KEY:
            return
        is_misspelt = any(find_nearest(word, [str(path[-1])]) for word in known)
        # A misspelt word is never harmless: what it should have said would be missing in silence.
        report = self.report if is_misspelt else self.report_harmless
        report(path, f"Unknown key{end_among(path[-1], known)}")

    def report_harmless(self, path: KeyPath, message: str) -> None:
        """Append a finding that is an error where the task is read strictly, else a warning."""
        findings = self.findings
        if not self.strict:
            self.findings = self.warnings
        self.report(path, message)
        self.findings = findings


def _survey_halves(tree: object) -> Iterable[KeyPath]:
    """Yields where a text cannot be written as UTF-8."""
    ahead: list[tuple[KeyPath, object]] = [((), tree)]
    while ahead:
        path, each = ahead.pop()
        if isinstance(each, str):
            if not is_whole(each):
                yield path
        elif isinstance(each, Mapping):
            ahead += [((*path, str(key)), inner) for key, inner in each.items()]
        elif isinstance(each, (list, tuple)):
            ahead += [((*path, index), inner) for index, inner in enumerate(each)]


def _rank(finding: Finding) -> tuple[int, int, str]:
    return finding.line, finding.column, finding.path
