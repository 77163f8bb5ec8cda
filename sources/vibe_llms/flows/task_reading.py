"""Read a task from a file or from plain data, and find all mistakes in it at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.tasks import FlowDiagram, Goal, ResourceLlm, Task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import is_encodable
from vibe_llms.foundation.suggestions import end_among, find_nearest
from vibe_llms.tables.annotations import survey_kinds, survey_required
from vibe_llms.tables.documents import Document, parse_document, read_bytes
from vibe_llms.tables.json_documents import find_excess, parse_json_document
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import TableReader

TaskSource: TypeAlias = Path | str | Mapping[str, Any]
"""Input form of a task: the path of its file, or its content as plain data."""

PLACE: Final = "task"
"""Name of a task that was not read from a file."""

SCHEMA_KEY: Final = "$schema"
"""Key with which editors find the schema of a file; ignored here."""

_NOT_IN_FILE: Final = {"place"}


@frozen(kw_only=True)
class TaskReading:
    """Result of reading a task.

    Attributes:
        task: The task, as far as it could be read; unreadable parts are named in ``unreadable`` and
            empty.
        document: Document of the task.
        errors: Mistakes in the task. A task with a mistake does not run.
        warnings: Harmless findings.
        unreadable: Parts of the task that could not be read.
        strict: Whether harmless findings are errors.
    """

    task: Task
    document: Document
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    unreadable: frozenset[str] = frozenset()
    strict: bool = True

    def find(self, path: KeyPath, message: str, line: int = 0, column: int = 0) -> Finding:
        """Make a finding about a value, or about a place within a text.

        Args:
            path: Path of the value, such as ``("prompts", 0, "template")``.
            line: Line within the text, from 1; 0 for the whole text.
            column: Column of that line, likewise.
        """
        return find_within(self.document, path, message, line, column)

    def access_task(self) -> Task:
        """Return the task.

        Raises:
            ConfigurationError: The task has mistakes; lists all of them.
        """
        if self.errors:
            raise ConfigurationError(findings=self.errors)
        return self.task


def read_task(source: TaskSource, *, strict: bool = True) -> Task:
    """Read a task.

    Args:
        source: The path of a file ending in ``.json`` or ``.toml``, or the same as plain data.
        strict: Whether unknown keys are errors. A key that could be misspelt always is.

    Raises:
        ConfigurationError: The task has mistakes (lists all of them), or cannot be read.
    """
    return examine_task(source, strict=strict).access_task()


def examine_task(source: TaskSource, *, strict: bool = True) -> TaskReading:
    """Read a task as far as possible, so that callers can look for more mistakes.

    Raises:
        ConfigurationError: The input is not a readable table.
    """
    document = access_document(source)
    reader = _TaskReader(document, strict=strict)
    tree = {key: value for key, value in document.tree.items() if key != SCHEMA_KEY}
    for path in _find_unencodable(tree):
        reader.report(
            path,
            "The text has half of a surrogate pair: write both halves, or the character itself.",
        )
    kinds = {name: kind for name, kind in survey_kinds(Task).items() if name not in _NOT_IN_FILE}
    values = reader.read_fields(kinds, tree, (), survey_required(Task))
    if REGISTRY not in tree and not find_nearest(REGISTRY, tree.keys() - kinds.keys()):
        reader.report_harmless(
            (), f"{REGISTRY!r} is missing: it lists what prompts can refer to, and may be empty."
        )
    unreadable = frozenset(
        name
        for name in kinds
        if name not in values and (name in tree or name in survey_required(Task))
    )
    place = document.place if not isinstance(source, Mapping) else ""
    return TaskReading(
        task=Task(**{**_EMPTY, **values}, place=place),
        document=document,
        errors=tuple(sorted(reader.findings, key=_rank)),
        warnings=tuple(sorted(reader.warnings, key=_rank)),
        unreadable=unreadable,
        strict=strict,
    )


def access_document(source: TaskSource) -> Document:
    """Return the input as plain data with places.

    Raises:
        ConfigurationError: The input cannot be read, or is not a table.
    """
    if isinstance(source, Mapping):
        excess = find_excess(source)
        if excess is not None:
            raise ConfigurationError(findings=(Finding(place=PLACE, message=excess),))
        return Document(PLACE, "", source)
    raw, place = read_bytes(source), str(source)
    is_toml = place.lower().endswith(".toml")
    return parse_document(raw, place) if is_toml else parse_json_document(raw, place)


def find_within(
    document: Document, path: KeyPath, message: str, line: int = 0, column: int = 0
) -> Finding:
    """Make a finding about a place within a text of a document; see :meth:`TaskReading.find`."""
    place, line_there, column_there, name = document.locate(path)
    if line:
        name = f"{name}:{line}:{column}" if column else f"{name}:{line}"
        if document.text:
            line_there, column_there = document.find_within(path, line, max(column, 1))
    return Finding(place=place, line=line_there, column=column_there, path=name, message=message)


REGISTRY: Final = "resource_registry"
"""The only component that a task may lack, unless it is read strictly."""

_EMPTY: Final[Mapping[str, Any]] = {
    "goal": Goal(description="unread"),
    "resource_llm": ResourceLlm(provider="scripted", model="echo"),
    "prompts": (),
    "flow_diagram": FlowDiagram(mermaid="graph TD"),
}
"""Placeholders for components that could not be read."""


class _TaskReader(TableReader):
    """Reader of a task's tables; unknown keys are errors or, if not strict, warnings."""

    def __init__(self, document: Document, *, strict: bool) -> None:
        super().__init__(document.locate, document.produce_reader().findings)
        self.strict = strict
        self.warnings: list[Finding] = []

    def report_unknown(self, path: KeyPath, known: Iterable[str]) -> None:
        """Append a finding about an unknown key."""
        known = list(known)
        if path[-1] == SCHEMA_KEY:
            return
        is_misspelt = any(find_nearest(word, [str(path[-1])]) for word in known)
        # A misspelt key is never harmless: its value would be missing without notice.
        report = self.report if is_misspelt else self.report_harmless
        report(path, f"Unknown key{end_among(path[-1], known)}")

    def report_harmless(self, path: KeyPath, message: str) -> None:
        """Append a finding that is an error if the task is read strictly, otherwise a warning."""
        findings = self.findings
        if not self.strict:
            self.findings = self.warnings
        self.report(path, message)
        self.findings = findings


def _find_unencodable(tree: object) -> Iterable[KeyPath]:
    """Yield the paths of texts that cannot be written as UTF-8."""
    pending: list[tuple[KeyPath, object]] = [((), tree)]
    while pending:
        path, each = pending.pop()
        if isinstance(each, str):
            if not is_encodable(each):
                yield path
        elif isinstance(each, Mapping):
            pending += [((*path, str(key)), inner) for key, inner in each.items()]
        elif isinstance(each, (list, tuple)):
            pending += [((*path, index), inner) for index, inner in enumerate(each)]


def _rank(finding: Finding) -> tuple[int, int, str]:
    return finding.line, finding.column, finding.path
