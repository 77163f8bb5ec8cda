"""Writer of the fidelity matrix, from the walk of the tests.

``python documentation/draw_fidelity.py`` writes ``reference/fidelity.rst``; a test compares
the page with the dialects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
PAGE = HERE / "reference" / "fidelity.rst"

if TYPE_CHECKING:
    from fidelity.matrix import Verdict

HEAD = """\
Fidelity: conversations with several vendors
============================================

.. This page is written by documentation/draw_fidelity.py from the walk of the tests.

A conversation may move between vendors. These tables show how each part of it is sent; your
translations report the same as losses. The tests that write the tables change every field in turn,
for every pair of vendors, so that nothing is lost without a report.

kept
    Sent unchanged.
in part
    Sent, except for the fields named in the note.
coerced
    Sent in another form.
withheld
    Not sent; sent again when the conversation returns to the vendor that can use it.
dropped
    Not sent: the vendor does not support it.
refused
    An error; nothing is sent.

What is *withheld* or *dropped* stays in your conversation. A request with ``strict=True`` turns
every loss into an error before anything is sent. Three vendors of Chat Completions stand for the
others; the attributes of a model list its capabilities.

"""


def load_walk() -> None:
    """Lets the walk be imported: it is part of the tests."""
    for folder in (HERE.parent / "sources", HERE.parent / "tests"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))


def draw() -> str:
    """Returns the page."""
    load_walk()
    from fidelity.matrix import judge, survey_answered, survey_said
    from fidelity.parties import PARTIES

    titles = [f"to {party.title}" for party in PARTIES]
    said = [
        (feature.title, [judge(feature, party) for party in PARTIES]) for feature in survey_said()
    ]
    parts = [HEAD, compose_head("Your messages, to each vendor", "-"), draw_table(titles, said)]
    parts.append(compose_head("A vendor's answers, to the other vendors", "-"))
    for first in PARTIES:
        rows = [
            (feature.title, [judge(feature, party) for party in PARTIES])
            for feature in survey_answered(first)
        ]
        parts += [compose_head(f"From {first.title}", "~"), draw_table(titles, rows)]
    return "\n".join(parts)


def compose_head(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n"


def draw_table(titles: Sequence[str], rows: Iterable[tuple[str, Sequence[Verdict]]]) -> str:
    """Returns a table of verdicts, with the reasons in notes below it."""
    notes: dict[tuple[str, ...], int] = {}
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        "   :stub-columns: 1",
        "",
    ]
    lines += _draw_row("", titles)
    for title, verdicts in rows:
        cells = []
        for verdict in verdicts:
            mark = ""
            if verdict.reasons:
                mark = f" ({notes.setdefault(verdict.reasons, len(notes) + 1)})"
            cells.append(f"{verdict.word}{mark}")
        lines += _draw_row(title, cells)
    lines.append("")
    for reasons, number in notes.items():
        lines.append(f"({number}) {'; '.join(map(_escape, reasons))}.\n")
    return "\n".join(lines)


def _draw_row(first: str, cells: Sequence[str]) -> list[str]:
    return [f"   * - {first}".rstrip(), *(f"     - {cell}" for cell in cells)]


def _escape(text: str) -> str:
    for sign in ("\\", "*", "`", "|", "_"):
        text = text.replace(sign, f"\\{sign}")
    return text


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
    print(f"drew {PAGE.relative_to(HERE.parent)}")
