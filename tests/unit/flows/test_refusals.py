"""What a model would refuse is told before anything is asked."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from vibe_llms.application import Application
from vibe_llms.conversations import MemoryStore
from vibe_llms.flows import AdapterConfig, UniversalAdapter
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.refusals import find_refusals
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.models.catalogue import Catalogue

O3 = {"provider": "openai", "model": "o3"}


def make(llm: dict[str, Any], diagram: str = "START --> P0 --> END", **parts: Any) -> Any:
    return {**compose_task(diagram, "Say it."), "resource_llm": llm, **parts}


def look(task: Any, **config: Any) -> TaskCheck:
    adapter = UniversalAdapter(AdapterConfig(**config), application=Application.load())
    return asyncio.run(adapter.check(task))


def find(check: TaskCheck) -> list[str]:
    return [f"{each.path}: {each.message}" for each in check.errors]


@pytest.mark.parametrize(
    ("llm", "path", "words"),
    [
        ({**O3, "temperature": 0.5}, "temperature", "The model has no control 'temperature'"),
        (
            {"provider": "openai", "model": "gpt-4o", "temperature": 2.5},
            "temperature",
            "must be at most 2",
        ),
        (
            {"provider": "anthropic", "model": "claude-haiku-4-5", "max_tokens": 64_001},
            "max_tokens",
            "answers with at most 64,000 tokens (output_limit_tokens), not 64,001",
        ),
    ],
)
def test_controls_that_a_model_would_refuse_are_mistakes(
    llm: dict[str, Any], path: str, words: str
) -> None:
    """As they are in a run, of which the first prompt would fail."""
    (found,) = find(look(make(llm)))

    assert found.startswith(f"resource_llm.{path}: ")
    assert words in found
    adapter = UniversalAdapter(application=Application.load(), store=MemoryStore())
    result = asyncio.run(adapter.execute(make(llm)))
    assert result.reason == "refused"
    assert words in result.errors[0]


@pytest.mark.slow
def test_what_is_fine_or_not_known_is_no_mistake() -> None:
    """A model of which no control is known may take any; a task that asks nobody asks for none."""
    for task in (
        make({**O3, "max_tokens": 500}),
        make({"provider": "remote", "model": "any", "temperature": 0.5}),
        make({**O3, "temperature": 0.5}, "START --> A --> END", prompts=[]),
    ):
        assert find(look(task)) == []


def test_another_model_is_held_to_the_same_controls() -> None:
    """That of ``--model`` answers in place of the task's."""
    task = make({"provider": "openai", "model": "gpt-4o", "temperature": 0.5})

    assert find(look(task)) == []
    (found,) = find(look(task, model="openai:o3"))
    assert "openai_responses:o3 would refuse this: The model has no control 'temperature'" in found


def test_tools_for_a_model_that_cannot_invoke_any_are_a_mistake() -> None:
    llm = {"provider": "google", "model": "gemini-3.8-flash-tts"}

    assert find(look(make(llm))) == []
    (found,) = find(look(make(llm, ensembles=["io"])))
    assert "cannot invoke tools" in found


@pytest.mark.parametrize(
    ("llm", "words"),
    [
        ({"provider": "scripted", "model": "weather"}, "Unknown script 'weather'"),
        ({"provider": "scripted", "model": "./gone.toml"}, "gone.toml"),
    ],
)
def test_a_model_that_its_provider_does_not_have_is_a_mistake(
    llm: dict[str, Any], words: str
) -> None:
    (found,) = find(look(make(llm)))

    assert found.startswith("resource_llm.model: ")
    assert words in found


def test_models_and_tools_of_subflows_are_looked_at(tmp_path: Path) -> None:
    """With their own places; each mistake is told once, however many nodes run the subflow."""
    whole, part = tmp_path / "whole.json", tmp_path / "part.json"
    whole.write_text(json.dumps(compose_task("START --> S[[part]] --> T[[part]] --> END")))
    part.write_text(json.dumps(make({**O3, "temperature": 0.5})))

    found = look(whole)
    assert [Path(each.place).name for each in found.errors] == ["part.json"]
    assert "no control 'temperature'" in found.errors[0].message
    assert find(look(whole, model="scripted:echo")) == []

    tool = "START --> T[/\"list_fils path='.'\"/] --> END"
    part.write_text(json.dumps({**compose_task(tool), "ensembles": ["io"]}))
    (told,) = find(look(whole))
    assert "Unknown tool 'list_fils'; did you mean 'list_files'?" in told

    part.write_text(json.dumps(make({"provider": "opnai", "model": "o3"})))
    (told,) = find(look(whole))
    assert told.startswith("resource_llm.provider: Unknown provider 'opnai'")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "It is not UTF-8 text"),
        (b"a\0b", "NUL"),
        (b"x" * 1_000_001, "larger than the limit"),
        (None, "notes.md does not exist"),
        (b"words", ""),
    ],
)
def test_files_that_prompts_put_in_have_to_be_text(
    tmp_path: Path, data: bytes | None, words: str
) -> None:
    """One that a tool may still write need not be there yet; what no prompt wants is not read."""
    if data is not None:
        (tmp_path / "notes.md").write_bytes(data)
    entries = [{"name": name, "source_url": f"file:{name}.md"} for name in ("notes", "gone")]
    task = compose_task(
        "START --> P0 --> END", "{{registry:notes.content}}", resource_registry={"entries": entries}
    )
    (tmp_path / "task.json").write_text(json.dumps(task))

    found = find(look(tmp_path / "task.json"))
    assert bool(found) == bool(words)
    for each in found:
        assert each.startswith("resource_registry.entries[0].source_url: ")
        assert words in each
    if data is None:
        (tmp_path / "task.json").write_text(json.dumps({**task, "ensembles": ["io"]}))
        assert find(look(tmp_path / "task.json")) == []
        task["flow_diagram"]["mermaid"] += "\nP0 -->|on error| END"
        (tmp_path / "task.json").write_text(json.dumps(task))
        assert find(look(tmp_path / "task.json")) == []


@pytest.mark.parametrize(
    ("today", "severity"), [(date(2026, 8, 4), "warning"), (date(2026, 8, 5), "error")]
)
def test_a_model_that_is_retired_is_told_with_its_successor(today: date, severity: str) -> None:
    """From that day on it is a mistake where strict; before, a warning."""
    from vibe_llms.flows.checks import weigh

    task = make({"provider": "anthropic", "model": "claude-opus-4-1"})
    check = check_task(examine_task(task))
    attributes = Catalogue().access_integrator("anthropic").integrate("claude-opus-4-1")
    found = list(find_refusals(check, attributes, {}, has_tools=False, today=today))
    errors, warnings = weigh(check.reading, found)

    assert (bool(errors), bool(warnings)) == (severity == "error", severity == "warning")
    (told,) = (*errors, *warnings)
    verb = {"error": "was retired", "warning": "will be retired"}[severity]
    assert told.message == f"The model claude-opus-4-1 {verb} on 2026-08-05. Use claude-opus-4-8."


def test_a_retired_model_can_be_asked_where_one_is_lenient() -> None:
    """Our data may be older than a vendor's change of mind."""
    task = make({"provider": "anthropic", "model": "claude-2.1"})

    assert "was retired on 2025-07-21" in find(look(task))[0]
    lenient = look(task, strict_validation=False)
    assert lenient.errors == ()
    assert any("was retired on 2025-07-21" in each.message for each in lenient.warnings)
