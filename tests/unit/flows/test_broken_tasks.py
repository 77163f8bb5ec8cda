"""Of each of many broken task files all that is wrong is told at once, with place and remedy."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.bounds import bound_flow, check_budget
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import Surroundings
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.flows.text_sizes import Provision
from vibe_llms.invocables.invokers import Effect, Invoker

FOLDER = Path(__file__).parents[2] / "fixtures" / "broken_tasks"
TASKS = tomli.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))["task"]
MARK = "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
VARIABLES = {"topic": "cells"}


def invoker(name: str, effect: Effect, *needed: str) -> Invoker:
    """Returns a tool that takes a path."""
    return Invoker(
        name=name,
        description="Does something.",
        schema={
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": list(needed),
            "additionalProperties": False,
        },
        function=print,
        effect=effect,
    )


TOOLS = {"read": invoker("read", Effect.PURE, "path"), "send": invoker("send", Effect.ONCE)}


def find_all(path: Path, budget: dict[str, Any]) -> list[tuple[str, Finding]]:
    """Returns all that is told of a task before it runs."""
    try:
        reading = examine_task(path)
    except ConfigurationError as error:
        return [("error", each) for each in error.findings]
    around = Surroundings(variables=VARIABLES, tools=TOOLS, predicates=("is_short",))
    check = check_task(reading, around)
    found = [("error", each) for each in check.errors]
    found += [("warning", each) for each in check.warnings]
    if budget and not check.errors:
        bound = bound_flow(check, Provision(variables=VARIABLES))
        excess = check_budget(bound, AdapterConfig(**budget), reading)
        found += [("error", each) for each in excess]
    return found


def locate(text: str, at: str) -> tuple[int, int]:
    """Returns the line and the column that a mark points to."""
    if at == ".top":
        return 1, 0
    at = {".end": f"{text}{MARK}", ".diagram": f'{MARK}"mermaid"'}.get(at, at)
    before, _, after = at.partition(MARK)
    if before + after not in text:  # as it is written in JSON
        before, after = (each.replace("\n", "\\n").replace('"', '\\"') for each in (before, after))
    assert before + after in text, at
    position = text.index(before + after) + len(before)
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=[task["file"] for task in TASKS])
def test_all_that_is_wrong_with_a_task_is_told(task: dict[str, Any]) -> None:
    """Each finding where it is, with the nearest right word and what to do; and nothing else."""
    path = FOLDER / task["file"]
    text = path.read_text(encoding="utf-8")
    found = find_all(path, task.get("budget", {}))
    told = [f"{kind} {each}" for kind, each in found]

    later = task.get("findings_since_3_13") if sys.version_info >= (3, 13) else None
    for kind, at, *words in later or task["findings"]:
        line, column = locate(text, at)
        fitting = [
            each
            for each in found
            if (each[0], each[1].line) == (kind, line)
            and each[1].column in ((column,) if path.suffix == ".json" else (column, 0))
            and all(word in each[1].message for word in words)
        ]
        assert fitting, (kind, at, line, column, words, told)
        found.remove(fitting[0])
    assert [each for each in found if each[0] == "error"] == []
    assert not found or task["findings"], told


def test_there_are_enough_of_them() -> None:
    """And all files are expected."""
    files = {path.name for path in FOLDER.iterdir()} - {"expected.toml"}
    assert files == {task["file"] for task in TASKS}
    assert len(files) >= 60


@pytest.mark.parametrize("name", ["key.json", "key.toml"])
def test_no_key_is_repeated(name: str) -> None:
    """Also not in part."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    found = re.search(r'api_key_env"?\s*[:=]\s*"([^"]*)"', text)
    assert found is not None
    for _, finding in find_all(FOLDER / name, {}):
        assert found[1][:12] not in str(finding)
