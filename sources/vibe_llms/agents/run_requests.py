"""Requests for runs: a request is durable before the caller learns the run's id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log import LoggedEvent, claim_at_once, claim_soon
from vibe_llms.conversations.run_logs.log_lines import write_line
from vibe_llms.conversations.stores.interfaces import ConversationStore, History
from vibe_llms.engine.run_status import judge_tail
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.engine import RunEndedEvent
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import MessageReceivedEvent, RunRequestedEvent
from vibe_llms.exceptions import RequestError, Stage, StoreError, UnknownConversationError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.views import is_input_blank
from vibe_llms.runs.delivering import deliver
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.snapshots import Snapshot, plant
from vibe_llms.runs.summaries import RunSummary, summarize
from vibe_llms.runs.surveying import RESTS, complete_summary

_ACTIVE: Final = "A run of this conversation is active; send it a message, or stop it first."


def begin_run(
    store: ConversationStore,
    identity: str,
    metadata: ConversationMetadata,
    request: RunRequestedEvent,
    *,
    claims: bool,
) -> ClaimedRun | None:
    """Create the conversation of a run, and its request; do nothing if both exist.

    Args:
        claims: Claim the log as well, if the conversation is new.

    Returns:
        The run, if its log was claimed.

    Raises:
        RequestError: The conversation has a different request.
        StoreError: The request could not be written.
    """
    try:
        if store.plants_whole:
            claimed = _plant_run(store, identity, metadata, request)
            return claimed if claims and claim_at_once(claimed.log) else None
        store.create(identity, metadata)
    except StoreError as error:
        try:
            store.read_metadata(identity)  # created by a process that was killed
        except UnknownConversationError:
            raise error from error.__cause__  # such as that of a full disk
    request_run(store, identity, request)
    return None


def _plant_run(
    store: ConversationStore,
    identity: str,
    metadata: ConversationMetadata,
    request: RunRequestedEvent,
) -> ClaimedRun:
    canisters, timestamp = request.canisters, access_now()
    line = write_line(1, timestamp, identity, request)
    position = plant(store, Snapshot.begin(identity, metadata, canisters, [line]))
    history = History(identity=identity, metadata=metadata, canisters=canisters, position=position)
    logged = LoggedEvent(sequence=1, timestamp=timestamp, run_id=identity, event=request)
    conversation = Conversation.from_history(store, history)
    log = store.open_log(identity)
    return ClaimedRun(conversation=conversation, log=log, events=(logged,), is_new=True)


def summarize_claimed(claimed: ClaimedRun) -> RunSummary:
    """Return the summary of a claimed run."""
    conversation = claimed.conversation
    summary = summarize(claimed.events, conversation.id)
    return complete_summary(summary, conversation.metadata)


def request_run(
    store: ConversationStore,
    identity: str,
    request: RunRequestedEvent,
    ending: Sequence[LogEvent] = (),
) -> None:
    """Write a request into the log of a conversation, unless the log has a request.

    Args:
        ending: Events to write behind it if the run has nothing to do.

    Raises:
        RequestError: The conversation has a different request.
        StoreError: The request could not be written.
    """
    log = store.open_log(identity)
    # Another process may write the same request concurrently.
    while claim_soon(log, is_unnecessary=lambda: _is_requested(store, identity, request)):
        try:
            if not any(isinstance(each.event, RunRequestedEvent) for each in log.read()):
                for event in (request, *ending):
                    log.append(identity, event)
                log.synchronize()
                return
        finally:
            log.close()


def judge_ending(canisters: Sequence[AnyCanister], identity: str) -> tuple[RunEndedEvent, ...]:
    """Return the end of a run with nothing left to do, so that no worker resumes it."""
    tail = read_tail(canisters) if canisters else None
    if tail is None or not tail.is_answered:
        return ()
    shortfall = judge_tail(canisters, tail)
    if shortfall is None:
        return (RunEndedEvent(run_id=identity, reason="answered"),)
    ended = RunEndedEvent(
        run_id=identity, reason=shortfall.reason, detail=shortfall.detail, limit=shortfall.limit
    )
    return (ended,)


def continue_conversation(
    store: ConversationStore, identity: str, request: RunRequestedEvent
) -> None:
    """Write a further request into the log of a conversation; the run adds its canisters.

    Raises:
        RequestError: A run of the conversation is active, or there is nothing to answer.
        StoreError: The request could not be written.
    """
    deliver(store, identity, wait_seconds=0)  # a message may be waiting, even that of the request
    log = store.open_log(identity)
    if not claim_at_once(log):
        events = log.read()
        if events and summarize(events, identity).state not in RESTS:
            raise _refuse(_ACTIVE)
        # The worker that has just ended the run releases it in a moment, as does another request
        # that is about to write the first event.
        try:
            claim_soon(log)
        except StoreError as error:
            if log.is_claimed:
                raise _refuse(_ACTIVE) from error
            raise
    try:
        events = log.read()
        if events:
            summary = summarize(events, identity)
            if summary.kind == "flow":
                raise _refuse("This conversation is a flow; fork one of its visits.")
            if summary.state not in RESTS:
                raise _refuse(_ACTIVE)
        _ensure_new(events, request)
        _ensure_work(store, identity, request)
        log.append(identity, request)
        log.synchronize()
    finally:
        log.close()
    if model := request.spec.get("model"):
        store.update_metadata(identity, model=str(model))


def list_requested(events: Iterable[LoggedEvent]) -> Iterator[AnyCanister]:
    """Yield the messages that a log has: those of requests, and those that were sent."""
    for logged in events:
        if isinstance(logged.event, RunRequestedEvent):
            yield from logged.event.canisters
        elif isinstance(logged.event, MessageReceivedEvent):
            yield logged.event.canister


def _ensure_new(events: Iterable[LoggedEvent], request: RunRequestedEvent) -> None:
    """Raise RequestError if the log has a message of the request already."""
    identities = {each.id for each in request.canisters}
    if identities and any(each.id in identities for each in list_requested(events)):
        raise _refuse("The conversation has received this message already.")


def _ensure_work(store: ConversationStore, identity: str, request: RunRequestedEvent) -> None:
    """Raise RequestError unless the run has something to answer."""
    compacts, canisters = request.spec.get("compact"), request.canisters
    if canisters and is_input_blank(canisters):
        raise _refuse("The message is empty.", "canisters")
    if canisters and not compacts:
        return
    tail = read_tail(store.read(identity).canisters)
    if not canisters and not compacts and tail.is_answered:
        raise _refuse("The last message is answered already; pass a message.", "canisters")
    if canisters and tail.pending_calls:
        detail = "Some calls have no result; resume the run, or compact without a message."
        raise _refuse(detail, "compact")


def _refuse(detail: str, path: str = "run") -> RequestError:
    return RequestError(path=path, detail=detail, stage=Stage.EXECUTE)


def _is_requested(store: ConversationStore, identity: str, request: RunRequestedEvent) -> bool:
    for logged in store.open_log(identity).read():
        event = logged.event
        if isinstance(event, RunRequestedEvent):
            if _identify_request(event) != _identify_request(request):
                detail = "Another request was made with this key before."
                raise RequestError(path="key", detail=detail, stage=Stage.EXECUTE)
            return True
    return False


def _identify_request(event: RunRequestedEvent) -> tuple[object, ...]:
    """Return the parts of a request that are equal each time it is made, without ids and times."""
    contents = [(type(each), each.content) for each in event.canisters]
    return dict(event.spec), contents
