"""Output of commands: results to standard output, remarks to standard error.

Text of a model or a file cannot control the terminal or reorder its display: such characters are
escaped. Characters that join letters or mark the direction of a script are kept in text to read,
and escaped in text that the user must approve: see :func:`reveal`.
Colour goes to terminals only, and not if ``NO_COLOR`` is set.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from vibe_llms.foundation.reprs import sanitize as sanitize
from vibe_llms.interfaces.cli.program import respell

if TYPE_CHECKING:
    from datetime import datetime

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Invisible characters that Python considers printable: fillers, blanks, variant selectors."""
_SEQUENCES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}

_LEAST_COLUMNS = 16
"""Minimum width of the last column of a table before others are cut."""

_USEFUL_COLUMNS = 20
"""Minimum useful width of the other columns; below it, rows are not shown as a table."""

_INDENT = "    "


def reveal(text: str) -> str:
    """Escape invisible characters, as in JSON, in a text that the user must approve.

    These are every control, format and separating character, line ends included, and every space
    but the usual one: the shown text takes one line and hides nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() and not _UNSEEN.match(letter) else _escape(letter)
        for letter in text
    )


def reveal_lines(text: str, *, indent: str = "") -> str:
    """Escape a text as :func:`reveal` does, but keep its line ends.

    Args:
        indent: Before each line, so that none looks like the program's own.
    """
    return "\n".join(indent + reveal(line) for line in text.split("\n"))


def reveal_head(text: str) -> str:
    """Escape the first line of a text, as :func:`reveal` does."""
    return reveal(text.strip().partition("\n")[0])


def _escape(letter: str) -> str:
    # JSON escapes UTF-16 units, of which some letters take two; file names may contain
    # half of one.
    units = letter.encode("utf-16-be", "surrogatepass")
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    return short.get(letter) or "".join(
        rf"\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)
    )


def repair(text: str) -> str:
    """Repair typed text: in a poor locale, Python takes UTF-8 for single bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def wants_colour(stream: TextIO) -> bool:
    """Return whether a stream is a terminal whose user has not disabled colour."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def style(text: str, *names: str, stream: TextIO | None = None) -> str:
    """Apply the named styles to a text if the stream supports colour."""
    if not text or not wants_colour(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{';'.join(_SEQUENCES[name] for name in names)}m{text}\x1b[0m"


def mark_error() -> str:
    """Return the prefix of an error line."""
    return style("vibe: error:", "red", "bold", stream=sys.stderr)


def write(text: str = "") -> None:
    """Write one or more lines of a result."""
    sys.stdout.write((sanitize(text) if sys.stdout.isatty() else text) + "\n")


def write_styled(text: str, *names: str) -> None:
    """Write one line of a result in the named styles."""
    sys.stdout.write(style(sanitize(text), *names) + "\n")


def note(text: str) -> None:
    """Write a remark to standard error, dimmed on a terminal; its commands can be copied."""
    sys.stderr.write(style(sanitize(respell(text)), "dim", stream=sys.stderr) + "\n")
    sys.stderr.flush()


def write_json(value: Any) -> None:
    """Write a result as one line of JSON. Times are written as ISO 8601."""
    import json

    # Text that cannot be encoded would fail in the middle of the line: JSON can escape it.
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    text = json.dumps(value, ensure_ascii=encoding != "utf8", default=_encode_value)
    sys.stdout.write(text + "\n")


def write_moment(moment: datetime) -> str:
    """Format a date and minute in local time."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _encode_value(value: Any) -> Any:
    from datetime import date

    if isinstance(value, date):  # or a moment
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def measure_width() -> int:
    """Return the terminal's width in columns; 80 without a terminal."""
    given = os.environ.get("COLUMNS", "")  # overrides the terminal's width, as elsewhere
    if given.isdigit() and int(given) > 0:
        return int(given)
    # Standard output may be piped while remarks still go to a terminal.
    for stream in (sys.stdout, sys.stderr):
        try:
            return os.get_terminal_size(stream.fileno()).columns or 80
        except (OSError, ValueError):
            continue
    return 80


