"""Writer of the table of features of calls, from the walk of the tests.

``python documentation/draw_features.py`` writes ``reference/features.rst``; a test compares the
page with the formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from draw_fidelity import HERE, compose_head, draw_table, load_walk

PAGE = HERE / "reference" / "features.rst"

if TYPE_CHECKING:
    from fidelity.matrix import Verdict

HEAD = """\
Features: models that do not converse
=====================================

.. This page is written by documentation/draw_features.py from the walk of the tests.

These tables show what becomes of each field of a call, at each vendor and from each client of a
gateway. The tests that write the tables set every field alone and compare the vendor's call with
the call without it, so that no field is lost without a report: your results list the same losses.
Vendors with the same row stand together. The models that run on your
machine (``local``) name their losses, too. For conversations, see :doc:`fidelity`.

kept
    Sent, or applied when the answer is read.
coerced
    Sent in another form.
dropped
    Not sent: the vendor does not support it. A request with ``strict=True`` raises an error.
refused
    An error; nothing is sent.

"""


def draw() -> str:
    """Return the page."""
    load_walk()
    from fidelity.calls import FIELDS, judge_field, survey_vendors

    parts = [HEAD]
    for genus, fields in FIELDS.items():
        parts.append(compose_head(f"{str(genus).capitalize()}s", "-"))
        rows: dict[tuple[Verdict, ...], list[str]] = {}
        for vendor in survey_vendors(genus):
            verdicts = tuple(judge_field(genus, title, vendor) for title in fields)
            rows.setdefault(verdicts, []).append(vendor.title)
        if fields:
            table = [(", ".join(titles), verdicts) for verdicts, titles in rows.items()]
            parts.append(draw_table([_mark(title) for title in fields], table))
        else:
            titles = ", ".join(title for found in rows.values() for title in found)
            parts.append(f"The texts are the only field, and kept by all: {titles}.\n")
    return "\n".join(parts)


def _mark(title: str) -> str:
    """Return a field with its value as code."""
    return f"``{title}``"


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
    print(f"drew {PAGE.relative_to(HERE.parent)}")
