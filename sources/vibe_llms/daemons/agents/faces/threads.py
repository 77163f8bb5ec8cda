"""Threads of clients: the conversation behind a thread's id, and what a request adds to it.

Clients choose the ids of their threads. A thread's id is that of a conversation, or the
conversation's id is derived from it and the caller, so that there is no table. Ids of messages are
derived in the same way: a request that is sent again adds nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final

import attrs

from vibe_llms.agents.conversations import ensure_fork
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.run_requests import list_requested
from vibe_llms.agents.run_specs import RunSpec, derive_identity
from vibe_llms.daemons.agents.faces.following import await_receipt, find_start
from vibe_llms.daemons.agents.faces.steps import read_approval_id
from vibe_llms.daemons.agents.route_access import refuse
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.exceptions import (
    RequestError,
    StoreError,
    StoreUnavailableError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.invocables.approvals import Approval
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, UserCanister
from vibe_llms.messages.contents import TextualContent
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import RESTS

MAX_ID_CHARACTERS: Final = 1_000
"""Maximum length of the ids that clients choose."""

_MAX_BRANCHES: Final = 1_000
_ID_DIGITS: Final = 32


@frozen(kw_only=True, slots=False)
class Thread:
    """A thread of a client.

    Attributes:
        id: Id of the thread.
        subject: The caller.
        conversation: Id of the conversation; the next one if there is none yet.
        branch: Number of the conversation, from 0; editing a message begins a new one.
        canisters: Messages of the conversation.
        pending: Messages that the run has not added to the conversation yet.
        last_event: Number of the run's last event before these were read; 0 for none.
        exists: Whether the conversation exists.
    """

    id: str
    subject: str
    conversation: str
    branch: int
    canisters: Sequence[AnyCanister] = ()
    pending: Sequence[AnyCanister] = ()
    last_event: int = 0
    exists: bool = True

    @property
    def is_unused_branch(self) -> bool:
        """Whether an edit began the branch, and no request has used it yet."""
        return self.branch > 0 and not self.last_event

    def name_message(self, identity: str) -> str:
        """Return the id of a client's message in the conversation."""
        source = f"{len(self.id)}:{self.id}{identity}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(source).hexdigest()[:_ID_DIGITS]

    def find_message(self, identity: str) -> int | None:
        """Return the index of a message, by the client's id or by its own; ``None`` if unknown."""
        names = (identity, self.name_message(identity))
        places = (index for index, each in enumerate(self.canisters) if each.id in names)
        return next(places, None)

    def select_new(self, pairs: Iterable[tuple[str, AnyCanister]]) -> list[AnyCanister]:
        """Return the messages that the conversation lacks; none without one of the user.

        Args:
            pairs: Messages with the client's ids. Answers are new only to a new conversation.

        Raises:
            RequestError: Two messages have the same id, or a known one has another text now.
        """
        new = []
        for identity, canister in pairs:
            known = self.known.get(identity) or self.known.get(self.name_message(identity))
            if known is not None:
                _ensure_same_text(known, canister, identity)
            elif not (self.exists and isinstance(canister, AssistantCanister)):
                new.append(attrs.evolve(canister, id=self.name_message(identity)))
        if len({each.id for each in new}) < len(new):
            raise refuse("messages", "Two messages have the same id.")
        return new if any(isinstance(each, UserCanister) for each in new) else []

    @cached_property
    def known(self) -> dict[str, AnyCanister]:
        """All messages by their ids."""
        return {each.id: each for each in (*self.canisters, *self.pending)}


@frozen(kw_only=True)
class RunPlace:
    """A request's place in a run: what to follow, and from where.

    Attributes:
        run_id: Id of the run.
        start: Number of the event that asked for the answer.
        after: Number of the last event before the request.
    """

    run_id: str
    start: int
    after: int


class BranchTakenError(Exception):
    """Another request has begun a branch; find the thread again."""


