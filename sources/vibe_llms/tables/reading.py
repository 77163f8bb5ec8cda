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

    def read(self, cls: type[_T], table: object, path: KeyPath = (), /, **fixed: Any) -> _T | None:
        """Convert a table to a value; report mistakes and return ``None``.

        Args:
            cls: An attrs class, see ``annotations``.
            path: Path of the table.
            fixed: Fields that the table may not set.
        """
        from vibe_llms.exceptions import ConfigurationError
        from vibe_llms.tables.annotations import survey_kinds, survey_required  # rarely needed

        attrs_class: Any = cls
        kinds = {
            name: kind for name, kind in survey_kinds(attrs_class).items() if name not in fixed
        }
        # Earlier findings are about other tables.
        count = len(self.findings)
        values = self.read_fields(kinds, table, path, survey_required(attrs_class) - fixed.keys())
        if len(self.findings) > count:
            return None
        try:
            return cls(**values, **fixed)
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
                continue
            valid_value = kind.read(value, (*path, key), self)
            if valid_value is not FAULTY:
                values[key] = valid_value
        for key in sorted(set(required) - table.keys()):
            near = find_nearest(key, table.keys() - kinds.keys())  # already reported as unknown
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

        place, line, column, name = self.locate(path)
        found = Finding(place=place, line=line, column=column, path=name, message=message)
        self.findings.append(found)
        if len(self.findings) >= FINDINGS_LIMIT:  # finding suggestions takes time
            message = f"Only the first {FINDINGS_LIMIT} mistakes are listed."
            self.findings.append(Finding(place=place, message=message))
            self.finish()

    def report_unknown(self, path: KeyPath, known: Iterable[str]) -> None:
        """Append a finding about an unknown key, which suggests known ones."""
        self.report(path, f"Unknown setting{end_among(path[-1], known)}")

    def finish(self) -> None:
        """Raise ConfigurationError if there are findings."""
        if self.findings:
            from vibe_llms.exceptions import ConfigurationError

            raise ConfigurationError(findings=tuple(self.findings))


def read_table(cls: type[_T], table: object, place: str, /, **fixed: Any) -> _T:
    """Convert a table to a value; mistakes name the table, not a file.

    Args:
        cls: An attrs class, see ``annotations``.
        place: Dotted name, such as ``ensembles.io``.
        fixed: Fields that the table may not set.

    Raises:
        ConfigurationError: The table has mistakes; lists all of them.
    """
    reader = TableReader(locate_by_name(place))
    value = reader.read(cls, table, **fixed)
    reader.finish()
    assert value is not None
    return value


def locate_by_name(name: str = "") -> Callable[[KeyPath], Position]:
    """Return a function that locates values by name, without file and line."""
    return lambda path: (write_path((name, *path) if name else path), 0, 0, "")


def require(value: Any, place: str) -> None:
    """Check a value that a program creates; call this in ``__attrs_post_init__``.

    Args:
        place: Name of the value in errors, such as ``mcp.files``.

    Raises:
        ConfigurationError: The value has mistakes; lists all, each with its field as ``path``.
    """
    from vibe_llms.tables.annotations import survey_kinds

    reader = TableReader(lambda path: (place, 0, 0, write_path(path)))
    attrs_class: Any = type(value)
    kinds = survey_kinds(attrs_class)
    for field in attrs_class.__attrs_attrs__:
        field_value = getattr(value, field.name)
        if field.name in kinds and field_value != field.default:
            kinds[field.name].read(field_value, (field.name,), reader)
    if not reader.findings and hasattr(value, "find_mistakes"):
        for name, message in value.find_mistakes():
            reader.report((name,) if name else (), message)
    reader.finish()
