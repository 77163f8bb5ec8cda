"""``vibe flow``: tasks are begun, checked, run, resumed and forked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.flows.flow_tasks import compose_task
from support.runs.scripting import write_script
from vibe_llms.conversations import DirectoryStore
from vibe_llms.flows.examples import Example, survey_examples
from vibe_llms.flows.task_reading import read_task
from vibe_llms.interfaces.cli.completing import survey_examples as complete_examples
from vibe_llms.interfaces.cli.completing import survey_flow_runs
from vibe_llms.interfaces.cli.errors import ExitCode

Vibe = Callable[..., Any]

CHOICE = "START --> P0 --> C{which?}\n C -->|tides| P1 --> END\n C -->|moons| END\n C --> END"


def write_task(folder: Path, *parts: Any, name: str = "task.json", **settings: Any) -> str:
    path = folder / name
    path.write_text(json.dumps(compose_task(*parts, **settings)), encoding="utf-8")
    return name


def find_runs(home: Path) -> list[str]:
    store = DirectoryStore(home / ".local/share/vibe-llms")
    return [each for each in store.survey() if store.read_metadata(each).tags == ("flow",)]


def test_the_final_response_goes_to_standard_output_and_the_way_there_beside_it(
    vibe: Vibe, home: Path
) -> None:
    """So that it can be piped on; variables are given as NAME=VALUE."""
    task = write_task(home, CHOICE, "Say {{topic}}", "Again: {{response:P0}}")

    outcome = vibe("flow", "run", task, "topic=tides")

    assert (outcome.code, outcome.out) == (0, "Again: Say tides\n")
    lines = outcome.err.splitlines()
    assert [line.split(":")[0] for line in lines[:5]] == ["P0 …", "P0", "C", "P1 …", "P1"]
    assert "'tides'" in lines[2]
    (run_id,) = find_runs(home)
    assert f"Kept as {run_id}" in outcome.err


def test_a_task_with_mistakes_is_not_run_and_all_of_them_are_told(vibe: Vibe, home: Path) -> None:
    """With their places; nothing is kept."""
    task = write_task(home, "START --> P0 --> P7", "{{nothing", ensembles=["ioo"])

    outcome = vibe("flow", "run", task)

    assert outcome.code == ExitCode.CONFIGURATION
    assert outcome.out == ""
    assert outcome.err.count("vibe: error: task.json:1:") >= 4
    assert "Unknown ensemble 'ioo'; did you mean 'io'?" in outcome.err
    assert find_runs(home) == []


def test_a_check_tells_what_a_model_would_refuse_and_what_it_lacks(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the task's model, or of the one that takes its place; a key that is missing is a
    warning, since the task may be run elsewhere."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    task = write_task(home, "START --> P0 --> END", "six times nine")
    tree = json.loads((home / task).read_text("utf-8"))
    tree["resource_llm"] |= {"temperature": 0.5}
    (home / task).write_text(json.dumps(tree), encoding="utf-8")

    assert vibe("flow", "check", task).code == 0
    refused = vibe("flow", "check", task, "--model", "openai:o3")
    assert refused.code == ExitCode.CONFIGURATION
    assert "would refuse this: The model has no control 'temperature'" in refused.err
    lacking = vibe("flow", "check", task, "--model", "openai:gpt-5.4-nano", "--lenient", "--json")
    warnings = [each["message"] for each in lacking.read_json()["warnings"]]
    assert any("on this machine yet. Missing: OPENAI" in each for each in warnings)


def test_a_goal_that_is_not_met_has_an_exit_code_of_its_own(vibe: Vibe, home: Path) -> None:
    """The response is there all the same, and what is not met is told with its evidence."""
    condition = {"description": "42", "evaluation_type": "CONTAINS", "expected_value": "42"}
    task = write_task(home, "START --> P0 --> END", "six times nine", conditions=[condition])

    outcome = vibe("flow", "run", task)

    assert (outcome.code, outcome.out) == (ExitCode.INCOMPLETE, "six times nine\n")
    assert "Goal not met: 42: The final response does not contain '42'" in outcome.err


def test_as_json_all_that_came_of_a_run_is_told(vibe: Vibe, home: Path) -> None:
    """With the names of ``AdapterResult``."""
    task = write_task(home, "START --> P0 --> END", "hello")

    result = vibe("flow", "run", task, "--json").read_json()

    assert (result["success"], result["final_response"]) == (True, "hello")
    assert result["path"] == ["START", "P0", "END"]
    assert [result["run_id"]] == find_runs(home)


def test_a_run_that_reached_a_limit_is_resumed_with_a_higher_one(vibe: Vibe, home: Path) -> None:
    """By an id that may be shortened; what was answered is not asked again."""
    task = write_task(home, "START --> P0 --> P1 --> END", "one", "two")

    outcome = vibe("flow", "run", task, "--max-iterations", "2")
    (run_id,) = find_runs(home)

    assert outcome.code == ExitCode.LIMIT
    assert "P1: The limit max_iterations = 2 was reached" in outcome.err
    assert f"vibe flow resume {run_id}" in outcome.err
    outcome = vibe("flow", "resume", run_id[:8], "--max-iterations", "9")
    assert (outcome.code, outcome.out) == (0, "two\n")
    assert "P0 …" not in outcome.err


def test_a_failure_has_the_exit_code_of_its_kind(vibe: Vibe, home: Path, tmp_path: Path) -> None:
    """And names the node."""
    fault = {"kind": "authentication", "at_chunk": 0}
    script = write_script(tmp_path, {"contents": [], "fault": fault})
    task = write_task(home, "START --> P0 --> END", "x", script=script)

    outcome = vibe("flow", "run", task)

    assert (outcome.code, outcome.out) == (ExitCode.PROVIDER, "")
    assert "vibe: error: P0: " in outcome.err


def test_another_model_can_be_asked_and_is_asked_when_the_run_goes_on(
    vibe: Vibe, home: Path
) -> None:
    """Also where the task's own is not there at all, or its key."""
    task = compose_task("START --> P0 --> P1 --> END", "a", "b")
    task["resource_llm"] = {"provider": "nobody", "model": "x", "api_key_env": "NOBODYS_KEY"}
    (home / "task.json").write_text(json.dumps(task), encoding="utf-8")

    refused = vibe("flow", "run", "task.json")
    cut = vibe("flow", "run", "task.json", "--model", "scripted:echo", "--max-iterations", "2")
    (run_id,) = find_runs(home)
    resumed = vibe("flow", "resume", run_id, "--max-iterations", "5")

    assert refused.code == ExitCode.CONFIGURATION
    assert "Unknown provider 'nobody'" in refused.err
    assert (cut.code, resumed.code, resumed.out) == (ExitCode.LIMIT, 0, "b\n")


