"""Writes the fidelity matrix from the walk that the tests make.

``python documentation/draw_fidelity.py`` writes ``reference/fidelity.rst``; a test notices when
the page and what the dialects do differ.
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
What goes from vendor to vendor
===============================

.. This page is written by documentation/draw_fidelity.py from the walk of the tests.

One conversation may move between vendors. These tables tell what becomes of everything in it; they
are written by the program that tests it, and each translation of yours reports the same as its
losses. Nothing goes missing without such a report: the tests alter every field in turn, for every
pair of vendors, and compare.

kept
    It goes as it is.
in part
    It goes, except for the fields named in the note.
coerced
    It goes in another form.
withheld
    It stays behind, and goes again when the conversation returns to whom it belongs.
dropped
    There is no place for it.
refused
    The request is an error, and nothing is sent.

What is *withheld* or *dropped* stays in your conversation in any case. A request with
``strict=True`` makes an error of every loss before anything is sent. Of the vendors that speak Chat
Completions, three stand for their kinds; what each model can do besides, its attributes say.

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

    titles = [party.title for party in PARTIES]
    said = [
        (feature.title, [judge(feature, party) for party in PARTIES]) for feature in survey_said()
    ]
    parts = [HEAD, _head("What you say, to each vendor", "-"), _draw_table(titles, said)]
    parts.append(_head("What a vendor answered, to each other", "-"))
    for first in PARTIES:
        rows = [
            (feature.title, [judge(feature, party) for party in PARTIES])
            for feature in survey_answered(first)
        ]
        parts += [_head(f"From {first.title}", "~"), _draw_table(titles, rows)]
    return "\n".join(parts)


def _head(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n"


def _draw_table(titles: Sequence[str], rows: Iterable[tuple[str, Sequence[Verdict]]]) -> str:
    """Returns a table of verdicts, with the reasons in notes below it."""
    notes: dict[tuple[str, ...], int] = {}
    lines = [
        ".. list-table::",
        "   :header-rows: 1",
        "   :stub-columns: 1",
        "",
    ]
    lines += _draw_row("", [f"to {title}" for title in titles])
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
