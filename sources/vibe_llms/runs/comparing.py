"""Comparison of two stored runs, and bisection for the version that changed a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import TypeVar

import attrs

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import GenerationFinishedEvent, GenerationStartedEvent, RunEndedEvent
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, NodeFinishedEvent
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue, is_same
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, ResultCanister
from vibe_llms.messages.contents import AnyContent, ReasoningContent, TextualContent
from vibe_llms.messages.views import text_of
from vibe_llms.runs.replaying import Replay

_Version = TypeVar("_Version")


@frozen(kw_only=True)
class Moment:
    """A step of a run in the form used for comparison: without ids, timestamps and costs.

    Attributes:
        sequence: Number of the event that records the step.
        step: ``sent``, ``asked``, ``answered``, ``task``, ``visited`` or ``ended``.
        meaning: The data of the step: what was sent, answered or chosen.
    """

    sequence: int
    step: str
    meaning: tuple[JsonValue, ...]

    def is_like(self, other: Moment) -> bool:
        """Tell whether another run did the same at this step."""
        return self.step == other.step and is_same(self.meaning, other.meaning)


@frozen(kw_only=True)
class RunDifference:
    """First step in which two runs differ; ``None`` for a run without such a step.

    Attributes:
        step: Number of the step, from 1.
    """

    step: int
    first: Moment | None
    second: Moment | None


def compare_runs(store: ConversationStore, first: str, second: str) -> RunDifference | None:
    """Return the first step in which two stored runs differ; ``None`` if none does.

    Raises:
        UnknownConversationError: A run does not exist.
    """
    pairs = zip_longest(read_moments(store, first), read_moments(store, second))
    for number, (one, other) in enumerate(pairs, 1):
        if one is None or other is None or not one.is_like(other):
            return RunDifference(step=number, first=one, second=other)
    return None


def read_moments(store: ConversationStore, identity: str) -> list[Moment]:
    """Read the steps of a run of a conversation or a flow."""
    canisters = store.read(identity).canisters
    places = {each.id: index for index, each in enumerate(canisters)}
    moments: list[Moment] = []
    position = 0

    def add(logged: LoggedEvent, step: str, *meaning: JsonValue) -> None:
        moments.append(Moment(sequence=logged.sequence, step=step, meaning=meaning))

    for logged in store.open_log(identity).read():
        match logged.event:
            case GenerationStartedEvent() as event if event.key in places:
                sent = places[event.key] + 1
                add(logged, "sent", *map(_represent, canisters[position:sent]))
                add(logged, "asked", event.model, {**event.pattern})
                position = sent
            case GenerationFinishedEvent() as event if event.key in places:
                end = places[event.key] + 1 + event.canisters
                add(logged, "answered", *map(_represent, canisters[position:end]))
                position = max(position, end)
            case RunEndedEvent() | FlowEndedEvent() as event:
                add(logged, "ended", event.reason, event.limit)
            case FlowStartedEvent() as event:
                add(logged, "task", {**event.task}, {**event.variables})
            case NodeFinishedEvent() as event:
                meaning = (event.node, event.visit, event.category, event.response, event.detail)
                add(logged, "visited", *meaning)
    return moments


def _represent(canister: AnyCanister) -> JsonValue:
    if isinstance(canister, InvocationCanister):
        return [canister.role, canister.name, canister.arguments]
    media = [
        _represent_content(each)
        for each in canister.content
        if not isinstance(each, (TextualContent, ReasoningContent))
    ]
    failed = ["error"] if isinstance(canister, ResultCanister) and canister.is_error else []
    return [canister.role, text_of(canister), *failed, *media]


def _represent_content(content: AnyContent) -> JsonValue:
    """Return a content without extras and without bytes, which ``content_id`` identifies."""
    fields: dict[str, JsonValue] = {"type": content.type}
    for field in attrs.fields(type(content)):
        value = getattr(content, field.name)
        if field.name not in ("data", "native") and value is not None:
            fields[field.name] = value
    return fields


async def bisect(
    versions: Sequence[_Version], replay: Callable[[_Version], Awaitable[Replay]]
) -> tuple[int, Replay]:
    """Find the first version with which a run differs, by binary search.

    Args:
        versions: Versions, oldest first; the run must not differ with the first, and must differ
            with the last.
        replay: Replays the run with a version.

    Returns:
        The index of the version, and its replay.

    Raises:
        RequestError: The run already differs with the first, or does not differ with the last.
    """
    if len(versions) < 2:
        raise _refuse("At least two versions are needed.", "Name the oldest first.")
    good, bad = 0, len(versions) - 1
    if (await replay(versions[good])).difference is not None:
        raise _refuse(
            "The first version already differs from the run.", "Start with an older version."
        )
    first_changed = await replay(versions[bad])
    if first_changed.difference is None:
        raise _refuse("The last version does not differ from the run.", "There is nothing to find.")
    while bad - good > 1:
        middle = (good + bad) // 2
        replayed = await replay(versions[middle])
        if replayed.difference is None:
            good = middle
        else:
            bad, first_changed = middle, replayed
    return bad, first_changed


def _refuse(detail: str, remedy: str) -> RequestError:
    return RequestError(path="versions", detail=detail, remedy=remedy, stage=Stage.EXECUTE)
