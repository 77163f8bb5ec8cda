"""Attribution of messages: author, time, instructions and cost of each one (``vibe blame``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Final

from vibe_llms.conversations.lineage.turns import split_turns
from vibe_llms.conversations.stores.interfaces import ConversationStore, History
from vibe_llms.conversations.tags import PART_TAG, is_part, survey_sources
from vibe_llms.events.engine import GenerationFinishedEvent
from vibe_llms.events.flow import NodeStartedEvent
from vibe_llms.exceptions import ConverseError, ParseError, StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Origin, ResultCanister
from vibe_llms.messages.views import pairs_of
from vibe_llms.telemetry.prices import Price, price_usage

_LOADER: Final = "load_skill"
"""Tool of the ensemble ``skills`` with which a model loads a skill."""


@frozen(kw_only=True)
class Attribution:
    """Origin of one message of a conversation.

    Attributes:
        index: Position of the message.
        turn: Number of its turn, from 1.
        canister: The message.
        at: Time of the message.
        conversation: Id of the conversation in which it was written: this one, an ancestor, or
            the source of a cherry-pick or merge.
        origin: The model that wrote it; ``None`` if no model did.
        instructions: Position of the instructions that the model had last received; ``None`` for
            input, and without instructions.
        skills: Names of the skills that the model had loaded by then; empty for input.
        node: Node of the flow whose prompt was answered, such as ``P2``; empty outside of flows.
        amount: Cost of the answer in US dollars, on the answer's first message; ``None`` if it is
            unknown, and for other messages.
    """

    index: int
    turn: int
    canister: AnyCanister
    at: datetime
    conversation: str
    origin: Origin | None
    instructions: int | None
    skills: tuple[str, ...]
    node: str
    amount: Decimal | None


def attribute_messages(store: ConversationStore, identity: str) -> tuple[Attribution, ...]:
    """Return the attribution of each message of a conversation, oldest first.

    Raises:
        UnknownConversationError: The conversation does not exist.
        CorruptionError: The conversation is damaged.
    """
    history = store.read(identity)
    canisters = history.canisters
    authors = _find_authors(store, history)
    costs = _read_costs(store, dict.fromkeys([*authors.values(), identity]))
    node = _find_node(store, history)
    found: list[Attribution] = []
    instructions: int | None = None
    skills: dict[str, None] = {}
    loads = {pair.result.id: pair.invocation for pair in pairs_of(canisters) if pair.result}
    answers: set[str] = set()
    previous_id = ""
    for turn in split_turns(canisters):
        for index, canister in enumerate(turn.canisters, turn.start):
            if canister.role == "supervisor":
                instructions = index
            if canister.id in loads:
                skills.update(dict.fromkeys(_survey_skills(loads[canister.id], canister)))
            origin, amount = canister.origin, None
            answer = canister.turn_id or canister.id
            if origin is not None and answer not in answers:
                answers.add(answer)
                amount = costs.get(previous_id)
                amount = _price(origin, canister.timestamp) if amount is None else amount
            found.append(
                Attribution(
                    index=index,
                    turn=turn.number,
                    canister=canister,
                    at=canister.timestamp,
                    conversation=authors.get(canister.id, identity),
                    origin=origin,
                    instructions=None if origin is None else instructions,
                    skills=() if origin is None else tuple(skills),
                    node=node,
                    amount=amount,
                )
            )
            previous_id = canister.id
    return tuple(found)


def _survey_skills(call: InvocationCanister, result: AnyCanister) -> Iterator[str]:
    """Yield the name of the skill that a call has loaded, if it has."""
    is_error = isinstance(result, ResultCanister) and result.is_error
    if call.name == _LOADER and not is_error:
        with suppress(ParseError):
            name = call.parse_arguments().get("name")
            if isinstance(name, str):
                yield name


def _find_authors(store: ConversationStore, history: History) -> dict[str, str]:
    """Return the conversation in which each message was written, by the message's id.

    Of all ancestors and sources that contain a message, it is the one that was created first. A
    fork from a conflict has the time of its parent; of equal times, the ancestor is first.
    """
    wanted = {canister.id for canister in history.canisters}
    known = {each.identity: each for each in _survey_relatives(store, history)}
    relatives = sorted(
        known.values(),
        key=lambda each: (each.metadata.created, _count_ancestors(each, known), each.identity),
    )
    authors: dict[str, str] = {}
    for relative in relatives:
        for canister in relative.canisters:
            if canister.id in wanted:
                authors.setdefault(canister.id, relative.identity)
    return authors


def _count_ancestors(history: History, known: Mapping[str, History]) -> int:
    """Count the ancestors of a conversation among known ones."""
    count, parent = 0, history.metadata.parent
    while parent is not None and parent.identity in known and count < len(known):
        count, parent = count + 1, known[parent.identity].metadata.parent
    return count


def _survey_relatives(store: ConversationStore, history: History) -> Iterator[History]:
    """Yield a conversation, its ancestors, and the sources of their cherry-picks and merges."""
    pending, seen = [history], {history.identity}
    while pending:
        relative = pending.pop()
        yield relative
        parent = relative.metadata.parent
        above = [] if parent is None else [parent.identity]
        for identity in (*above, *survey_sources(relative.metadata.tags)):
            if identity not in seen:
                seen.add(identity)
                with suppress(StoreError):  # deleted, or unreadable
                    pending.append(store.read(identity, tolerant=True))


def _read_costs(store: ConversationStore, identities: Iterable[str]) -> dict[str, Decimal]:
    """Return the logged costs of answers, by the id of the last message that was sent."""
    costs: dict[str, Decimal] = {}
    for identity in identities:
        for event in _read_events(store, identity):
            if isinstance(event, GenerationFinishedEvent) and event.cents is not None:
                costs[event.key] = Decimal(str(event.cents)) / 100
    return costs


def _read_events(store: ConversationStore, identity: str) -> list[object]:
    try:
        return [logged.event for logged in store.open_log(identity).read()]
    except ConverseError:  # costs are computed from the usage without the log
        return []


def _price(origin: Origin, at: datetime) -> Decimal | None:
    price = price_usage(origin.usage, provider=origin.provider, model=origin.model, at=at)
    return price.amount if isinstance(price, Price) and not price.unpriced else None


def _find_node(store: ConversationStore, history: History) -> str:
    """Return the node of the flow that a conversation is a visit of; empty if it is none."""
    for tag in history.metadata.tags:
        for event in _read_events(store, tag.removeprefix(PART_TAG)) if is_part([tag]) else ():
            if isinstance(event, NodeStartedEvent) and event.conversation_id == history.identity:
                return event.node
    return ""
