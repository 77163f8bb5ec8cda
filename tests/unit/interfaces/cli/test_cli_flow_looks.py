"""``vibe flow show`` and ``vibe flow diff``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_courses import CourseWriter
from support.flows.flow_graphs import draw
from support.flows.flow_tasks import compose_task
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.flows.rows import compose_rows, find_depths
from vibe_llms.mermaid import parse_diagram

Vibe = Callable[..., Any]

DIAGRAM = "START --> P0[First] --> C{which?}\n C -->|tides| P1[Again] --> END\n C -->|moons| END"


def write_task(home: Path, name: str = "task.json", diagram: str = DIAGRAM, **parts: Any) -> str:
    prompts = parts.pop("prompts", ("Say {{topic}}", "Again: {{response:P0}}"))
    task = compose_task(diagram, *prompts, variables={"topic": "tides"}, **parts)
    (home / name).write_text(json.dumps(task), encoding="utf-8")
    return name


@pytest.fixture
def run_id(vibe: Vibe, home: Path) -> str:
    """A run that met its goal."""
    condition = {"description": "tides", "evaluation_type": "CONTAINS", "expected_value": "tides"}
    task = write_task(home, conditions=[condition])
    return str(vibe("flow", "run", task, "--json").read_json()["run_id"])


def test_a_run_is_shown_node_by_node(vibe: Vibe, run_id: str) -> None:
    """With what became of its goal; in a pipe, cells are parted by tabs."""
    lines = vibe("flow", "show", run_id[:8]).out.splitlines()

    assert lines[0] == f"{run_id}  Find out."
    rows = [line.split("\t")[:2] for line in lines[1:6]]
    assert rows == [
        ["✓ START", "done"],
        ["✓ First", "done"],
        ["✓ which?", "done"],
        ["✓ Again", "done"],
        ["✓ END", "done"],
    ]
    assert lines[7].startswith("goal met · 5 visits")
    assert lines[8].startswith("✓ tides: The final response contains 'tides'")


def test_without_a_name_the_newest_run_is_meant(vibe: Vibe, run_id: str) -> None:
    """And no conversation that is none, nor that of a visit."""
    vibe("ask", "hello")

    assert vibe("flow", "show", "--json").read_json()["run_id"] == run_id
    named = vibe("flow", "show", "--run", run_id)
    assert named.out == vibe("flow", "show", run_id).out
    assert "--run is deprecated" in named.err
    assert vibe("flow", "show", run_id, "--run", run_id).code == ExitCode.USAGE


def test_where_there_is_no_run_it_is_said(vibe: Vibe) -> None:
    """With what makes one."""
    outcome = vibe("flow", "show")
    assert outcome.code == ExitCode.NOT_FOUND
    assert "vibe flow run" in outcome.err


def test_a_run_is_shown_as_mermaid_as_json_and_as_a_page(
    vibe: Vibe, home: Path, run_id: str
) -> None:
    """Each of them for other readers."""
    diagram = parse_diagram(vibe("flow", "show", run_id, "--mermaid").out)
    assert diagram.nodes["P0"].classes == ("flow-done",)
    document = vibe("flow", "show", run_id, "--json").read_json()
    assert [each["node"] for each in document["visits"]] == ["START", "P0", "C", "P1", "END"]
    assert (document["visits"][2]["category"], document["goal_met"]) == ("tides", True)
    assert document["verification"][0]["is_met"] is True
    outcome = vibe("flow", "show", run_id, "--html", "run.html")
    assert (outcome.out, outcome.err) == ("", "Written: run.html\n")
    assert "Again: Say tides" in (home / "run.html").read_text("utf-8")


def test_a_run_keeps_a_page_where_one_is_wanted(vibe: Vibe, home: Path) -> None:
    """From its beginning to its end; where it cannot be written, the run goes on all the same."""
    task = write_task(home)

    outcome = vibe("flow", "run", task, "--html", "run.html")
    assert (outcome.code, outcome.out) == (0, "Again: Say tides\n")
    assert f"in a browser: {(home / 'run.html').as_uri()}" in outcome.err
    page = (home / "run.html").read_text("utf-8")
    assert "✓ goal met" in page
    assert '"is_live": false' in page

    outcome = vibe("flow", "run", task, "--html", "nowhere/run.html")
    assert (outcome.code, outcome.out) == (0, "Again: Say tides\n")
    assert outcome.err.count("Cannot write") == 1


def test_two_versions_are_told_apart(vibe: Vibe, home: Path) -> None:
    """Nodes, edges, prompts and what else a task has; the exit code is that of diff."""
    old = write_task(home)
    new = write_task(
        home,
        "new.json",
        DIAGRAM.replace("C -->|moons| END", "C -->|moons| P2 --> END"),
        prompts=("Tell {{topic}}", "Again: {{response:P0}}", "third"),
    )

    outcome = vibe("flow", "diff", old, new)

    assert outcome.code == 1
    assert [line.split("\t") for line in outcome.out.splitlines()] == [
        ["changed", "P0", "prompt"],
        ["added", "P2", ""],
        ["added", "C --> P2", "moons"],
        ["added", "P2 --> END", ""],
        ["removed", "C --> END", "moons"],
    ]
    parse_diagram(vibe("flow", "diff", old, new, "--mermaid").out)
    document = vibe("flow", "diff", old, new, "--json").read_json()
    assert document["nodes"][0]["new"]["template"] == "Tell {{topic}}"
    vibe("flow", "diff", old, new, "--html", "new.html")
    page = (home / "new.html").read_text("utf-8")
    assert "<del>- Say {{topic}}</del>\n<ins>+ Tell {{topic}}</ins>" in page
    same = vibe("flow", "diff", old, old)
    assert (same.code, same.out, same.err) == (0, "", "No differences.\n")


def test_a_version_is_a_file_or_a_run(vibe: Vibe, home: Path, run_id: str) -> None:
    """A run stands for its task as it was when it began, and is named as everywhere."""
    write_task(home, prompts=("Tell {{topic}}", "Again: {{response:P0}}"))

    outcome = vibe("flow", "diff", run_id[:8], "task.json")
    assert outcome.code == 1
    assert [line.split("\t") for line in outcome.out.splitlines()] == [
        ["changed", "P0", "prompt"],
        ["changed", "goal", ""],
    ]
    assert vibe("flow", "diff", run_id, run_id).code == 0
    for word, said in (("ffffffff", "neither a file nor a run"), ("gone.json", "gone.json")):
        outcome = vibe("flow", "diff", word, "task.json")
        assert outcome.code != 0
        assert said in outcome.err


def test_runs_of_two_tasks_differ_in_their_nodes(vibe: Vibe, home: Path) -> None:
    """And in the variables that they were given; two whole tasks as JSON nobody reads."""
    run_ids = [
        vibe("flow", "run", task, *given, "--json").read_json()["run_id"]
        for task, *given in (
            (write_task(home), "topic=tides"),
            (write_task(home, "new.json", prompts=("Tell {{topic}}", "Again")), "topic=1"),
        )
    ]

    outcome = vibe("runs", "diff", *run_ids)

    assert outcome.code == 1
    assert [line.split("\t") for line in outcome.out.splitlines()] == [
        ["changed", "P0", "prompt"],
        ["changed", "P1", "prompt"],
        ["changed", "variable topic", '"tides" -> 1'],
    ]


def test_nodes_are_one_step_in_for_each_split_that_they_are_within() -> None:
    """Between the split and its join, also where an edge leads back out of a branch."""
    flow = draw(
        "START > P",
        "P > S",
        "S > A",
        "S > T",
        "T > B",
        "T > C",
        "B > U",
        "C > U",
        "U > J",
        "A > J : on",
        "A > P : again",
        "J > END",
    )
    depths = {name: depth for name, depth in find_depths(flow).items() if depth}
    assert depths == {"A": 1, "T": 1, "B": 2, "C": 2, "U": 1}


def test_a_row_says_what_a_node_took() -> None:
    """What is unknown is empty, and so is what did not happen."""
    flow = compile_flow(parse_diagram('graph TD\nSTART --> P0["Ask<br/>twice"] --> END')).flow
    run = CourseWriter()
    run.visit("START", 0)
    run.visit("P0", 1, seconds=2, tokens=1500, cost_cents=2)
    run.visit("P0", 1, seconds=2)
    rows = compose_rows(flow, run.course)

    assert [(each.head, each.cells) for each in rows] == [
        ("✓ START", ("", "", "", "")),
        ("✓ Ask twice", ("×2", "4.0 s", "1.5k", "$0.02")),  # noqa: RUF001
        ("  END", ("", "", "", "")),
    ]