def test_a_fork_goes_its_own_way_from_a_node_on(vibe: Vibe, home: Path) -> None:
    """With other variables, and the same model."""
    task = write_task(home, "START --> P0 --> P1 --> END", "first", "{{response:P0}} {{word}}")
    vibe("flow", "run", task, "word=one")
    (run_id,) = find_runs(home)

    outcome = vibe("flow", "fork", run_id, "P1", "word=two")

    assert (outcome.code, outcome.out) == (0, "first two\n")
    assert len(find_runs(home)) == 2
    assert vibe("flow", "fork", run_id, "P1", "--visit", "7").code == ExitCode.REQUEST


def test_what_visits_said_is_not_among_what_people_said(vibe: Vibe, home: Path) -> None:
    """A list and a search show the run, and its visits when they are asked for."""
    task = write_task(home, "START --> P0 --> P1 --> END", "spring tide", "neap tide")
    vibe("flow", "run", task)
    (run_id,) = find_runs(home)

    assert [row["id"] for row in vibe("list", "--json").read_json()] == [run_id]
    assert len(vibe("list", "--all", "--json").read_json()) == 3
    assert [hit["id"] for hit in vibe("search", "tide", "--json").read_json()] == [run_id]
    assert vibe("search", "spring", "--json").read_json() == []
    assert len(vibe("search", "spring", "--all", "--json").read_json()) == 2
    assert survey_flow_runs(run_id[:3]) == [(run_id, "Find out.")]


