"""Reads plain tables, and finds all mistakes in them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from vibe_llms.foundation.suggestions import end_among, find_nearest
from vibe_llms.tables.kinds import FAULTY, TABLE, Kind

if TYPE_CHECKING:
    from vibe_llms.exceptions import Finding

KeyPath = tuple[str | int, ...]
"""The way to a value: keys of tables and, in lists, indices from 0."""

_T = TypeVar("_T")

FINDINGS_LIMIT = 100
"""So many mistakes are told at once."""

Position: TypeAlias = tuple[str, int, int, str]
"""Where a value was written: a file or another word, line and column or 0, and the path within."""


class TableReader:
    """Reads tables of one document.

    Args:
        locate: Tells where the value at the end of a path was written.
        findings: Takes the mistakes; a list of its own, if none is given.
        base: The directory from which relative paths are meant; they stay relative without.
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
        """Makes a value of a table; ``None`` after reporting what is wrong with it.

        Args:
            cls: An attrs class, see ``annotations``.
            path: The way to the table.
            given: Fields that are not for the table to say.
        """
        from vibe_llms.exceptions import ConfigurationError
        from vibe_llms.tables.annotations import survey_kinds, survey_required  # few need classes

        form: Any = cls
        kinds = {name: kind for name, kind in survey_kinds(form).items() if name not in given}
        # Others may have been found before: the value fails for those of its own alone.
        count = len(self.findings)
        values = self.read_fields(kinds, table, path, survey_required(form) - given.keys())
        if len(self.findings) > count:
            return None
        try:
            return cls(**values, **given)
        except ConfigurationError as error:  # what holds between the fields does not
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
        """Returns the right values of a table by key, and reports all else that it has.

        Args:
            kinds: What each key must be; there are no others.
            path: The way to the table.
            required: The keys that it must have.
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
                self.report(path, f"It needs {key!r}: {kinds[key].words}.")
        return values

    def survey(self, path: KeyPath, table: object) -> Iterable[tuple[str, Any]]:
        """Returns the keys and values of a table, or reports that it is none."""
        if isinstance(table, Mapping):
            return table.items()
        is_named = path and all(isinstance(part, str) for part in path)
        header = f": write [{write_path(path)}]" if is_named else ""
        self.report(path, f"It must be {TABLE.words}{header}.")
        return ()

    def report(self, path: KeyPath, message: str) -> None:
        """Append a finding about the value at the end of a path.

        Raises:
            ConfigurationError: With all so far, where they are more than anybody reads.
        """
        from vibe_llms.exceptions import Finding  # needed after a mistake only

        place, line, column, rest = self.locate(path)
        found = Finding(place=place, line=line, column=column, path=rest, message=message)
        self.findings.append(found)
        if len(self.findings) >= FINDINGS_LIMIT:  # to look for what was meant takes its time
            message = f"What else is wrong is told when these {FINDINGS_LIMIT} mistakes are mended."
            self.findings.append(Finding(place=place, message=message))
            self.finish()

    def report_unknown(self, path: KeyPath, known: Iterable[str]) -> None:
        """Appends a finding about a key that is none of those that are known."""
        self.report(path, f"There is no such setting{end_among(path[-1], known)}")

    def finish(self) -> None:
        """Raises ConfigurationError with what was found, if anything was."""
        if self.findings:
            from vibe_llms.exceptions import ConfigurationError

            raise ConfigurationError(findings=tuple(self.findings))


def read_table(cls: type[_T], table: object, place: str, /, **given: Any) -> _T:
    """Makes a value of a table that is known by its name alone.

    Args:
        cls: An attrs class, see ``annotations``.
        place: The dotted name, as ``ensembles.io``.
        given: Fields that are not for the table to say.

    Raises:
        ConfigurationError: With all mistakes in it.
    """
    reader = TableReader(locate_by_name(place))
    value = reader.read(cls, table, **given)
    reader.finish()
    assert value is not None
    return value


def locate_by_name(name: str = "") -> Callable[[KeyPath], Position]:
    """Returns what tells a place by its name alone, where nobody knows file and line yet."""
    return lambda path: (write_path((name, *path) if name else path), 0, 0, "")


def write_path(path: KeyPath) -> str:
    """Writes a path as ``models[2].pattern``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def require(value: Any, place: str) -> None:
    """Checks a value that a program has made itself, for ``__attrs_post_init__``.

    Args:
        place: What to call it, as ``mcp.files``.

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
