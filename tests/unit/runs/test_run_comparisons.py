"""Two stored runs step by step, and the first of several versions with which a run differs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import (
    GenerationFinishedEvent,
    GenerationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, NodeFinishedEvent
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent, RefusalContent, TextualContent
from vibe_llms.runs.comparing import Moment, RunDifference, bisect, compare_runs, read_moments

PICTURE = ImageContent(mime_type="image/png", data=b"1")
LOOKED = {"type": "image", "mime_type": "image/png", "content_id": PICTURE.content_id}
SAID: list[AnyCanister] = [
    UserCanister([TextualContent("Look:"), PICTURE], id="u"),
    AssistantCanister("Well.", id="a", turn_id="t"),
    InvocationCanister(id="i", name="f", arguments="{}", invocation_id="x", turn_id="t"),
    UserCanister("Go on.", id="v"),
    AssistantCanister("Done.", id="b", turn_id="t2"),
]
ASKED = GenerationStartedEvent(key="u", turn=1, model="m", pattern={"tools": "d"})
ANSWERED = GenerationFinishedEvent(
    key="u", turn=1, model="n", provider="p", canisters=2, stop_reason="end"
)
EVENTS: list[Any] = [
    RunStartedEvent(run_id="r", conversation_id="c", length=1),
    ASKED,
    ANSWERED,
    attrs.evolve(ASKED, key="gone"),
    attrs.evolve(ANSWERED, key="gone"),
    attrs.evolve(ASKED, key="v", turn=2, model="o", pattern={}),
    attrs.evolve(ANSWERED, key="v", turn=2, canisters=1),
    RunEndedEvent(run_id="r", reason="limited", limit="run_steps"),
    FlowStartedEvent(run_id="r", task={"name": "t"}, variables={"x": 1}),
    NodeFinishedEvent(node="A", visit=2, category="c", response="said", detail="late"),
    FlowEndedEvent(run_id="r", reason="ended", limit="visits"),
]


def keep(store: MemoryStore, identity: str, *events: Any) -> None:
    Conversation(id=identity, canisters=SAID).save(store)
    log = store.open_log(identity)
    log.claim()
    for event in events:
        log.append("r", event)
    log.close()


def test_the_steps_of_a_run_are_what_was_sent_said_and_chosen() -> None:
    """Each canister is told once; what the conversation lacks is no step."""
    store = MemoryStore()
    keep(store, "a", *EVENTS)

    assert [(each.sequence, each.step, each.meaning) for each in read_moments(store, "a")] == [
        (2, "sent", (["user", "Look:", LOOKED],)),
        (2, "asked", ("m", {"tools": "d"})),
        (3, "answered", (["assistant", "Well."], [SAID[2].role, "f", "{}"])),
        (6, "sent", (["user", "Go on."],)),
        (6, "asked", ("o", {})),
        (7, "answered", (["assistant", "Done."],)),
        (8, "ended", ("limited", "run_steps")),
        (9, "task", ({"name": "t"}, {"x": 1})),
        (10, "visited", ("A", 2, "c", "said", "late")),
        (11, "ended", ("ended", "visits")),
    ]


def test_what_is_asked_again_sends_nothing_twice_and_what_was_heard_stays_heard() -> None:
    """As after an answer that broke off: it is told where it came, and not again."""
    store = MemoryStore()
    none = attrs.evolve(ANSWERED, canisters=0)
    keep(store, "a", ASKED, ANSWERED, ASKED, none, attrs.evolve(ASKED, key="v"))

    assert [(each.sequence, each.step, len(each.meaning)) for each in read_moments(store, "a")] == [
        (1, "sent", 1),
        (1, "asked", 2),
        (2, "answered", 2),
        (3, "sent", 0),
        (3, "asked", 2),
        (4, "answered", 0),
        (5, "sent", 3),
        (5, "asked", 2),
    ]
    keep(store, "b", ANSWERED)  # where the log does not say what was sent, all before it is new
    assert [(each.step, len(each.meaning)) for each in read_moments(store, "b")] == [
        ("answered", 3)
    ]


@pytest.mark.parametrize(
    ("other", "step"),
    [
        (EVENTS, None),
        (EVENTS[1:], None),  # numbers are no part of it
        (EVENTS[:-1], 10),
        ([*EVENTS[:-1], attrs.evolve(EVENTS[-1], limit="")], 10),
        ([*EVENTS[:1], attrs.evolve(ASKED, model="other"), *EVENTS[2:]], 2),
        ([], 1),
    ],
)
def test_the_first_step_that_differs_is_told_with_both_sides(other: Any, step: int | None) -> None:
    store = MemoryStore()
    keep(store, "a", *EVENTS)
    keep(store, "b", *other)
    sides: list[list[Moment | None]] = [[*read_moments(store, each), None] for each in ("a", "b")]

    expected, mirrored = None, None
    if step is not None:
        first, second = (side[step - 1] for side in sides)
        expected = RunDifference(step=step, first=first, second=second)
        mirrored = RunDifference(step=step, first=second, second=first)
    assert compare_runs(store, "a", "b") == expected
    assert compare_runs(store, "b", "a") == mirrored


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            UserCanister([PICTURE]),
            UserCanister([attrs.evolve(PICTURE, data=b"2", content_id=None)]),
        ),
        (UserCanister([PICTURE]), UserCanister([attrs.evolve(PICTURE, detail="low")])),
        (
            ResultCanister("No.", invocation_id="x"),
            ResultCanister("No.", invocation_id="x", is_error=True),
        ),
        (AssistantCanister([RefusalContent("No.")]), AssistantCanister([RefusalContent("Never.")])),
    ],
)
def test_what_was_sent_is_compared_by_value(first: AnyCanister, second: AnyCanister) -> None:
    """Two pictures are not the same for both being pictures."""
    store = MemoryStore()
    for identity, canister in (("a", first), ("b", second), ("c", first)):
        said = [attrs.evolve(canister, id="u")]
        Conversation(id=identity, canisters=said).save(store)
        log = store.open_log(identity)
        log.claim()
        log.append("r", ASKED)
        log.close()

    assert compare_runs(store, "a", "c") is None
    assert compare_runs(store, "a", "b") is not None


def test_values_of_other_kinds_differ() -> None:
    """In Python ``True`` equals 1."""
    store = MemoryStore()
    keep(store, "a", FlowStartedEvent(run_id="r", task={}, variables={"x": 1}))
    keep(store, "b", FlowStartedEvent(run_id="r", task={}, variables={"x": True}))

    assert compare_runs(store, "a", "b") is not None


def test_steps_of_another_kind_differ_whatever_they_mean() -> None:
    store = MemoryStore()
    keep(store, "a", FlowStartedEvent(run_id="r", task={}, variables={}))
    keep(store, "b", GenerationStartedEvent(key="gone", turn=1, model="m"))
    keep(store, "c", FlowEndedEvent(run_id="r", reason="ended"))

    assert compare_runs(store, "a", "c") is not None
    assert compare_runs(store, "b", "c") is not None


async def _replay(versions: list[int], changed: int) -> tuple[tuple[int, Any], list[int]]:
    asked: list[int] = []

    async def replay(version: int) -> Any:
        asked.append(version)
        return SimpleNamespace(version=version, difference=version if version >= changed else None)

    return await bisect(versions, replay), asked


@given(count=st.integers(2, 40), data=st.data())
async def test_the_first_version_that_differs_is_found_by_halves(
    count: int, data: st.DataObject
) -> None:
    changed = data.draw(st.integers(1, count - 1))
    (place, replayed), asked = await _replay([*range(count)], changed)

    assert place == changed
    assert (replayed.version, replayed.difference) == (changed, changed)
    assert len(asked) == len(set(asked)) <= 2 + (count - 1).bit_length()


@pytest.mark.parametrize(
    ("versions", "detail"),
    [
        ([], "At least two versions are needed"),
        ([9], "At least two versions are needed"),
        ([9, 10], "first version already differs"),
        ([1, 2], "last version does not differ"),
    ],
)
async def test_what_cannot_be_halved_is_refused(versions: list[int], detail: str) -> None:
    with pytest.raises(RequestError, match=detail) as raised:
        await _replay(versions, 5)
    assert (raised.value.path, raised.value.stage) == ("versions", Stage.EXECUTE)
    assert raised.value.remedy
