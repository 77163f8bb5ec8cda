"""The synchronous face: what it hands on, what it waits for, and what it closes."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from vibe_llms import (
    AsyncChannel,
    BatchChannel,
    Engine,
    Model,
    SyncBatchChannel,
    SyncChannel,
    SyncEngine,
    SyncModel,
    SyncVendorBatchChannel,
    VendorBatchChannel,
)
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.sync_faces import (
    SyncFace,
    blocking,
    constructed_like,
    direct,
    entering,
    iterating,
)
from vibe_llms.instruments.channels.reply_following import ReplyFollowing, SyncReplyFollowing
from vibe_llms.instruments.parsers.sessions import Following, SyncFollowing
from vibe_llms.providers.interfaces import AsyncStream
from vibe_llms.providers.synchrony import SyncStream

FACES: dict[type[SyncFace[Any]], tuple[type, set[str]]] = {
    SyncModel: (
        Model,
        {  # for those who build on a model
            *("access", "application", "cache", "check", "compose_fields", "hydrate"),
            *("join_reactors", "lenient", "resolve_address", "window"),
        },
    ),
    SyncEngine: (
        Engine,
        {  # for those who build on an engine
            *("access_registry", "join_listeners", "limits", "load_media", "plan_compaction"),
            *(
                "prepare",
                "produce_model_call",
                "produce_template",
                "survey_local_arguments",
                "vary",
            ),
        },
    ),
    SyncChannel: (AsyncChannel, {"waits"}),  # for hosted runs
    SyncBatchChannel: (BatchChannel, set()),
    SyncVendorBatchChannel: (VendorBatchChannel, set()),
    SyncFollowing: (Following, {"close"}),  # leaving the context closes it
    SyncReplyFollowing: (ReplyFollowing, {"close"}),
    SyncStream: (AsyncStream, set()),
}
"""Each face, the class that it is of, and what of that class it leaves out."""


class Counter(Closing):
    """Counts up to a number, and says what becomes of it."""

    def __init__(self, start: int = 0, *, end: int = 3) -> None:
        self.heard: list[str] = []
        self._steps = self._count(start, end)

    def __repr__(self) -> str:
        return "AsyncCounter()"

    async def _count(self, start: int, end: int) -> AsyncGenerator[int, None]:
        try:
            for number in range(start, end):
                yield number
        finally:
            self.heard.append("stopped")

    def count(self) -> AsyncIterator[int]:
        """Yields what has not been counted."""
        return self._steps

    async def add(self, number: int, *, to: int = 1) -> int:
        """Adds."""
        return number + to

    def name(self) -> str:
        """Says how it is called."""
        return "counter"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Counter]:
        """Opens it."""
        try:
            yield self
        finally:
            self.heard.append("left")

    async def close(self) -> None:
        """Closes it."""
        self.heard.append("closed")


class SyncCounter(SyncFace[Counter]):
    """The same."""

    @constructed_like(Counter)
    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(Counter(*given, **settings))

    add = blocking(Counter.add)
    name = direct(Counter.name)
    count = iterating(Counter.count)
    count_once = iterating(Counter.count, closes=True)
    opened = entering(Counter.opened, SyncFace)


class Doubling(Counter):
    """Has a method otherwise."""

    async def add(self, number: int, *, to: int = 1) -> int:
        """Adds it twice."""
        return number + 2 * to


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_a_face_has_all_that_synchronous_code_can_use(face: type) -> None:
    """Whatever is added to an asynchronous class is on its face, or is said to be left out."""
    origin, left_out = FACES[face]
    public = {name for name in dir(origin) if not name.startswith("_")}

    assert public - set(dir(face)) == left_out


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_a_face_is_called_as_the_class_is(face: type) -> None:
    """Its methods have the signatures of the asynchronous ones, and say what they are for."""
    origin, _ = FACES[face]
    methods = [name for name in dir(origin) if inspect.isfunction(getattr(face, name, None))]

    for name in methods:
        if name != "fork" and (not name.startswith("_") or name == "__iter__"):
            ours, theirs = getattr(face, name), getattr(origin, name)
            assert inspect.signature(ours) == inspect.signature(theirs), name
            said, due = (re.sub("(async|await) ", "", each.__doc__) for each in (ours, theirs))
            assert said == due
    assert inspect.signature(SyncModel) == inspect.signature(Model)
    assert inspect.signature(SyncEngine) == inspect.signature(Engine)


def test_a_face_calls_the_method_that_its_object_has() -> None:
    """One that a subclass overrides is that of the subclass."""
    assert SyncCounter().add(1, to=2) == 3
    assert blocking(Counter.add)(SyncFace(Doubling()), 1, to=2) == 5
    assert SyncCounter().name() == "counter"
    assert repr(SyncCounter()) == "SyncCounter()"


def test_who_stopped_iterating_may_come_back_for_the_rest() -> None:
    """Leaving a loop leaves what is behind it as it is."""
    counter = SyncCounter(1, end=4)

    first = next(iter(counter.count()))

    assert [first, *counter.count()] == [1, 2, 3]
    assert counter.asynchronous.heard == ["stopped"]


def test_what_is_closed_with_its_loop_stops_when_that_is_left() -> None:
    """Nothing goes on working for a loop that was left early."""
    counter = SyncCounter()

    for _ in counter.count_once():
        break

    assert counter.asynchronous.heard == ["stopped"]


def test_a_context_is_left_however_its_body_ends() -> None:
    """Also where the body raises; and so is the face itself."""
    with SyncCounter() as counter:
        opened = counter.opened()
        with pytest.raises(ZeroDivisionError), opened as inner:
            raise ZeroDivisionError(inner)
        assert counter.asynchronous.heard == ["left"]
    assert counter.asynchronous.heard == ["left", "closed"]


@pytest.mark.parametrize("face", FACES)
def test_what_a_face_says_of_itself_is_synchronous(face: type[SyncFace[Any]]) -> None:
    """Examples are copied from there: no ``async with``, no ``await``."""
    documented = {name: inspect.getdoc(getattr(face, name)) or "" for name in dir(face)}
    said = {name: words for name, words in documented.items() if not name.startswith("_")}

    assert any(said.values())
    for name, words in said.items():
        assert not re.search(r"async (with|for)|await ", words), name
    if face is SyncModel:
        assert "with model.stream(" in said["stream"]
