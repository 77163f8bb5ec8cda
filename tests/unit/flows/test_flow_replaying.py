"""A stored run of a flow is replayed against another version of its task, value by value."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from vibe_llms.conversations import MemoryStore
from vibe_llms.flows import AdapterConfig, run_task
from vibe_llms.flows.flow_replay import replay_flow_run
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.runs.comparing import bisect
from vibe_llms.runs.replaying import Replay

LONG = "Write a long and careful answer to the question that was asked"
TASK = compose_task(
    """
    START --> P0 --> P1 --> Q{Is it so?}
    Q -->|yes| P2
    Q -->|else| P2
    P2 --> END
    """,
    f"{LONG}: one.",
    "About {{registry:tides}} in {{tone}} and {{mood}}.",
    "Say it.",
    conditions=[
        {"description": "has it", "evaluation_type": "CONTAINS", "expected_value": "It" * 40}
    ],
    resource_registry={
        "entries": [{"name": "tides", "source_url": "https://example.com", "description": "d" * 60}]
    },
    categories={
        "yes": {
            "description": "d" * 60,
            "keywords": ["yes", "of course"],
            "field": "review.is_it_so_and_not_otherwise",
            "equals": 1,
        }
    },
    variables={"tone": "sober words", "mood": "joy"},
)
TASK["resource_llm"] |= {"max_tokens": 500, "temperature": 0.5}
TASK["prompts"][2]["role"] = "system"


def change(task: dict[str, Any], path: str, value: Any) -> None:
    """Sets the value at a path such as ``prompts.0.template``."""
    *way, last = path.split(".")
    part: Any = task
    for each in way:
        part = part[int(each)] if isinstance(part, list) else part[each]
    part[last] = value


def replay(store: MemoryStore, identity: str, task: dict[str, Any] | Path) -> Replay:
    """Replays a run against a version of its task."""
    return asyncio.run(replay_flow_run(store, identity, examine_task(task, strict=False)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value", "node"),
    [
        ("prompts.0.template", f"{LONG}: two.", "P0"),
        ("prompts.0.role", "system", "P0"),
        ("prompts.2.template", "Say it!", "P2"),
        ("goal.description", "Find out more.", "P2"),  # where nothing was said, it is asked
        ("resource_llm.temperature", 0.6, "P0"),
        ("resource_llm.max_tokens", 501, "P0"),
        ("resource_llm.model", "demo", "P0"),
        ("ensembles", ["io"], "P0"),
        ("variables.tone", "sober word", "P1"),
        ("resource_registry.entries.0.source_url", "https://example.com/2", "P1"),
        ("resource_registry.entries.0.description", "d" * 61, "P1"),
        ("categories.yes.description", "d" * 61, "Q"),
        ("categories.yes.keywords", ["yes", "of coarse"], "Q"),
        ("categories.yes.field", "review.is_it_so_and_not_otherwise_said", "Q"),
        ("categories.yes.equals", True, "Q"),
    ],
)
def test_a_value_that_differs_is_found_at_the_node_that_uses_it(
    path: str, value: Any, node: str
) -> None:
    """However long the values are, and whatever they have in common."""
    store, other = MemoryStore(), copy.deepcopy(TASK)
    run = run_task(TASK, store=store, variables={"mood": "anger"})
    change(other, path, value)

    assert replay(store, run.run_id, copy.deepcopy(TASK)).difference is None
    found = replay(store, run.run_id, other).difference

    assert found is not None
    assert found.difference == f"{node} has changed"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("prompts.0.description", "What it is for."),
        ("variables.mood", "grief"),  # the run was given another
        ("variables.unused", 1),
        ("resource_llm.api_key_env", "SOME_KEY"),  # a key is no part of what is said
    ],
)
def test_what_no_visit_depends_on_is_no_difference(path: str, value: Any) -> None:
    store, other = MemoryStore(), copy.deepcopy(TASK)
    run = run_task(TASK, store=store, variables={"mood": "anger"})
    change(other, path, value)

    assert replay(store, run.run_id, other).difference is None


def test_a_model_that_was_not_asked_is_no_difference() -> None:
    """Its controls are, which hold for the model that takes its place."""
    store, other = MemoryStore(), copy.deepcopy(TASK)
    run = run_task(TASK, AdapterConfig(model="scripted:echo"), store=store)
    change(other, "resource_llm.provider", "anthropic")
    change(other, "resource_llm.model", "claude-sonnet-4-6")

    assert replay(store, run.run_id, other).difference is None
    change(other, "resource_llm.temperature", 0.6)
    assert replay(store, run.run_id, other).difference is not None


def test_another_goal_differs_at_the_end() -> None:
    store, other = MemoryStore(), copy.deepcopy(TASK)
    run = run_task(TASK, store=store)
    change(other, "goal.target_conditions.0.expected_value", "It" * 41)

    found = replay(store, run.run_id, other).difference

    assert found is not None
    assert (found.step, found.difference) == ("end", "the conditions of the goal differ")


def test_a_subflow_is_replayed_against_its_file(tmp_path: Path) -> None:
    """Its visits are steps of the replay, under the id of its own run."""
    store = MemoryStore()
    part, whole = tmp_path / "part.json", tmp_path / "whole.json"
    part.write_text(json.dumps(compose_task("START --> P0 --> END", f"{LONG}: one.")))
    whole.write_text(json.dumps(compose_task("START --> S[[part]] --> P0 --> END", "Say it.")))
    run = run_task(whole, store=store)
    before = replay(store, run.run_id, whole)

    part.write_text(json.dumps(compose_task("START --> P0 --> END", f"{LONG}: two.")))
    after = replay(store, run.run_id, whole).difference

    assert before.difference is None
    below = [step for step in before.steps if step.run_id and step.detail == "P0 1"]
    assert len(below) == 1
    assert after is not None
    assert (after.difference, after.run_id) == ("P0 has changed", below[0].run_id)


def test_the_version_that_changed_a_flow_is_found_far_behind_its_first_words() -> None:
    store = MemoryStore()
    run = run_task(TASK, store=store)
    versions = [copy.deepcopy(TASK) for _ in range(5)]
    for version in versions[3:]:
        change(version, "prompts.0.template", f"{LONG}: two.")

    async def perform(task: dict[str, Any]) -> Replay:
        return await replay_flow_run(store, run.run_id, examine_task(task, strict=False))

    find: Callable[..., Any] = bisect
    place, _ = asyncio.run(find(versions, perform))

    assert place == 3