def test_a_check_tells_all_findings_of_all_files(vibe: Vibe, home: Path) -> None:
    """Warnings alone do no harm."""
    good = write_task(home, CHOICE, "Say {{topic}}", "x", name="good.json")
    unbounded = "START --> L([again])\n L --> P0 --> L\n L --> END"
    odd = write_task(home, unbounded, "x", name="odd.json")
    bad = write_task(home, "START --> P0 --> P7", "{{nothing", name="bad.json")

    held = vibe("flow", "check", good)
    assert held.code == 0
    assert "good.json is valid. A run makes at most 2 requests" in held.err
    assert vibe("flow", "check", odd).code == 0
    assert "Warning: odd.json:" in vibe("flow", "check", odd).err
    outcome = vibe("flow", "check", good, bad, odd, "absent.json")
    assert outcome.code == ExitCode.CONFIGURATION
    assert outcome.err.count("vibe: error: bad.json:") >= 3
    assert "absent.json" in outcome.err
    found = vibe("flow", "check", good, bad, odd, "--json")
    assert found.code == ExitCode.CONFIGURATION
    assert {each["place"] for each in found.read_json()["errors"]} == {"bad.json"}
    assert found.read_json()["bounds"]["good.json"]["requests"] == 2
    assert "odd.json" in {each["place"] for each in found.read_json()["warnings"]}


def test_what_is_odd_is_an_error_unless_one_is_lenient(vibe: Vibe, home: Path) -> None:
    """To check and to run, alike."""
    task = write_task(home, "START --> P0 --> END\n P0 --- X[idle]\n X --> END", "x")

    for action in ("check", "run"):
        assert vibe("flow", action, task).code == ExitCode.CONFIGURATION
        assert vibe("flow", action, task, "--lenient").code == 0


def test_a_new_task_is_an_example_and_nothing_is_written_over(vibe: Vibe, home: Path) -> None:
    """Without a file, all examples are listed."""
    names = [line.split("\t")[0] for line in vibe("flow", "new").out.splitlines()]
    assert names == [each.name for each in survey_examples()]
    assert {"simple_qa_task", "research_task"} < set(names)

    outcome = vibe("flow", "new", "mine")
    assert (outcome.code, (home / "mine.json").is_file()) == (0, True)
    assert "vibe flow run mine.json" in outcome.err
    (home / "mine.json").write_text("{}", encoding="utf-8")
    outcome = vibe("flow", "new", "mine.json", "--from", "research_task")
    assert outcome.code == ExitCode.USAGE
    assert "vibe flow new mine.json --from research_task --force" in outcome.err
    assert (home / "mine.json").read_text(encoding="utf-8") == "{}"
    assert vibe("flow", "new", "mine.json", "--from", "research_task", "--force").code == 0
    assert "Research" in (home / "mine.json").read_text(encoding="utf-8")
    assert vibe("flow", "new", "x.json", "--from", "reserch").code == ExitCode.NOT_FOUND
    assert [name for name, _ in complete_examples("re")] == ["research_task"]


@pytest.mark.parametrize("example", survey_examples(), ids=lambda each: each.name)
@pytest.mark.parametrize("suffix", ["", ".json", ".toml"])
def test_the_name_of_an_example_means_it_in_any_form(
    vibe: Vibe, home: Path, example: Example, suffix: str
) -> None:
    """The suffix chooses the form, and what is written reads as the same task."""
    outcome = vibe("flow", "new", f"{example.name}{suffix}")
    assert outcome.code == 0, outcome.err
    written = home / f"{example.name}{suffix or example.path.suffix}"
    assert attrs.evolve(read_task(written), place="") == attrs.evolve(
        read_task(example.path), place=""
    )
    if written.suffix == example.path.suffix:
        assert written.read_bytes() == example.path.read_bytes()


def test_a_new_task_takes_the_form_that_its_name_asks_for(vibe: Vibe, home: Path) -> None:
    """Any form that tasks have; of another nothing is written."""
    assert vibe("flow", "new", "my.toml").code == 0
    assert read_task(home / "my.toml").goal.description == "Answer a question"
    assert vibe("flow", "new", "use_tool.json", "--from", "parallel_review").code == 0
    assert "Revise" in (home / "use_tool.json").read_text("utf-8")  # --from has the last word
    outcome = vibe("flow", "new", "my.yaml")
    assert outcome.code == ExitCode.USAGE
    assert "Use .json or .toml" in outcome.err
    assert not (home / "my.yaml").exists()


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_the_group_says_what_it_has(vibe: Vibe, arguments: tuple[str, ...]) -> None:
    """By itself, too."""
    outcome = vibe("flow", *arguments)
    assert outcome.code == 0
    assert "resume" in outcome.out


