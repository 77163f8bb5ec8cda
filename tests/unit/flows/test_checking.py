"""The check before a run finds all that is wrong with a task, each with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.flows.checking import Surroundings, TaskCheck, check_task
from vibe_llms.flows.reading import examine_task

GIVEN = Surroundings(variables={"topic"})


def make(diagram: str, *templates: str, **more: Any) -> dict[str, Any]:
    """Returns a task as plain data."""
    return {
        "goal": {"description": "Answer."},
        "resource_llm": {"provider": "mock", "model": "echo"},
        "prompts": [
            {"template": each} if isinstance(each, str) else each
            for each in templates or ("Hello {{topic}}",)
        ],
        "flow_diagram": {"mermaid": diagram},
        **more,
    }


def check(diagram: str, *templates: Any, strict: bool = True, **more: Any) -> TaskCheck:
    """Checks a task."""
    return check_task(examine_task(make(diagram, *templates, **more), strict=strict), GIVEN)


def test_a_sound_task_is_ready_to_run() -> None:
    """Its graph, its templates and what its tools are given come with it."""
    found = check('graph TD\nSTART --> P0 --> T[/"calc x={{response:P0}}"/] --> END')

    assert found.errors == ()
    assert found.access_flow() is found.flow
    assert [str(each) for each in found.templates[0].references] == ["{{topic}}"]
    assert found.invocations["T"].tool == "calc"


def test_mistakes_of_all_kinds_come_at_once(tmp_path: Path) -> None:
    """In the file, in a template and in the diagram, each where it stands in the file."""
    path = tmp_path / "task.json"
    task = make('graph TD\n  START --> A --> T[/"calc x"/]', "a {{1 + 1}}", resource_lm={})
    path.write_text(json.dumps(task, indent=1))

    found = check_task(examine_task(path), GIVEN)

    with pytest.raises(ConfigurationError) as caught:
        found.access_flow()
    lines = path.read_text().splitlines()
    words = [(lines[each.line - 1][each.column - 1 :][:4], each.path) for each in found.errors]
    assert ("{{1 ", "prompts[0].template:1:3") in words
    assert ('x\\"/', "flow_diagram.mermaid:2:28") in words
    assert any(path == "resource_lm" for _, path in words)
    assert caught.value.findings == found.errors


def test_all_mistakes_in_a_diagram_that_does_not_read_are_told() -> None:
    """Along with those in templates."""
    found = check("graph TD\nSTART --> A[\nB --> C{\n", "{{1 + 1}}")

    assert found.flow is None
    assert {each.path.rpartition(":")[0] for each in found.errors} > {"prompts[0].template:1"}
