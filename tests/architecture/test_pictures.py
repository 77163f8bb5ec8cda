"""Pictures that are drawn from the code show the code as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from vibe_llms.engine.table import TABLE

DOCUMENTATION = Path(__file__).resolve().parents[2] / "documentation"


def run(program: str) -> str:
    """Returns what a program prints that runs where the drawing programs are."""
    return subprocess.run(
        [sys.executable, "-B", "-c", program],
        cwd=DOCUMENTATION,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    ).stdout


def test_the_picture_of_the_layers_is_up_to_date() -> None:
    """The drawing in the documentation is what the contract would be drawn as now."""
    program = "import draw_layers; print(draw_layers.draw(draw_layers.read_layers()), end='')"
    drawn = run(program)

    picture = DOCUMENTATION / "architecture" / "layers.svg"
    assert drawn == picture.read_text("utf-8"), "Run `python documentation/draw_layers.py`."


def test_the_pictures_of_the_examples_of_tasks_are_up_to_date() -> None:
    """Each was drawn of the diagram as it is now, and there is one for each example."""
    program = (
        "import draw_flows as d; print(*(n + d.mark(t) for n, t in d.survey_diagrams().items()))"
    )
    drawn = run(program)

    pictures = sorted((DOCUMENTATION / "guides" / "flows").glob("*.svg"))
    assert len(pictures) == drawn.count("drawn of")
    for picture in pictures:
        first = picture.read_text("utf-8").partition("\n")[0]
        assert picture.stem + first in drawn, "Run `python documentation/draw_flows.py`."


def test_the_fidelity_matrix_is_up_to_date() -> None:
    """The page tells what becomes of each feature between vendors as the dialects have it now."""
    drawn = run("import draw_fidelity; print(draw_fidelity.draw(), end='')")

    page = DOCUMENTATION / "reference" / "fidelity.rst"
    assert drawn == page.read_text("utf-8"), "Run `python documentation/draw_fidelity.py`."


def test_the_features_of_calls_are_up_to_date() -> None:
    """The table of features is made of what the tests try."""
    drawn = run("import draw_features; print(draw_features.draw(), end='')")

    page = DOCUMENTATION / "reference" / "features.rst"
    assert drawn == page.read_text("utf-8"), "Run `python documentation/draw_features.py`."


def test_the_picture_of_the_engine_is_up_to_date() -> None:
    """The states of a run are drawn as the table decides now."""
    drawn = run("import draw_engine; print(draw_engine.draw(), end='')")

    picture = DOCUMENTATION / "architecture" / "engine.svg"
    assert drawn == picture.read_text("utf-8"), "Run `python documentation/draw_engine.py`."


def test_every_row_of_the_engines_table_decides_something() -> None:
    """No row stands behind one that holds whenever it does."""
    rows = run("import draw_engine as it; print(*sorted({e.row for e in it.survey_transitions()}))")

    assert rows.split() == [str(number) for number, _ in enumerate(TABLE, 1)]
