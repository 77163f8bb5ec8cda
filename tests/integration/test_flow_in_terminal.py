"""A flow that runs in a real terminal is drawn there, and its page beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.flows.flow_tasks import compose_task
from support.runs.scripting import write_script
from support.screens.pseudoterminals import Terminal


@pytest.mark.slow
def test_a_run_is_drawn_while_it_goes_on_and_its_end_stays(tmp_path: Path) -> None:
    """Then comes the response; the page that was asked for follows the same run."""
    script = write_script(
        tmp_path,
        {"match": "left", "contents": [{"text": "a tide comes in " * 6}], "delay_seconds": 0.05},
        {"match": "right", "contents": [{"text": "B"}]},
        {"contents": [{"text": "the end"}]},
    )
    task = compose_task(
        "START --> S[Both] --> P0[Left] --> P2[Last]\n S --> P1[Right] --> P2 --> END",
        "left",
        "right",
        "last",
        script=script,
    )
    (tmp_path / "task.json").write_text(json.dumps(task), encoding="utf-8")

    terminal = Terminal(tmp_path, "flow", "run", "task.json", "--html", "run.html")
    try:
        text = terminal.wait_for(r"│ ▸ Left .*\n│ . Right(.|\n)*Left: .*tide")
        assert "✓ Both" in text
        text = terminal.wait_for("Kept as")
    finally:
        terminal.close()

    lines = [line.rstrip() for line in text.splitlines()]
    first = lines.index("✓ START")
    assert [line[:9].rstrip() for line in lines[first : first + 6]] == [
        "✓ START",
        "✓ Both",
        "│ ✓ Left",
        "│ ✓ Right",
        "✓ Last",
        "✓ END",
    ]
    assert lines[first + 6].startswith("6 visits")
    assert "the end" in lines
    assert "a tide comes in" in (tmp_path / "run.html").read_text("utf-8")
