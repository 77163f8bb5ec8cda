"""Exact replacement of a text that occurs once, with helpful messages if it does not."""

from __future__ import annotations

import difflib
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.refusals import Refusal

_LINES_COMPARED: Final = 2_000
_SHOWN_LIMIT: Final = 10


@frozen
class Replacement:
    """A text after the replacement, and the line of the replacement, counted from 1."""

    text: str
    line: int


def replace_once(whole: str, old: str, new: str, shown: str) -> Replacement:
    """Replace a text that occurs exactly once.

    If ``old`` is found only with line ends in CR LF, ``old`` and ``new`` are converted to CR LF.

    Args:
        shown: The name of the file, for messages.

    Raises:
        Refusal: The text occurs several times, or not at all; the message has the lines, or the
            most similar text.
    """
    if not old:
        raise Refusal("'old' is empty: give the text to replace. To write a file use write_file.")
    if old == new:
        raise Refusal("'old' and 'new' are equal: there is nothing to replace.")
    # Models write LF even for a file with CR LF.
    if old not in whole and "\r\n" in whole and "\r" not in old:
        old = old.replace("\n", "\r\n")
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    positions = _find_all(whole, old)
    if len(positions) == 1:
        start = positions[0]
        text = whole[:start] + new + whole[start + len(old) :]
        return Replacement(text, _count_lines(whole, start))
    if positions:
        lines = [str(_count_lines(whole, start)) for start in positions[:_SHOWN_LIMIT]]
        more = ", …" if len(positions) > _SHOWN_LIMIT else ""
        raise Refusal(
            f"'old' occurs {len(positions)} times in {shown}, at the lines "
            f"{', '.join(lines)}{more}. Include more of the text around the right one."
        )
    raise Refusal(f"'old' is not in {shown}.{_find_nearest(whole, old)}")


def _find_all(text: str, old: str) -> list[int]:
    """Return all positions; overlapping matches count, because they make the target ambiguous."""
    positions: list[int] = []
    start = text.find(old)
    while start >= 0 and len(positions) < 1_000:
        positions.append(start)
        start = text.find(old, start + 1)
    return positions


def _count_lines(text: str, end: int) -> int:
    """Return the number of the line that contains a position."""
    return text.count("\n", 0, end) + 1


def _find_nearest(text: str, old: str) -> str:
    """Describe the most similar text."""
    first_line = next((line for line in old.splitlines() if line.strip()), "")[:500]
    lines = [line[:500] for line in text.splitlines()]
    matches = [number for number, line in enumerate(lines) if line.split() == first_line.split()]
    if first_line and matches:
        number = matches[0]
        if lines[number] == first_line:
            return (
                f" Its first line is at line {number + 1}, but the next lines differ. Read "
                "the file again."
            )
        return f" Line {number + 1} differs in its spaces: {lines[number]!r}."
    # Comparing a line may take quadratic time, so only a limited number of short lines is compared.
    near = difflib.get_close_matches(first_line, lines[:_LINES_COMPARED], n=1, cutoff=0.6)
    if near:
        return f" The most similar line is {lines.index(near[0]) + 1}: {near[0]!r}."
    return " Read the file again."
