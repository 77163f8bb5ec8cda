"""Reader of plain tables, which reports all mistakes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from vibe_llms.foundation.suggestions import end_among, find_nearest
from vibe_llms.tables.kinds import FAULTY, TABLE, Kind
from vibe_llms.tables.paths import KeyPath, write_path

if TYPE_CHECKING:
    from vibe_llms.exceptions import Finding

_T = TypeVar("_T")

FINDINGS_LIMIT = 100
"""Limit of the mistakes in one report."""

Position: TypeAlias = tuple[str, int, int, str]
"""Position of a value: file or another name, line and column or 0, and its path."""


class TableReader:
    """Reader of one document's tables.

    Args:
        locate: Returns the position of a value.
        findings: List to which mistakes are added; a new one by default.
        base: Directory where relative paths start; without one they stay relative.
    """

    def __init__(
        self,
        locate: Callable[[KeyPath], Position],
        findings: list[Finding] | None = None,
        *,
        base: Path | None = None,
    ) -> None:
        self.locate = locate
        self.base = base or Path()
        self.findings: list[Finding] = [] if findings is None else findings

    def read(self, cls: type[_T], table: object, path: KeyPath = (), /, **given: Any) -> _T | None:
        """Convert a table to a value; report mistakes and return ``None``.

        Args:
            cls: An attrs class, see ``annotations``.
            path: Path of the table.
            given: Fields that the table may not set.
        """
        from vibe_llms.exceptions import ConfigurationError
        from vibe_llms.tables.annotations import survey_kinds, survey_required  # few need classes

        form: Any = cls
        kinds = {name: kind for name, kind in survey_kinds(form).items() if name not in given}
        # Earlier findings are about other tables.
        count = len(self.findings)
        values = self.read_fields(kinds, table, path, survey_required(form) - given.keys())
        if len(self.findings) > count:
            return None
        try:
            return cls(**values, **given)
        except ConfigurationError as error:  # a rule between fields is broken
            for finding in error.findings:
                self.report((*path, *filter(None, (finding.path,))), finding.message)
            return None

    def read_fields(
        self,
        kinds: Mapping[str, Kind],
        table: object,
        path: KeyPath = (),
        required: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Return the valid values of a table by key, and report the other ones.

        Args:
            kinds: Kind of each key; other keys are unknown.
            path: Path of the table.
            required: Keys that may not be missing.
        """
        values: dict[str, Any] = {}
        if not isinstance(table, Mapping):
            self.survey(path, table)
            return values
        for key, value in table.items():
            kind = kinds.get(key)
            if kind is None:
                self.report_unknown((*path, key), kinds)
            elif (kept := kind.read(value, (*path, key), self)) is not FAULTY:
                values[key] = kept
        for key in sorted(set(required) - table.keys()):
            near = find_nearest(key, table.keys() - kinds.keys())  # which was reported itself
            if near is None:
                self.report(path, f"Missing key {key!r}; it must be {kinds[key].words}.")
        return values

    def survey(self, path: KeyPath, table: object) -> Iterable[tuple[str, Any]]:
        """Return the keys and values of a table, or report a value of another kind."""
        if isinstance(table, Mapping):
            return table.items()
        is_named = path and all(isinstance(part, str) for part in path)
        header = f": write [{write_path(path)}]" if is_named else ""
        self.report(path, f"It must be {TABLE.words}{header}.")
        return ()

    def report(self, path: KeyPath, message: str) -> None:
        """Append a finding about the value at the end of a path.

        Raises:
            ConfigurationError: There are ``FINDINGS_LIMIT`` of them.
        """
        from vibe_llms.exceptions import Finding  # needed after a mistake only

        place, line, column, rest = self.locate(path)
        found = Finding(place=place, line=line, column=column, path=rest, message=message)
        self.findings.append(found)
        if len(self.findings) >= FINDINGS_LIMIT:  # to look for what was meant takes its time
            message = f"Only the first {FINDINGS_LIMIT} mistakes are listed."
            self.findings.append(Finding(place=place, message=message))
            self.finish()

    def report_unknown(self, path: KeyPath, known: Iterable[str]) -> None:
        """Appends a finding about a key that is none of those that are known."""
        self.report(path, f"Unknown setting{end_among(path[-1], known)}")

    def finish(self) -> None:
        """Raise ConfigurationError if there are findings."""
        if self.findings:
            from vibe_llms.exceptions import ConfigurationError

            raise ConfigurationError(findings=tuple(self.findings))


def read_table(cls: type[_T], table: object, place: str, /, **given: Any) -> _T:
    """Convert a table to a value; mistakes name the table, not a file.

    Args:
        cls: An attrs class, see ``annotations``.
        place: Dotted name, such as ``ensembles.io``.
        given: Fields that the table may not set.

    Raises:
        ConfigurationError: With all mistakes in it.
    """
    reader = TableReader(locate_by_name(place))
    value = reader.read(cls, table, **given)
    reader.finish()
    assert value is not None
    return value


def locate_by_name(name: str = "") -> Callable[[KeyPath], Position]:
    """Return a function that locates values by name, without file and line."""
    return lambda path: (write_path((name, *path) if name else path), 0, 0, "")


def require(value: Any, place: str) -> None:
    """Check a value that a program made, in ``__attrs_post_init__``.

    Args:
        place: Its name in errors, such as ``mcp.files``.

    Raises:
        ConfigurationError: With all mistakes in it; each ``path`` is the field.
    """
    from vibe_llms.tables.annotations import survey_kinds

    reader = TableReader(lambda path: (place, 0, 0, write_path(path)))
    form: Any = type(value)
    kinds = survey_kinds(form)
    for field in form.__attrs_attrs__:
        given = getattr(value, field.name)
        if field.name in kinds and given != field.default:
            kinds[field.name].read(given, (field.name,), reader)
    if not reader.findings and hasattr(value, "find_mistakes"):
        for name, message in value.find_mistakes():
            reader.report((name,) if name else (), message)
    reader.finish()
