"""Meaning of links' lines."""

from __future__ import annotations

from typing import NamedTuple

from vibe_llms.mermaid.spans import strip_space

LONGEST = 10
"""Maximum length; longer links count as this long."""

_ENDS = {"x": ("arrow_cross", "x"), ">": ("arrow_point", "<"), "o": ("arrow_circle", "o")}
_STARTS = {"<": "arrow_point", "x": "arrow_cross", "o": "arrow_circle"}
INVALID = "INVALID"
"""Mermaid's type and stroke of a link whose start and end contradict each other."""


class Line(NamedTuple):
    """Type, stroke and length of a link."""

    type: str
    stroke: str
    length: int | None


def read_line(text: str) -> Line:
    """Read a link without label, or the end of one with its label inside."""
    text = strip_space(text)
    line, type_ = text[:-1], "arrow_open"
    if text[-1] in _ENDS:
        type_, opposite = _ENDS[text[-1]]
        if text.startswith(opposite):
            type_, line = f"double_{type_}", line[1:]
    stroke, length = "normal", len(line) - 1
    if line.startswith("="):
        stroke = "thick"
    if line.startswith("~"):
        stroke = "invisible"
    if dots := line.count("."):
        # Each dot counts; the hyphens around them do not.
        stroke, length = "dotted", dots
    return Line(type_, stroke, length)


def read_split_line(start: str, end: str) -> Line:
    """Read a link with its label inside, as ``-- text -->``."""
    line = read_line(end)
    start = strip_space(start)
    type_ = _STARTS.get(start[0], "arrow_open")
    stroke = "normal"
    if "." in start:
        stroke = "dotted"
    elif "=" in start:
        stroke = "thick"
    if stroke != line.stroke or type_ not in ("arrow_open", line.type):
        return Line(INVALID, INVALID, None)
    return Line(line.type if type_ == "arrow_open" else f"double_{type_}", stroke, line.length)
