"""Writer of the table of features of calls, from the walk of the tests.

``python documentation/draw_features.py`` writes ``reference/features.rst``; a test compares the
page with the formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from draw_fidelity import HERE, compose_head, draw_table, load_walk

PAGE = HERE / "reference" / "features.rst"

if TYPE_CHECKING:
    from fidelity.matrix import Verdict
    from vibe_llms.models.genera import Genus

HEAD = """\
Features: models that do not converse
=====================================

.. This page is written by documentation/draw_features.py from the walk of the tests.

These tables show what becomes of each field of a call, at each vendor and from each client of a
gateway. The tests that write the tables set every field alone and compare the vendor's call with
the call without it, so that no field is lost without a report: your results list the same losses.
Vendors with the same row stand together. The models that run on your machine (``local``) name
their losses, too. For conversations, see :doc:`fidelity`.

kept
    Sent, or applied when the answer is read.
in the answer
    Not sent: it changes the answer that the client gets.
in part
    Sent, except for the fields in the note.
unchanged
    The client and the vendor have the same protocol: the gateway passes all fields through.
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
    from fidelity.calls import FIELDS

    parts = [HEAD]
    for genus in FIELDS:
        parts += [_draw_fields(genus), _draw_clients(genus), _draw_client_fields(genus)]
    return "\n".join(parts)


def _draw_fields(genus: Genus) -> str:
    """Return the table of the fields of your calls at each vendor."""
    from fidelity.calls import FIELDS, judge_field, survey_vendors

    head = compose_head(f"{str(genus).capitalize()}s", "-")
    fields = FIELDS[genus]
    if not fields:
        titles = ", ".join(vendor.title for vendor in survey_vendors(genus))
        return f"{head}\nThe texts are the only field, and kept by all: {titles}.\n"
    rows = [
        (vendor.title, tuple(judge_field(genus, title, vendor) for title in fields))
        for vendor in survey_vendors(genus)
    ]
    return f"{head}\n{draw_table([f'``{title}``' for title in fields], _group(rows))}"


def _draw_clients(genus: Genus) -> str:
    """Return the table of the gateway's clients at each vendor."""
    from fidelity.calls import survey_vendors
    from fidelity.clients import FACES, judge_face

    faces = FACES[genus]
    rows = [
        (vendor.title, tuple(judge_face(genus, face, vendor) for face in faces))
        for vendor in survey_vendors(genus)
    ]
    head = compose_head(f"Clients of a gateway: {genus}s", "~")
    return f"{head}\n{draw_table([f'``{face.title}``' for face in faces], _group(rows))}"


def _draw_client_fields(genus: Genus) -> str:
    """Return lists of the fields that clients send, by what becomes of them."""
    from fidelity.clients import FACES, judge_client_field

    lines = []
    for face in FACES[genus]:
        found: dict[str, list[str]] = {}
        for name in face.fields:
            verdict = judge_client_field(genus, face, name)
            found.setdefault(verdict.word, []).append(f"``{name}``")
        if found:
            words = "; ".join(f"{word}: {', '.join(names)}" for word, names in found.items())
            lines.append(f"* ``{face.title}``, to other vendors: {words}.")
    return "\n".join([*lines, ""])


def _group(rows: Sequence[tuple[str, Sequence[Verdict]]]) -> list[tuple[str, Sequence[Verdict]]]:
    """Join rows with the same verdicts."""
    titles: dict[tuple[Verdict, ...], list[str]] = {}
    for title, verdicts in rows:
        titles.setdefault(tuple(verdicts), []).append(title)
    return [(", ".join(names), verdicts) for verdicts, names in titles.items()]


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
    print(f"drew {PAGE.relative_to(HERE.parent)}")