def measure_text(text: str) -> int:
    """Return a text's width in columns: wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0
        if unicodedata.combining(letter) or unicodedata.category(letter) in ("Cf", "Me", "Mn")
        else 2
        if unicodedata.east_asian_width(letter) in "WF"
        else 1
        for letter in text
    )


def shorten(text: str, columns: int) -> str:
    """Join a text to one line and cut it to a number of columns, with an ellipsis if cut."""
    text = " ".join(text.split())
    if measure_text(text) <= columns:
        return text
    kept = ""
    for letter in text:
        if measure_text(kept + letter) > columns - 1:
            break
        kept += letter
    return kept.rstrip() + "…" if columns > 0 else ""


def write_table(
    rows: Iterable[Sequence[str]],
    *,
    headers: Sequence[str],
    styles: Sequence[str] = (),
    whole: bool = False,
) -> None:
    """Write rows under their headers, cut to fit the terminal, the last column first.

    In a terminal too narrow for columns, the cells of a row follow each other, over several lines.
    In a file or pipe there are only the rows, uncut and with tabs between columns: programs
    that read them rely on one line per row.

    Args:
        rows: All with the same number of columns.
        headers: Headers of the columns.
        styles: The style of each column; an empty name is none.
        whole: Whether nothing may be cut, for example if the last column is a suggestion.
    """
    table = [[sanitize(" ".join(cell.split())) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in table:
            sys.stdout.write("\t".join(row) + "\n")
        return
    if not table:
        return
    table.insert(0, list(headers))
    natural = [max(map(measure_text, column)) for column in zip(*table, strict=True)]
    widths = _fit(natural)
    cramped = any(
        kept < min(width, _USEFUL_COLUMNS)
        for kept, width in zip(widths[:-1], natural[:-1], strict=True)
    )
    for row in table:
        names = styles if row is not table[0] else ["bold"] * len(headers)
        if cramped or (whole and widths != natural):
            sys.stdout.write(_compose_lines(row, names, whole=whole) + "\n")
        else:
            sys.stdout.write(_compose_row(row, widths, names) + "\n")


def _compose_lines(row: Sequence[str], styles: Sequence[str], *, whole: bool) -> str:
    """Wrap the cells of a row without splitting a cell that fits in one line."""
    import textwrap

    columns = measure_width()
    text, used = "", 0
    for index, cell in enumerate(row):
        name = styles[index] if index < len(styles) else ""
        room = columns - len(_INDENT if text else "")
        is_last = index == len(row) - 1
        cell = shorten(cell, columns - len(_INDENT)) if is_last and not whole else cell
        # Words that are too long stay whole: a split path cannot be copied.
        for piece in textwrap.wrap(cell, room, break_long_words=False, break_on_hyphens=False):
            width = measure_text(piece)
            fits = used + 2 + width <= columns
            lead = "" if not text else "  " if fits else f"\n{_INDENT}"
            used = used + len(lead) + width if fits else len(_INDENT) + width
            text += lead + (style(piece, name) if name else piece)
    return text


def _compose_row(row: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> str:
    cells = [shorten(cell, width) for cell, width in zip(row, widths, strict=True)]
    cells[:-1] = [
        cell + " " * (width - measure_text(cell))
        for cell, width in zip(cells[:-1], widths[:-1], strict=True)
    ]
    styled = [
        style(cell, styles[index]) if index < len(styles) and styles[index] else cell
        for index, cell in enumerate(cells)
    ]
    return "  ".join(styled).rstrip()


def write_explanations(rows: Iterable[tuple[str, str, str]]) -> None:
    """Write names with their values and, below each, its source; nothing is cut.

    In a file or pipe, each is one line, separated by tabs.
    """
    for name, value, source in rows:
        if sys.stdout.isatty():
            sys.stdout.write(f"{style(sanitize(name), 'cyan')} = {sanitize(value)}\n")
            sys.stdout.write(style(f"    {sanitize(source)}", "dim") + "\n")
        else:
            cells = (" ".join(cell.split()) for cell in (name, value, source))
            sys.stdout.write("\t".join(cells) + "\n")


def _fit(widths: list[int]) -> list[int]:
    """Shrink the last column to a minimum, and then the widest other than the first."""
    fitted = list(widths)
    excess = sum(fitted) + 2 * (len(fitted) - 1) - measure_width()
    taken = max(0, min(excess, fitted[-1] - _LEAST_COLUMNS))
    fitted[-1] -= taken
    excess -= taken
    while excess > 0 and len(fitted) > 2:
        widest = max(range(1, len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= 1:
            break
        fitted[widest] -= 1
        excess -= 1
    return fitted
