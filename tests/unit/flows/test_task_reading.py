"""Task files: all mistakes at once, each with its place; the published schema says the same."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.tasks import JUNK, TASKS

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.flows.task_reading import examine_task, read_task
from vibe_llms.flows.tasks import EvaluationType, ResourceLlm
from vibe_llms.foundation.package_data import access_data

SCHEMA = json.loads(access_data("schemas", "task.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

TASK: dict[str, Any] = {
    "goal": {
        "description": "Research and summarize a topic",
        "target_conditions": [
            {"description": "Summary produced", "evaluation_type": "GOAL_MET"},
            {
                "description": "Within 20 iterations",
                "evaluation_type": "ITERATION_LIMIT",
                "expected_value": "20",
            },
        ],
    },
    "resource_llm": {
        "provider": "anthropic",
        "model": "claude-3-5-sonnet-20241022",
        "temperature": 0.7,
        "max_tokens": 4096,
        "api_key_env": "ANTHROPIC_API_KEY",
    },
    "resource_registry": {
        "entries": [{"name": "schema", "category": "reference", "source_url": "https://..."}]
    },
    "prompts": [
        {
            "template": "Given {{topic}}, identify key aspects. Previous: {{response:P0}}",
            "role": "user",
            "description": "Initial analysis",
        }
    ],
    "flow_diagram": {
        "mermaid": "graph TD\n    START --> P0\n    P0 --> COND{Check}\n"
        "    COND -->|success| END\n    COND -->|retry| P0"
    },
}


def survey_paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in members:
        yield from survey_paths(inner, (*path, key))


def put(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    tree = copy.deepcopy(tree)
    if not path:
        return value
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return tree


def find(task: Any, *, strict: bool = True) -> list[str]:
    reading = examine_task(task, strict=strict)
    return [str(each) for each in reading.errors]


def test_the_example_is_read_as_it_is_written(tmp_path: Path) -> None:
    """A task is the same from a file of JSON, of TOML, and from a dictionary."""
    import tomli_w

    (tmp_path / "task.json").write_text(json.dumps(TASK))
    (tmp_path / "task.toml").write_text(tomli_w.dumps(TASK))

    task = read_task(TASK)

    assert task.goal.target_conditions[1].evaluation_type is EvaluationType.ITERATION_LIMIT
    assert task.resource_llm.address == "anthropic:claude-3-5-sonnet-20241022"
    assert task.resource_llm.controls == {"temperature": 0.7, "max_tokens": 4096}
    for name in ("task.json", "task.toml"):
        read = read_task(tmp_path / name)
        assert read.folder == tmp_path
        assert (read.goal, read.prompts, read.flow_diagram) == (
            task.goal,
            task.prompts,
            task.flow_diagram,
        )


@pytest.mark.parametrize("component", sorted({*TASK} - {"$schema"}))
def test_each_of_the_five_components_must_be_there(component: str) -> None:
    """The registry, too; without strictness, a task without one has no entries."""
    task = {name: value for name, value in TASK.items() if name != component}

    (found,) = find(task)
    left = find(task, strict=False)

    assert f"'{component}'" in found
    assert "missing" in found.lower()
    assert left == ([] if component == "resource_registry" else [found])
    if component == "resource_registry":
        reading = examine_task(task, strict=False)
        assert reading.access_task().resource_registry.entries == ()
        assert "resource_registry" in str(reading.warnings[0])


@given(TASKS)
def test_what_is_right_is_right_to_the_schema_and_to_the_reader(task: Any) -> None:
    """A task that the schema admits is read, also without strictness."""
    assert [error.message for error in VALIDATOR.iter_errors(task)] == []
    assert find(task) == find(task, strict=False) == []


@given(TASKS, st.data())
def test_what_is_wrong_is_wrong_to_the_schema_and_to_the_reader(task: Any, data: Any) -> None:
    """Whatever is put somewhere, the schema and the reader agree on it."""
    path = data.draw(st.sampled_from([path for path in survey_paths(task) if path]))
    if isinstance(access(task, path), dict) and data.draw(st.booleans()):
        path = (*path, "unknown")
    task = put(task, path, data.draw(JUNK))
    registry = task.get("resource_registry")
    entries = (registry.get("entries") if isinstance(registry, dict) else None) or []
    names = [repr(each.get("name")) for each in entries if isinstance(each, dict)]
    if len(set(names)) < len(names) or path[-1] == "pattern":
        return  # what a schema cannot say

    assert VALIDATOR.is_valid(task) == (not find(task)), (find(task), task)


def access(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


@pytest.mark.parametrize(
    ("path", "value", "finding"),
    [
        (("goal",), 5, "task: goal: It must be a table"),
        (("goal", "description"), " ", "task: goal.description: It must be a text that is not"),
        (
            ("goal", "target_conditions", 0, "evaluation_type"),
            "GOAL_MIT",
            "task: goal.target_conditions[0].evaluation_type: It must be",
        ),
        (
            ("goal", "target_conditions", 1, "expected_value"),
            "soon",
            "task: goal.target_conditions[1].expected_value: ITERATION_LIMIT needs an",
        ),
        (("resource_llm", "provder"), "a", "task: resource_llm.provder: Unknown key"),
        (("resource_llm", "temperature"), -1, "task: resource_llm.temperature: It must be"),
        (("resource_llm", "max_tokens"), 0, "task: resource_llm.max_tokens: It must be"),
        (("prompts", 0, "role"), "usr", "task: prompts[0].role: It must be"),
        (("prompts", 0, "template"), "\ud800", "task: prompts[0].template: The text has half of"),
        (
            ("variables",),
            {"1a": 1},
            "task: variables.1a: The name of a variable may contain only letters",
        ),
        (("categories",), {"x": {}}, "task: categories.x: The rule is empty"),
        (("categories",), {"x": {"pattern": "("}}, "task: categories.x.pattern: Invalid regular"),
        (
            ("categories",),
            {"x": {"equals": 1, "description": "a"}},
            "task: categories.x.equals: 'field' is missing",
        ),
        (
            ("resource_registry", "entries"),
            [{"name": "a", "source_url": "b"}, {"name": "a", "source_url": "b"}],
            "task: resource_registry.entries[1].name: The name 'a' is already used",
        ),
        (
            ("resource_registry", "entries"),
            [{"name": "a"}],
            "task: resource_registry.entries[0]: Set 'source_url'",
        ),
    ],
)
def test_each_mistake_is_told_with_its_place(
    path: tuple[Any, ...], value: Any, finding: str
) -> None:
    """A wrong value is named by the way to it, with what would be right."""
    found = find(put(TASK, path, value))

    assert [each for each in found if each.startswith(finding)], found


def test_all_mistakes_come_at_once_with_line_and_column(tmp_path: Path) -> None:
    """A file with several mistakes is refused once."""
    path = tmp_path / "task.json"
    path.write_text(
        '{"goal": {},\n "resource_llm": {"provider": "mock",\n   "model": 3},\n "a": 1}'
    )

    with pytest.raises(ConfigurationError) as caught:
        read_task(path)

    assert [(each.line, each.column, each.path) for each in caught.value.findings] == [
        (1, 1, ""),
        (1, 1, ""),
        (1, 1, ""),
        (1, 2, "goal"),
        (3, 4, "resource_llm.model"),
        (4, 2, "a"),
    ]


@pytest.mark.parametrize(
    "key",
    ["sk-ant-REDACTED", "AKIAIOSFODNN7EXAMPLE", "AIzaSyD-abcdefghijklmnopqrst"],
)
def test_a_key_in_the_place_of_its_variable_is_refused_and_not_repeated(key: str) -> None:
    """Who pastes the key itself is told so, and the error can be shown to anybody."""
    (found,) = find(put(TASK, ("resource_llm", "api_key_env"), key))

    assert "never the key itself" in found
    assert key not in found


def test_what_is_unknown_harms_nobody_who_is_not_strict() -> None:
    """Without strictness an unknown key is a warning; one that looks misspelt stays an error."""
    task = {**TASK, "author": "me", "promts": []}

    reading = examine_task(task, strict=False)

    assert [each.path for each in reading.warnings] == ["author"]
    assert ["promts" in str(each) for each in reading.errors] == [True]


def test_a_place_in_the_diagram_is_told_as_the_one_in_the_file(tmp_path: Path) -> None:
    """What is found in the diagram has its line and column there, and those in the file."""
    path = tmp_path / "task.json"
    path.write_text(json.dumps(TASK, indent=1))
    reading = examine_task(path)

    finding = reading.find(("flow_diagram", "mermaid"), "Here.", line=2, column=5)

    assert finding.path == "flow_diagram.mermaid:2:5"
    written = path.read_text().splitlines()[finding.line - 1]
    assert written[finding.column - 1 :].startswith("START --> P0")


@pytest.mark.parametrize(
    ("provider", "model", "address"),
    [
        ("mock", "gpt-4o", "scripted:echo"),
        ("mock", "demo", "scripted:demo"),
        ("mock", "./mine.toml", "scripted:./mine.toml"),
        ("mock", "../attributes", "scripted:echo"),
        ("openai", "gpt-4o", "openai:gpt-4o"),
    ],
)
def test_the_mock_is_the_scripted_provider(provider: str, model: str, address: str) -> None:
    """``mock`` answers without a network whatever its model is called."""
    assert ResourceLlm(provider=provider, model=model).address == address
