"""Output of commands: results to standard output, remarks to standard error.

In text of models and files, characters that control the terminal or reorder its display are
escaped. Characters that join letters or mark the direction of a script are escaped only in text
that the user must approve: see :func:`reveal`. Colour is used on terminals, unless ``NO_COLOR`` is
set.
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

_INVISIBLE = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Invisible characters that Python considers printable: fillers, blanks, variant selectors.

Compiled when it is first used, which takes as long as ten modules.
"""
_STYLE_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}

_MIN_LAST_COLUMNS = 16
"""Width to which the last column of a table is cut before others are."""

_MIN_COLUMNS = 20
"""Minimum useful width of the other columns; if one is narrower, no table is shown."""

_INDENT = "    "


def reveal(text: str) -> str:
    """Escape invisible characters, as in JSON, in a text that the user must approve.

    These are all control, format and separator characters, including line ends and unusual spaces.
    The result has one line and no hidden text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() and not re.match(_INVISIBLE, letter) else _escape(letter)
        for letter in text
    )


def reveal_lines(text: str, *, indent: str = "") -> str:
    """Escape a text as :func:`reveal` does, but keep its line ends.

    Args:
        indent: Prefix of each line, so that users can tell it from the program's own output.
    """
    return "\n".join(indent + reveal(line) for line in text.split("\n"))


def reveal_head(text: str) -> str:
    """Escape the first line of a text, as :func:`reveal` does."""
    return reveal(text.strip().partition("\n")[0])


def _escape(letter: str) -> str:
    # JSON escapes UTF-16 code units; some characters have two. File names may contain a single
    # surrogate.
    units = letter.encode("utf-16-be", "surrogatepass")
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    return short.get(letter) or "".join(
        rf"\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)
    )


def repair(text: str) -> str:
    """Repair typed text: in a locale such as C, Python does not decode its UTF-8."""
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
    return f"\x1b[{';'.join(_STYLE_CODES[name] for name in names)}m{text}\x1b[0m"


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
    """Write a remark to standard error, dimmed on a terminal; see :func:`respell`."""
    sys.stderr.write(style(sanitize(respell(text)), "dim", stream=sys.stderr) + "\n")
    sys.stderr.flush()


def write_json(value: Any) -> None:
    """Write a result as one line of JSON. Times are written as ISO 8601."""
    import json

    # With another encoding than UTF-8, JSON escapes characters that it might lack.
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    text = json.dumps(value, ensure_ascii=encoding != "utf8", default=_encode_value)
    sys.stdout.write(text + "\n")


def write_moment(moment: datetime) -> str:
    """Format a date and minute in local time."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def write_count(number: int, noun: str) -> str:
    """Format a number with its noun: ``1 call``, ``2 calls``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _encode_value(value: Any) -> Any:
    from datetime import date

    if isinstance(value, date):  # or its subclass, datetime
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)


def measure_width() -> int:
    """Return the terminal's width in columns; 80 without a terminal."""
    columns = os.environ.get("COLUMNS", "")  # overrides the terminal's width, by convention
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
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

    def measure(letter: str) -> int:
        if unicodedata.combining(letter) or unicodedata.category(letter) in ("Cf", "Me", "Mn"):
            return 0
        return 2 if unicodedata.east_asian_width(letter) in "WF" else 1

    return sum(map(measure, text))


def shorten(text: str, columns: int) -> str:
    """Join a text to one line and cut it to a number of columns, with an ellipsis if cut."""
    text = " ".join(text.split())
    if measure_text(text) <= columns:
        return text
    start = ""
    for letter in text:
        if measure_text(start + letter) > columns - 1:
            break
        start += letter
    return start.rstrip() + "…" if columns > 0 else ""


def write_table(
    rows: Iterable[Sequence[str]],
    *,
    headers: Sequence[str],
    styles: Sequence[str] = (),
    row_styles: Sequence[str] = (),
    whole: bool = False,
) -> None:
    """Write rows under their headers, cut to fit the terminal; the last column is cut first.

    On a terminal that is too narrow for columns, the cells of a row follow each other, over several
    lines. A file or a pipe gets only the rows, uncut, one line each, with tabs between columns.

    Args:
        rows: The rows, with equal numbers of columns.
        headers: The headers of the columns.
        styles: The style of each column; empty for none.
        row_styles: The style of the first column in each row, in place of that of the column.
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
    full_widths = [max(map(measure_text, column)) for column in zip(*table, strict=True)]
    widths = _fit(full_widths)
    is_too_narrow = any(
        width < min(full_width, _MIN_COLUMNS)
        for width, full_width in zip(widths[:-1], full_widths[:-1], strict=True)
    )
    for number, row in enumerate(table):
        names = styles if number else ["bold"] * len(headers)
        if number and row_styles:
            names = [row_styles[number - 1], *styles[1:]]
        if is_too_narrow or (whole and widths != full_widths):
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
        shown = shorten(cell, columns - len(_INDENT)) if is_last and not whole else cell
        # Long words are not split, because a split path cannot be copied.
        for piece in textwrap.wrap(shown, room, break_long_words=False, break_on_hyphens=False):
            width = measure_text(piece)
            fits = used + 2 + width <= columns
            separator = "  " if fits else f"\n{_INDENT}"
            separator = separator if text else ""
            used = used + len(separator) + width if fits else len(_INDENT) + width
            text += separator + (style(piece, name) if name else piece)
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
    """Write names with their values and, below each value, its source; nothing is cut.

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
    """Shrink columns to the terminal: first the last, then always the widest except the first."""
    fitted = list(widths)
    excess = sum(fitted) + 2 * (len(fitted) - 1) - measure_width()
    reduction = max(0, min(excess, fitted[-1] - _MIN_LAST_COLUMNS))
    fitted[-1] -= reduction
    excess -= reduction
    while excess > 0 and len(fitted) > 2:
        widest = max(range(1, len(fitted)), key=fitted.__getitem__)
        if fitted[widest] <= 1:
            break
        fitted[widest] -= 1
        excess -= 1
    return fitted