async def find_thread(runs: LocalRuns, call: HttpCall, thread_id: str, subject: str) -> Thread:
    """Find the conversation of a thread; wait until its log has all messages of a run at rest.

    Raises:
        RequestError: The id is empty or too long.
    """
    if not thread_id or len(thread_id) > MAX_ID_CHARACTERS:
        detail = f"The id of a thread must have 1 to {MAX_ID_CHARACTERS} characters."
        raise refuse("thread", detail)

    def find() -> Thread | None:
        found = None
        for branch in range(_MAX_BRANCHES):
            identity = _name_branch(thread_id, subject, branch)
            if branch == 0 and _is_accessible(runs, thread_id, subject):
                identity = thread_id
            elif not _is_accessible(runs, identity, subject):
                break
            found = Thread(id=thread_id, subject=subject, conversation=identity, branch=branch)
        return found

    found = await asyncio.to_thread(find)
    if found is None:
        identity = _name_branch(thread_id, subject, 0)
        return Thread(id=thread_id, subject=subject, conversation=identity, branch=0, exists=False)
    await await_receipt(runs, call, found.conversation, subject)
    return await asyncio.to_thread(_load, runs, found)


async def open_thread(runs: LocalRuns, call: HttpCall, conversation: str, subject: str) -> Thread:
    """Return the thread that is a conversation, as :func:`find_thread` does.

    Raises:
        UnknownConversationError: The conversation does not exist, or belongs to another user.
    """
    await asyncio.to_thread(runs.access.ensure, conversation, subject)
    await await_receipt(runs, call, conversation, subject)
    thread = Thread(id=conversation, subject=subject, conversation=conversation, branch=0)
    return await asyncio.to_thread(_load, runs, thread)


async def fork_thread(runs: LocalRuns, thread: Thread, count: int) -> Thread:
    """Begin a new branch of a thread with its first messages; the earlier branch stays.

    Args:
        count: Number of messages to share.

    Raises:
        RequestError: There are too many branches.
        BranchTakenError: Another request has begun this branch, which may lack its messages.
    """
    branch = thread.branch + 1
    identity = _name_branch(thread.id, thread.subject, branch)
    if branch >= _MAX_BRANCHES:
        raise refuse("thread", f"The thread has {_MAX_BRANCHES} branches already; begin another.")

    def fork() -> Thread:
        parent, subject = thread.conversation, thread.subject
        runs.access.ensure(parent, subject)
        is_new = ensure_fork(runs.store, parent, identity, subject, from_index=count)
        runs.access.ensure(identity, subject)  # so that the caller finds it, too
        if not is_new:
            raise BranchTakenError
        return _load(runs, attrs.evolve(thread, conversation=identity, branch=branch))

    return await asyncio.to_thread(fork)


async def find_summary(runs: LocalRuns, thread: Thread) -> RunSummary | None:
    """Return the summary of a thread's run; ``None`` if there is none."""
    if not thread.exists:
        return None
    try:
        return await runs.find(thread.conversation, subject=thread.subject)
    except StoreUnavailableError:
        raise
    except StoreError:  # a conversation without a run, such as a fork
        return None


async def advance(
    runs: LocalRuns,
    call: HttpCall,
    thread: Thread,
    spec: RunSpec,
    canisters: Sequence[AnyCanister] = (),
    approvals: Sequence[tuple[str, Approval]] = (),
    *,
    answers_last: bool = False,
) -> tuple[RunPlace, list[str]]:
    """Add approvals and messages to a thread: to its active run, or with a new run.

    A message for a run at rest is in its log when this returns.

    Args:
        call: The request, whose client may disconnect meanwhile.
        canisters: Messages that the conversation does not have.
        approvals: The ids of requests for approval, with the answers.
        answers_last: Start a run without a message, to answer the last one of the conversation.

    Returns:
        The place to follow the run from, and the ids of requests that do not wait for an approval.

    Raises:
        RequestError: There is no message, or the request was refused.
    """
    if not thread.exists:
        with suppress(_TakenError):
            await _start(runs, thread, spec, canisters, key=_name_key(thread.id, 0))
            return RunPlace(run_id=thread.conversation, start=1, after=0), []
        thread = attrs.evolve(thread, exists=True)  # another request began it at the same time
    late = await _answer_approvals(runs, thread, approvals)
    if canisters or answers_last:
        await _deliver(runs, thread, spec, canisters)
    await await_receipt(runs, call, thread.conversation, thread.subject)
    start = await find_start(runs, thread.conversation)
    return RunPlace(run_id=thread.conversation, start=start, after=thread.last_event), late