def test_a_tool_that_fails_is_no_failure_of_the_model(vibe: Vibe, home: Path) -> None:
    """Denied, it fails; resumed with an approval, it is executed."""
    diagram = "START --> P0 --> T[/\"run_command command='echo done'\"/] --> END"
    task = write_task(home, diagram, "x", ensembles=["shell"])

    vibe("flow", "run", task)
    (run_id,) = find_runs(home)
    vibe("runs", "approve", run_id, "--deny")
    refused = vibe("flow", "resume", run_id)
    allowed = vibe("flow", "resume", run_id, "--allow", "run_command")

    assert refused.code == ExitCode.INCOMPLETE
    assert "vibe: error: T: run_command failed: The call was not approved." in refused.err
    assert (allowed.code, allowed.out.strip()) == (0, "done")


def test_with_a_run_its_visits_are_deleted_too(vibe: Vibe, home: Path) -> None:
    """Those of its subflows among them; nobody would find them again."""
    write_task(home, "START --> P0 --> END", "inner {{input}}", name="inner.json")
    task = write_task(home, "START --> P0 --> S[[inner]] --> END", "x")
    vibe("flow", "run", task)
    vibe("ask", "Hello")
    (run_id,) = find_runs(home)
    assert len(vibe("list", "--all", "--json").read_json()) == 5

    assert vibe("delete", run_id, "--yes").code == 0

    (left,) = vibe("list", "--all", "--json").read_json()
    assert left["first_words"] == "Hello"


def test_what_a_run_has_used_is_shown_with_its_visits(vibe: Vibe, home: Path) -> None:
    """And with those of its subflows: a flow's own conversation has asked nobody."""
    write_task(home, "START --> P0 --> P1 --> END", "a", "b", name="inner.json")
    task = write_task(home, "START --> P0 --> S[[inner]] --> END", "x")
    vibe("flow", "run", task)
    (run_id,) = find_runs(home)

    models = vibe("show", "--usage", run_id, "--json").read_json()["usage"]["models"]

    assert [each["generations"] for each in models] == [3]


@pytest.mark.slow
@pytest.mark.parametrize("error_edge", ["", "\n T -->|error| P1 --> END"])
def test_a_call_of_a_flow_waits_where_nobody_can_be_asked(
    vibe: Vibe, home: Path, error_edge: str
) -> None:
    """Neither the flow nor its error edge goes on before somebody has answered."""
    diagram = f"START --> P0 --> T[/\"run_command command='echo done'\"/] --> END{error_edge}"
    prompts = ["x", "Sorry."] if error_edge else ["x"]
    task = write_task(home, diagram, *prompts, ensembles=["shell"])

    waiting = vibe("flow", "run", task)
    (run_id,) = find_runs(home)
    again = vibe("flow", "resume", run_id)

    for each in (waiting, again):
        assert (each.code, each.out) == (ExitCode.CONSENT, "")
        assert "run_command awaits approval" in each.err
        assert f"vibe runs approve {run_id}" in each.err
    assert vibe("runs", "approve", run_id, "--allow").code == 0
    done = vibe("flow", "resume", run_id)
    assert (done.code, done.out.strip()) == (0, "done")


@pytest.mark.parametrize("stop", ["failed", "filtered", "limit"])
def test_a_turn_without_an_answer_fails_a_visit(vibe: Vibe, home: Path, stop: str) -> None:
    """The flow does not go on as if something had been said."""
    model = f"scripted:{write_script(home, {'contents': [], 'stop_reason': stop})}"
    task = write_task(home, "START --> P0 --> P1 --> END", "Say it", "Again")

    outcome = vibe("flow", "run", task, "-m", model)

    assert outcome.code != 0
    assert outcome.out == ""
    assert "P1" not in outcome.err.split("vibe: error")[0]
