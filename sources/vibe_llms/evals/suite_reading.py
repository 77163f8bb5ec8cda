"""Read suites from TOML; report all mistakes together, with file, line and rule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from vibe_llms.evals.suites import NAME_CHARACTERS, EvalCase, Suite
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.files import read_beginning, resolve_links
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import escape_surrogates
from vibe_llms.tables.annotations import derive_kind, survey_kinds, survey_required
from vibe_llms.tables.documents import parse_document, refuse
from vibe_llms.tables.kinds import FAULTY, TABLE, is_list
from vibe_llms.tables.paths import KeyPath, write_path
from vibe_llms.tables.reading import Position, TableReader

SUITE_BYTES: Final = 10_000_000
"""Size limit of a suite's file. Longer lists of cases belong in ``case_files``."""

CASES_BYTES: Final = 200_000_000
"""Size limit of a file of cases."""

_PATHS: Final = derive_kind(tuple[Path, ...])

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read_suite(path: Path | str) -> Suite:
    """Read a suite.

    Its ``case_files`` list files of JSON lines with further cases; relative paths start at the
    directory of the file.

    Raises:
        ConfigurationError: The file cannot be read, or is invalid; lists all mistakes.
    """
    path = Path(path)
    raw = _read(path, SUITE_BYTES, "Move cases to a file of JSON lines, listed in case_files.")
    return parse_suite(raw, path)


def parse_suite(raw: bytes, path: Path) -> Suite:
    """Parse the bytes of a suite's file, and read its files of cases. Raises ConfigurationError."""
    document = parse_document(raw.removeprefix(_BYTE_ORDER_MARK), str(path))
    tree = dict(document.tree)
    reader = document.produce_reader(path.absolute().parent)
    case_files = tree.pop("case_files", [])
    if is_list(tree.get("subjects")):
        tree["subjects"] = [_name_subject(each) for each in tree["subjects"]]
    kinds = {name: kind for name, kind in survey_kinds(Suite).items() if name != "folder"}
    if "cases" not in tree and case_files:
        tree["cases"] = []
    values = reader.read_fields(kinds, tree, (), survey_required(Suite))
    files = _PATHS.read(case_files, ("case_files",), reader)
    for file in () if files is FAULTY else files:
        if resolve_links(file) == resolve_links(path):
            reader.report(("case_files",), "It names this file. Name files of JSON lines.")
        else:
            values["cases"] = (*values.get("cases", ()), *_read_cases(reader, file))
    reader.finish()
    try:
        return Suite(**{"name": _name_suite(path), **values}, folder=path.absolute().parent)
    except ConfigurationError as error:  # a rule between fields is broken
        for finding in error.findings:
            reader.report(_split(finding.path), finding.message)
        reader.finish()
        raise


def _split(path: str) -> KeyPath:
    """Return the path of a mistake that :class:`Suite` has found, such as ``cases[2].judges``."""
    parts: list[str | int] = []
    for part in path.replace("[", ".[").split("."):
        if part:
            parts.append(int(part[1:-1]) if part.startswith("[") else part)
    return tuple(parts)


def _name_suite(path: Path) -> str:
    """Name a suite after its file; file names may have any characters."""
    return " ".join(escape_surrogates(path.stem).split())[:NAME_CHARACTERS] or "suite"


def _name_subject(table: Any) -> Any:
    """Name a subject after its model or task if it has no name."""
    if not isinstance(table, Mapping) or "name" in table:
        return table
    named = table.get("task", table.get("model"))
    return {"name": named, **table} if isinstance(named, str) and named else table


def _read(path: Path, limit: int, remedy: str) -> bytes:
    try:
        raw = read_beginning(path, limit + 1)
    except OSError as error:
        refuse(str(path), f"Cannot read the file: {error.strerror}.")
    if len(raw) > limit:
        refuse(str(path), f"The file is larger than {limit:,} bytes. {remedy}")
    return raw


def _read_cases(reader: TableReader, path: Path) -> list[EvalCase]:
    """Read a file of JSON lines; each is a case."""
    import msgspec

    raw = _read(path, CASES_BYTES, "Split it.").removeprefix(_BYTE_ORDER_MARK)
    cases: list[EvalCase] = []
    for number, line in enumerate(raw.splitlines(), 1):
        if not line.strip():
            continue
        lines = TableReader(_locate_at(str(path), number), reader.findings, base=path.parent)
        try:
            table = msgspec.json.decode(line)
        except UNREADABLE as error:
            lines.report((), f"Invalid JSON: {error}.")
            continue
        if not TABLE.is_valid(table):
            lines.report((), "It must be a JSON object with the fields of a case.")
            continue
        case = lines.read(EvalCase, table)
        if case is not None:
            cases.append(case)
    return cases


def _locate_at(place: str, number: int) -> Any:
    def locate(path: KeyPath) -> Position:
        return place, number, 0, write_path(path)

    return locate
