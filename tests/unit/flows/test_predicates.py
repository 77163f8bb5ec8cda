"""Predicates come from plugins by name, and answer in one of three ways, at once or later."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import PluginError, Stage, UnknownNameError
from vibe_llms.flows.predicates import Predicates, Ruling, ask_predicate, survey_predicates
from vibe_llms.plugins import PluginManager, PredicateContext

EXAMPLES = Path(__file__).parents[2] / "fixtures" / "example-plugins"
TABLE = '[plugins.desk]\nmodule = "copy_editor"\n'
CONTEXT = PredicateContext(variables={"topic": "cells"}, responses={"P0": "Hello."})


@pytest.fixture
def predicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Predicates]:
    """Those of a plugin that a configuration names."""
    monkeypatch.syspath_prepend(EXAMPLES)
    file = tmp_path / "config.toml"
    file.write_text(TABLE, encoding="utf-8")
    configuration = load_configuration(
        environment={"VIBE_LLMS_CONFIG": str(file), "HOME": str(tmp_path)},
        working_directory=tmp_path,
    )
    manager = PluginManager(configuration=configuration)
    found = survey_predicates(manager)
    assert not manager.failures
    yield found
    sys.modules.pop("copy_editor", None)


def test_the_predicates_of_plugins_are_found_by_name(predicates: Predicates) -> None:
    """A plugin brings them by its hook."""
    assert sorted(predicates) == ["brief", "calm", "clumsy", "odd", "on_topic"]


@pytest.mark.parametrize(
    ("name", "response", "is_met", "confidence", "evidence"),
    [
        ("brief", "Two words.", True, 1.0, "The predicate 'brief' says that it holds."),
        ("brief", "word " * 11, False, 1.0, "The predicate 'brief' says that it does not hold."),
        ("calm", "Oh!", True, 0.5, "The predicate 'calm' says 0.5; 0.5 is required."),
        ("calm", "Oh!!!", False, 0.75, "The predicate 'calm' says 0.25; 0.5 is required."),
        (
            "on_topic",
            "On cells.",
            True,
            1.0,
            "The predicate 'on_topic' says: It has 'cells'.",
        ),
        (
            "on_topic",
            "Birds.",
            False,
            1.0,
            "The predicate 'on_topic' says: It lacks 'cells'.",
        ),
    ],
)
async def test_a_predicate_says_whether_how_surely_and_why(
    predicates: Predicates,
    name: str,
    response: str,
    is_met: bool,
    confidence: float,
    evidence: str,
) -> None:
    """True or false, a number, or a reason as well; of several of one name, the first."""
    ruling = await ask_predicate(predicates, name, response, CONTEXT)

    assert ruling == Ruling(is_met=is_met, confidence=confidence, evidence=evidence)


async def test_an_unknown_predicate_names_the_nearest(predicates: Predicates) -> None:
    """And says how another one is had."""
    with pytest.raises(UnknownNameError, match="predicate 'breef'; did you mean 'brief'") as caught:
        await ask_predicate(predicates, "breef", "", CONTEXT)
    assert "[plugins.NAME]" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("clumsy", "The predicate 'clumsy' (copy_editor) raised ValueError: no pencil."),
        ("odd", "The predicate 'odd' (copy_editor) returned str instead of True or False"),
    ],
)
async def test_a_predicate_that_fails_is_named(
    predicates: Predicates, name: str, words: str
) -> None:
    """It decides nothing, and nobody takes it for a defect of ours."""
    with pytest.raises(PluginError) as caught:
        await ask_predicate(predicates, name, "", CONTEXT)
    assert words in caught.value.detail
    assert (caught.value.plugin, caught.value.stage) == ("copy_editor", Stage.EXECUTE)


@pytest.mark.parametrize("answer", [2, -0.1, float("nan"), None, (True,), (1, "yes"), (True, 1)])
async def test_what_is_no_answer_is_refused(answer: Any) -> None:
    """Rather than taken for true or false."""
    with pytest.raises(PluginError, match="instead of"):
        await ask_predicate({"x": lambda response, context: answer}, "x", "", CONTEXT)


async def test_a_plain_predicate_does_not_hold_up_the_loop() -> None:
    """It runs in a thread, so that other branches go on; what stops us stops our waiting."""
    entered, leave = threading.Event(), threading.Event()

    def wait(response: str, context: PredicateContext) -> bool:
        entered.set()
        return leave.wait(60)

    asked = asyncio.ensure_future(ask_predicate({"x": wait}, "x", "", CONTEXT))
    await asyncio.to_thread(entered.wait, 30)
    assert not asked.done()
    leave.set()
    assert (await asked).is_met


async def test_a_plain_predicate_may_return_what_is_to_be_awaited() -> None:
    """As a function that is decorated, or a lambda around an async one, does."""

    async def later(response: str, context: PredicateContext) -> bool:
        return response == "yes"

    ruling = await ask_predicate({"x": lambda *given: later(*given)}, "x", "yes", CONTEXT)
    assert ruling.is_met


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3)])
async def test_what_would_end_a_program_ends_none(error: BaseException) -> None:
    """Nor is it waited for without end."""

    def leave(response: str, context: PredicateContext) -> bool:
        raise error

    with pytest.raises(PluginError, match=f"it raised {type(error).__name__}"):
        await asyncio.wait_for(ask_predicate({"x": leave}, "x", "", CONTEXT), 60)
