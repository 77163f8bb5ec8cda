"""Reactors of plugins are made for each turn, and one that cannot be made harms nobody."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.plugins import PluginManager
from vibe_llms.plugins.listings import PluginState

HEADER = """
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.plugins import ProviderSpecification, ReactorsSpecification, hook

calls = []
"""
LISTENERS = """
def fail():
    calls.append("fail")
    raise OSError("no ears,\\nno eyes")

async def wait():
    pass

@hook
def survey_reactors():
    return [
        ReactorsSpecification("deaf", "fails", fail),
        ReactorsSpecification("late", "is asynchronous", wait),
        ReactorsSpecification("good", "listens", ConversationReactors),
    ]
"""

PARROT = """
class Parrot:
    def produce_client(self):
        raise NotImplementedError

@hook
def survey_providers():
    return [ProviderSpecification("parrot", "listens", lambda context: Parrot())]

@hook
def survey_reactors():
    return [ReactorsSpecification("ears", "listens", ConversationReactors)]
"""

Manage = Callable[..., PluginManager]


@pytest.fixture
def manage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manage]:
    """Makes a manager for plugins, written from their texts, in a table."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def perform(table: str, **texts: str) -> PluginManager:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(HEADER + text, encoding="utf-8")
        return PluginManager(
            configuration=load_configuration(
                environment={"HOME": str(tmp_path)},
                working_directory=tmp_path,
                command_line={table: {name: {"module": name} for name in texts}},
            )
        )

    yield perform
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_reactors_that_cannot_be_made_are_named_once_and_set_aside(
    manage: Manage, caplog: pytest.LogCaptureFixture
) -> None:
    """A factory that fails, or returns something else, is warned of and never called again."""
    manager = manage("plugins", listeners=LISTENERS, mute="raise RuntimeError('mute')\n")

    with caplog.at_level(logging.WARNING, "vibe_llms.plugins"):
        turns = [manager.produce_reactors() for _ in range(3)]

    assert [[type(reactors) for reactors in turn] for turn in turns] == [[ConversationReactors]] * 3
    assert sys.modules["listeners"].calls == ["fail"]
    reasons = {
        "It cannot be imported: RuntimeError: mute.",
        "Its reactors 'deaf' cannot be created: the factory raised OSError: no ears, no eyes.",
        "Its reactors 'late' cannot be created: the factory returned one coroutine.",
    }
    assert {failure.reason for failure in manager.failures} == reasons
    assert {record.getMessage().partition("): ")[2] for record in caplog.records} == reasons
    assert len(caplog.records) == 3
    assert isinstance(
        next(f for f in manager.failures if "deaf" in f.reason).error.__cause__, OSError
    )
    states = {listing.entry.name: listing.state for listing in manager.survey()}
    assert states["listeners"] is PluginState.LOADED


def test_reactors_of_a_provider_are_there_from_its_first_use_on(manage: Manage) -> None:
    """Nothing that was made before keeps a provider which is loaded later from listening."""
    manager = manage("providers", parrot=PARROT)

    before = manager.produce_reactors()
    assert manager.has_no_reactors  # nobody needs to ask again
    manager.load_provider("parrot")
    assert not manager.has_no_reactors  # but now
    after = manager.produce_reactors()

    assert (before, len(after)) == ([], 1)
    assert not manager.has_no_reactors
    assert after[0] is not manager.produce_reactors()[0]


async def test_where_nobody_listens_a_turn_needs_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first imports plugins, beside the event loop; then it is known that there are none."""
    threads: list[object] = []

    async def count(function: Callable[[], object]) -> object:
        threads.append(function)
        return function()

    monkeypatch.setattr(asyncio, "to_thread", count)
    application = Application(
        load_configuration(environment={"HOME": str(tmp_path)}, working_directory=tmp_path)
    )

    heard = [await application.produce_reactors() for _ in range(3)]

    assert [list(each) for each in heard] == [[], [], []]
    assert len(threads) == 1
