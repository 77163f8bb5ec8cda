"""The examples of tasks that ship run, with scripted models and with the embedded one."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli

from support.runs.scripting import write_script
from support.vendors import embedded
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.flows import AdapterConfig, AdapterResult, UniversalAdapter, execute_task, run_task
from vibe_llms.flows.examples import access_example, survey_examples

pytestmark = pytest.mark.slow

EXAMPLES = pytest.mark.parametrize("name", [each.name for each in survey_examples()])


def load(name: str) -> dict[str, Any]:
    """Reads an example as plain data."""
    path = access_example(name).path
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else tomli.loads(text)


def play(name: str, folder: Path, *responses: dict[str, Any]) -> AdapterResult:
    """Runs an example with a model that plays a script."""
    script = write_script(folder, *responses)
    return run_task(access_example(name).path, AdapterConfig(model=f"scripted:{script}"))


def say(text: str, match: str = "") -> dict[str, Any]:
    """Writes an answer of a script."""
    said = {"contents": [{"text": text}]}
    return {"match": match, **said} if match else said


@EXAMPLES
def test_each_example_comes_to_its_end_whatever_is_said(name: str) -> None:
    """With a model that repeats what it is asked."""
    result = run_task(access_example(name).path, AdapterConfig(model="scripted:echo"))

    assert (result.success, result.errors) == (True, ())
    assert result.final_response
    assert result.path[-1] == "END"


@EXAMPLES
def test_each_example_has_no_mistake(name: str) -> None:
    """Checked strictly, with the tools that it names."""
    check = asyncio.run(UniversalAdapter().check(access_example(name).path))
    assert check.errors == ()


def test_the_snippets_of_the_requirement_run_with_only_the_import_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file, from a dictionary, asynchronously, and with an adapter."""
    task_dict = load("research_task")
    task_dict["resource_llm"] = {"provider": "mock", "model": "gpt-4o"}
    (tmp_path / "task.json").write_text(json.dumps(task_dict), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    from_file = run_task("task.json")
    from_dictionary = run_task(task_dict)
    config = AdapterConfig(max_iterations=100, timeout_ms=60000, debug_mode=True)
    asynchronous = asyncio.run(execute_task(task_dict, config))
    config = AdapterConfig(
        max_iterations=1000,
        timeout_ms=300000,
        strict_validation=True,
        debug_mode=True,
        require_all_conditions=True,
    )
    adapted = asyncio.run(UniversalAdapter(config).execute(task_dict))

    for result in (from_file, from_dictionary, asynchronous, adapted):
        assert result.success, result.errors
        assert result.final_response == from_file.final_response


def test_research_goes_on_until_nothing_is_missing(tmp_path: Path) -> None:
    """Each round is given what the one before it said."""
    result = play(
        "research_task",
        tmp_path,
        say("types: what a value is", "round 0 of 3"),
        say("types, references. SUCCESS", "Previous: types: what a value is"),
        say("JSON Schema describes JSON.", "Summarize"),
    )
    assert (result.errors, result.goal_met) == ((), True)
    assert result.path.count("P0") == 2
    assert result.final_response == "JSON Schema describes JSON."


def test_research_that_never_succeeds_is_summarized_after_three_rounds(tmp_path: Path) -> None:
    """The bound is in the label of the loop."""
    result = play("research_task", tmp_path, say("much is missing"))
    assert (result.errors, result.path.count("P0"), result.path[-2]) == ((), 3, "P1")


@pytest.mark.parametrize(
    ("said", "node"), [("Complaint.", "P1"), ("It is praise", "P2"), ("a question?", "P3")]
)
def test_a_letter_is_answered_by_its_kind(tmp_path: Path, said: str, node: str) -> None:
    """At the first try."""
    result = play("classify_and_retry", tmp_path, say(said, "which kind"), say("Dear friend,"))
    assert result.success, result.errors
    assert [each for each in result.path if each.startswith("P")] == ["P0", node]


def test_a_letter_of_no_kind_is_tried_three_times_and_then_handed_over(tmp_path: Path) -> None:
    """The edge on limit leads to a person."""
    result = play("classify_and_retry", tmp_path, say("banana"))
    assert result.success, result.errors
    assert [each for each in result.path if each.startswith("P")] == ["P0", "P0", "P0", "P4"]


def test_a_revision_knows_what_all_reviewers_said(tmp_path: Path) -> None:
    """They were asked at once, and waited for each other."""
    result = play(
        "parallel_review",
        tmp_path,
        say("Draft", "^Write three"),
        say("fact!", "weakest fact"),
        say("style!", "clumsiest"),
        say("reader!", "would not understand in this"),
        say("{input}", "^Revise"),
    )
    assert result.success, result.errors
    for words in ("facts: fact!", "style: style!", "reader: reader!"):
        assert words in result.final_response


def test_a_tool_looks_into_a_folder_and_an_edge_is_there_for_when_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No model is asked whether to look."""
    (tmp_path / "recipe.txt").write_text("Stir.", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    path, config = access_example("use_tool").path, AdapterConfig(model="scripted:echo")

    found = run_task(path, config)
    lost = run_task(path, config, variables={"folder": "nowhere"})

    assert "recipe.txt" in found.final_response
    assert found.requests == 1
    assert (lost.success, lost.path[2]) == (True, "P1")
    assert any(each.startswith("LIST: ") for each in lost.warnings)


@pytest.fixture
def application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded_weights: Path
) -> Iterator[Application]:
    """An application of somebody who has the embedded model, and nothing else."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    embedded.lend_weights(tmp_path / ".local/share/vibe-llms")
    yield Application(load_configuration())
    shutil.rmtree(tmp_path / ".local", ignore_errors=True)


@pytest.mark.parametrize(
    "name",
    [
        # All of them are run with scripts above; one shows that the embedded model is asked alike.
        pytest.param(each.name, marks=[] if each.name == "simple_qa_task" else [pytest.mark.slow])
        for each in survey_examples()
    ],
)
@pytest.mark.weights
def test_each_example_runs_with_the_embedded_model(name: str, application: Application) -> None:
    """As it is written, but for the length of answers, and the model where that is a vendor's."""
    task = load(name)
    task["resource_llm"]["max_tokens"] = 12

    result = run_task(task, AdapterConfig(model="local:smollm2"), application=application)

    assert (result.success, result.errors) == (True, ())
    assert result.usage is not None
    assert result.path[-1] == "END"
