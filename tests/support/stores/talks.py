"""Short conversations for tests: forks, calls and answers of models."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)

START = datetime(2026, 11, 1, 12, tzinfo=UTC)


def make_origin(model: str = "claude-sonnet-4-5") -> Origin:
    """Return the origin of an answer with a usage."""
    return Origin(
        provider="anthropic",
        model=model,
        protocol="messages",
        stop_reason=StopReason.ANSWERED,
        usage=Usage(input_tokens=100_000, output_tokens=0),
    )


def exchange(question: str, answer: str = "", *, minute: int = 0) -> list[AnyCanister]:
    """Return a question and its answer."""
    at = START + timedelta(minutes=minute)
    return [
        UserCanister(question, timestamp=at),
        AssistantCanister(answer or f"{question}!", timestamp=at, origin=make_origin()),
    ]


def call(question: str, invocation_id: str, *, result: str | None = "42") -> list[AnyCanister]:
    """Return a question, a call, its result unless it is ``None``, and an answer."""
    results = [] if result is None else [ResultCanister(result, invocation_id=invocation_id)]
    turn = f"turn-{invocation_id}"
    return [
        UserCanister(question),
        InvocationCanister(
            invocation_id=invocation_id, name="count", origin=make_origin(), turn_id=turn
        ),
        *results,
        *([AssistantCanister(f"{result}.", origin=make_origin())] if results else []),
    ]


def save(
    store: ConversationStore,
    canisters: Iterable[AnyCanister],
    *,
    name: str | None = None,
    identity: str | None = None,
) -> str:
    """Store a conversation and return its id."""
    conversation = Conversation(id=identity, canisters=canisters)
    if name is not None:
        from attrs import evolve

        conversation.metadata = evolve(conversation.metadata, name=name)
    conversation.save(store)
    return conversation.id


def fork(
    store: ConversationStore,
    identity: str,
    canisters: Iterable[AnyCanister],
    *,
    at: int | None,
    child: str | None = None,
) -> str:
    """Store a fork with more messages and return its id."""
    child = store.fork(identity, from_index=at, child=child)
    store.append(child, list(canisters))
    return child