async def rejoin(runs: LocalRuns, thread: Thread) -> RunPlace:
    """Return the place of a client that lacks the answer so far."""
    start = await find_start(runs, thread.conversation)
    return RunPlace(run_id=thread.conversation, start=start, after=start)


async def _deliver(
    runs: LocalRuns, thread: Thread, spec: RunSpec, canisters: Sequence[AnyCanister]
) -> None:
    summary = await find_summary(runs, thread)
    if summary is None or summary.state in RESTS:
        with suppress(_TakenError):
            await _start(runs, thread, spec, canisters)
            return
    current = await asyncio.to_thread(_load, runs, thread)  # the other one may be the same request
    for canister in canisters:
        known = current.known.get(canister.id)
        if known is not None:
            _ensure_same_text(known, canister, canister.id)
        else:
            await runs.send(
                thread.conversation, canister, subject=thread.subject, message_id=canister.id
            )


async def _answer_approvals(
    runs: LocalRuns, thread: Thread, approvals: Sequence[tuple[str, Approval]]
) -> list[str]:
    """Answer requests for approval; return the ids of those that do not wait."""
    late = []
    for identity, approval in approvals:
        key, digest = read_approval_id(identity)
        answer = attrs.evolve(approval, digest=digest)
        try:
            await runs.approve(thread.conversation, answer, key=key, subject=thread.subject)
        except UnknownNameError:
            late.append(identity)
    return late


def _ensure_same_text(known: AnyCanister, canister: AnyCanister, identity: str) -> None:
    """Refuse a message of the user that a thread has with another text."""
    if isinstance(known, UserCanister) and _read_text(known) != _read_text(canister):
        detail = f"The message {identity[:80]!r} was received before, with another text."
        raise refuse("messages", f"{detail} Send it with a new id.")


def _read_text(canister: AnyCanister) -> str:
    return "".join(each.text for each in canister.content if isinstance(each, TextualContent))


class _TakenError(Exception):
    """Another request for the same conversation came first."""


async def _start(
    runs: LocalRuns,
    thread: Thread,
    spec: RunSpec,
    canisters: Sequence[AnyCanister],
    *,
    key: str = "",
) -> None:
    conversation = "" if key else thread.conversation
    spec = attrs.evolve(spec, stays=True)  # clients of other protocols keep the id of a thread
    try:
        await runs.start(
            spec, canisters, subject=thread.subject, key=key, conversation=conversation
        )
    except RequestError as error:
        if error.path in ("key", "run"):
            log = runs.store.open_log(thread.conversation)
            if await asyncio.to_thread(log.read_last) is not None:
                raise _TakenError from error
        raise  # also if another process keeps an empty log


def _load(runs: LocalRuns, thread: Thread) -> Thread:
    """Return a thread with the messages of its conversation."""
    last = runs.store.open_log(thread.conversation).read_last()
    canisters = runs.store.read(thread.conversation).canisters
    stored = {each.id for each in canisters}
    requested = list_requested(runs.store.open_log(thread.conversation).read())
    pending = tuple(each for each in requested if each.id not in stored)
    return attrs.evolve(
        thread,
        canisters=canisters,
        pending=pending,
        last_event=0 if last is None else last.sequence,
    )


def _is_accessible(runs: LocalRuns, identity: str, subject: str) -> bool:
    try:
        runs.access.ensure(identity, subject)
    except UnknownConversationError:
        return False
    return True


def _name_key(thread_id: str, branch: int) -> str:
    return f"thread {branch} {thread_id}"


def _name_branch(thread_id: str, subject: str, branch: int) -> str:
    return derive_identity(subject, _name_key(thread_id, branch))
