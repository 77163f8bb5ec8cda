"""Answer a request of a face with an event stream of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Protocol

import attrs
import msgspec

from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.run_specs import RunSpec, read_run_spec
from vibe_llms.conversations.canister_media import hydrate, needs_content_store
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.daemons.agents.faces.following import RunFollower
from vibe_llms.daemons.agents.faces.steps import (
    CallEnded,
    KeepAlive,
    PartEnded,
    PartsWithdrawn,
    Step,
)
from vibe_llms.daemons.agents.faces.threads import RunPlace
from vibe_llms.daemons.agents.request_bodies import write_error
from vibe_llms.daemons.agents.route_access import refuse
from vibe_llms.daemons.agents.streams import STREAM_HEADERS
from vibe_llms.daemons.asgi import NOTHING, HttpCall
from vibe_llms.daemons.open_streams import OpenStreams
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister
from vibe_llms.messages.contents import MEDIA_CLASSES
from vibe_llms.runs.subscriptions import LogSubscriptions

SPEC_QUERIES: Final[Mapping[str, JsonObject]] = {
    "model": {"type": "string"},
    "ensembles": {"type": "string"},
}
"""Query parameters for the specification of a run."""

_KEEP_ALIVE: Final = b": still here\n\n"


@frozen(kw_only=True)
class FaceParts:
    """The parts of the daemon that faces share.

    Attributes:
        runs: Runs of the daemon.
        subscriptions: Subscriptions to the logs of watched runs.
        streams: Open event streams of the daemon.
    """

    runs: LocalRuns
    subscriptions: LogSubscriptions
    streams: OpenStreams


class StepWriter(Protocol):
    """Writer of one event stream in a protocol."""

    def write(self, step: Step) -> Iterable[JsonObject]:
        """Return the events for a step."""

    def fail(self, error: ConverseError) -> Iterable[JsonObject]:
        """Return the events for an error that ends the stream."""


async def follow_run(parts: FaceParts, place: RunPlace, subject: str) -> AsyncGenerator[Step]:
    """Yield the steps of a run from a place on, with the data of media. Raises ConverseError."""
    follower = RunFollower(parts.runs, parts.subscriptions, place.run_id, subject)
    async with aclosing(follower.follow(place.start, place.after)) as steps:
        async for step in steps:
            if _has_media(step):
                step = await asyncio.to_thread(load_step_media, parts.runs.store, step)
            yield step


async def serve_run(
    call: HttpCall,
    parts: FaceParts,
    place: RunPlace,
    writer: StepWriter,
    *,
    subject: str,
    beginning: Iterable[JsonObject] = (),
    headers: Mapping[str, str] = NOTHING,
    ending: bytes = b"",
) -> None:
    """Answer with the events of a run from a place on; it continues if the client disconnects.

    Args:
        beginning: Events before those of the run.
        headers: Headers beside those of any event stream.
        ending: Bytes behind the last event.
    """
    call.watch_client()
    await call.begin(200, {**STREAM_HEADERS, **headers})
    await call.send(write_events(beginning))
    try:
        async with aclosing(follow_run(parts, place, subject)) as steps:
            async for step in steps:
                if isinstance(step, KeepAlive):
                    await call.send(_KEEP_ALIVE)
                elif data := write_events(writer.write(step)):
                    await call.send(data)
    except ConverseError as error:
        await call.send(write_events(writer.fail(error)))
    await call.finish(ending)


def write_events(events: Iterable[JsonObject]) -> bytes:
    """Write events as server-sent events. JSON has no line breaks outside of strings."""
    return b"".join([b"data: %b\n\n" % msgspec.json.encode(each) for each in events])


def describe_failure(error: ConverseError) -> str:
    """Return the text of an error that ends a stream, without names of hosts and files."""
    body = write_error(error).body["error"]
    return str(body["message"]) if isinstance(body, Mapping) else ""


def read_spec(call: HttpCall, table: object, place: str) -> RunSpec:
    """Read the specification of a run: from the query, and a table of the protocol's free fields.

    Args:
        table: The table; ``None`` for none.
        place: Place of the table in the request.

    Raises:
        RequestError: The table is not an object.
        ConfigurationError: A field is invalid.
    """
    if not isinstance(table, Mapping | None):
        raise refuse(place, "The specification of the run must be an object.")
    query = call.query
    fields: dict[str, object] = {}
    if model := query.get("model"):
        fields["model"] = model
    if ensembles := query.get("ensembles"):
        fields["ensembles"] = ensembles.split(",")
    return read_run_spec({**fields, **(table or {})})


async def load_media(parts: FaceParts, canisters: Sequence[AnyCanister]) -> Sequence[AnyCanister]:
    """Return messages with the data of their media."""
    if not needs_content_store(canisters):
        return canisters
    return await asyncio.to_thread(hydrate, canisters, parts.runs.store.contents)


def load_step_media(store: ConversationStore, step: Step) -> Step:
    """Return a step with the data of its media. Does file work."""
    match step:
        case PartsWithdrawn():
            return attrs.evolve(step, conversation=hydrate(step.conversation, store.contents))
        case PartEnded(content=content) if isinstance(content, MEDIA_CLASSES):
            (answer,) = hydrate((AssistantCanister(content),), store.contents)
            return attrs.evolve(step, content=answer.content[0])
        case CallEnded(result=result):
            (whole,) = hydrate((result,), store.contents)
            return attrs.evolve(step, result=attrs.evolve(result, content=whole.content))
    return step


def _has_media(step: Step) -> bool:
    match step:
        case PartsWithdrawn():
            return needs_content_store(step.conversation)
        case PartEnded():
            return isinstance(step.content, MEDIA_CLASSES)
        case CallEnded():
            return needs_content_store((step.result,))
    return False
