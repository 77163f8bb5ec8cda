"""Exact replacement of a text that occurs once, with helpful messages if it does not."""

from __future__ import annotations

import difflib
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.refusals import Refusal

_LINES_COMPARED: Final = 2_000
_SHOWN: Final = 10


@frozen
class Replacement:
    """A text after the replacement, and the line of the replacement, counted from 1."""

    text: str
    line: int


def replace_once(whole: str, old: str, new: str, shown: str) -> Replacement:
    """Replace a text that occurs exactly once.

    If all lines of the text end in CR LF and those of ``old`` in LF, both are converted to CR LF.

    Args:
        shown: The name of the text.

    Raises:
        Refusal: It occurs several times, or not at all; the message names the lines, or the nearest
            text.
    """
    if not old:
        raise Refusal("'old' is empty: give the text to replace. To write a file use write_file.")
    if old == new:
        raise Refusal("'old' and 'new' are equal: there is nothing to replace.")
    # Models write LF even if they were shown CR LF.
    if old not in whole and "\r\n" in whole and "\r" not in old:
        old, new = (text.replace("\n", "\r\n") for text in (old, new.replace("\r\n", "\n")))
    places = _find_all(whole, old)
    if len(places) == 1:
        start = places[0]
        text = whole[:start] + new + whole[start + len(old) :]
        return Replacement(text, _count_lines(whole, start))
    if places:
        lines = [str(_count_lines(whole, start)) for start in places[:_SHOWN]]
        more = ", …" if len(places) > _SHOWN else ""
        raise Refusal(
            f"'old' occurs {len(places)} times in {shown}, at the lines "
            f"{', '.join(lines)}{more}. Include more of the text around the right one."
        )
    raise Refusal(f"'old' is not in {shown}.{_find_nearest(whole, old)}")


def _find_all(whole: str, old: str) -> list[int]:
    """Return all positions, including overlapping ones, since then the target is ambiguous."""
    places: list[int] = []
    start = whole.find(old)
    while start >= 0 and len(places) < 1_000:
        places.append(start)
        # From the next character, not after the match: overlapping ones count as well.
        start = whole.find(old, start + 1)
    return places


def _count_lines(whole: str, end: int) -> int:
    return whole.count("\n", 0, end) + 1


def _find_nearest(whole: str, old: str) -> str:
    """Describe the most similar text."""
    wanted = next((line for line in old.splitlines() if line.strip()), "")[:500]
    lines = [line[:500] for line in whole.splitlines()]
    alike = [number for number, line in enumerate(lines) if line.split() == wanted.split()]
    if wanted and alike:
        number = alike[0]
        if lines[number] == wanted:
            return (
                f" Its first line is at line {number + 1}, but the next lines differ. Read "
                "the file again."
            )
        return f" Line {number + 1} differs in its spaces: {lines[number]!r}."
    # The comparison of a line may take quadratic time: so only few and short lines are compared.
    near = difflib.get_close_matches(wanted, lines[:_LINES_COMPARED], n=1, cutoff=0.6)
    if near:
        return f" The most similar line is {lines.index(near[0]) + 1}: {near[0]!r}."
    return " Read the file again."
