"""Cherry-picks and merges: new forks with turns of other conversations.

A graft is stored completely or not at all, and changes no other conversation. Its messages keep
their ids, and its tags name the conversations from which they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import attrs

from vibe_llms.conversations.compaction import read_whole
from vibe_llms.conversations.lineage.families import count_shared
from vibe_llms.conversations.lineage.turns import Turn, find_open_calls, split_turns
from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.stores.interfaces import ConversationStore, History
from vibe_llms.conversations.tags import SOURCE_TAG
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister
from vibe_llms.messages.identities import produce_identity
from vibe_llms.providers.summaries import is_summary

Ending: TypeAlias = Literal["both", "first", "second"]


@frozen(kw_only=True)
class Graft:
    """Result of a cherry-pick or a merge.

    Attributes:
        identity: Id of the new fork; of an existing conversation if nothing had to be added to it.
        parent: Id of the conversation that was forked, or ``identity``.
        added: Number of messages that were added after the parent's.
        conflicts: Contradictions between both sides, in sentences; nothing is lost by them.
    """

    identity: str
    parent: str
    added: int
    conflicts: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """True if a conversation was created."""
        return self.identity != self.parent


@define
class _Ending:
    """Messages to add to a fork.

    Attributes:
        added: The messages.
        pinned: Ids of those that are pinned in their source.
        conflicts: Contradictions, in sentences.
    """

    added: list[AnyCanister] = attrs.field(factory=list)
    pinned: list[str] = attrs.field(factory=list)
    conflicts: list[str] = attrs.field(factory=list)


def pick_turns(store: ConversationStore, source: str, numbers: Sequence[int], target: str) -> Graft:
    """Fork a conversation, and add turns of another one to the fork.

    A turn is picked as a whole, so that each call has its result. Turns that the target already
    contains are skipped.

    Args:
        store: Store of both conversations.
        source: Id of the conversation with the turns.
        numbers: Numbers of the turns, from 1, in the order in which they are added.
        target: Id of the conversation to fork.

    Raises:
        UnknownConversationError: A conversation does not exist.
        RequestError: A turn does not exist.
    """
    picked, into = store.read(source), store.read(target)
    turns = split_turns(picked.canisters)
    for number in numbers:
        if not 1 <= number <= len(turns):
            raise _refuse(
                "turns",
                f"Unknown turn {number}: {source} has {len(turns)} turns.",
                "`vibe log` numbers them.",
            )
    chosen = [turns[number - 1] for number in dict.fromkeys(numbers)]
    ending = _collect(into, picked, chosen)
    return Graft(
        identity=_plant(store, into, source, ending) if ending.added else target,
        parent=target,
        added=len(ending.added),
        conflicts=(*_survey_open_calls(into), *ending.conflicts),
    )


def merge_conversations(
    store: ConversationStore, first: str, second: str, *, take: Ending = "both"
) -> Graft:
    """Merge two conversations with a common beginning into a fork of the first.

    If one of them contains the other, it is the result, and nothing is created. A conversation
    contains the messages that its summaries replace.

    Args:
        store: Store of both conversations.
        first: Id of the conversation whose ending comes first.
        second: Id of the conversation whose ending is added.
        take: ``both`` for the beginning and both endings, or the only ending to use.

    Raises:
        UnknownConversationError: A conversation does not exist.
        RequestError: They have no common beginning, or lack messages that a summary replaces.
    """
    one, other = store.read(first), store.read(second)
    whole, other_whole = one, other
    if _survey_summaries(one) != _survey_summaries(other):  # a compacted fork and its parent
        whole, other_whole = (_unfold(store, each) for each in (one, other))
    shared = count_shared(
        [each.id for each in whole.canisters], [each.id for each in other_whole.canisters]
    )
    if not shared:
        raise _refuse(
            "conversations",
            f"{first} and {second} have no common beginning.",
            "Use `vibe cherry-pick` for single turns.",
        )
    if shared == len(whole.canisters):
        return Graft(identity=second, parent=second, added=0)
    turns = _find_ending(other_whole, shared)
    ending = _collect(whole, other_whole, turns)
    if not ending.added:
        return Graft(identity=first, parent=first, added=0)
    conflicts = _survey_conflicts(whole, other_whole, shared)
    if take == "both":
        return Graft(
            identity=_plant(store, one, second, ending),
            parent=first,
            added=len(ending.added),
            conflicts=(*conflicts, *ending.conflicts),
        )
    kept, left = (one, second) if take == "first" else (other, first)
    return Graft(
        identity=_plant(store, kept, left, _Ending()),
        parent=kept.identity,
        added=0,
        conflicts=tuple(conflicts),
    )


def _survey_summaries(history: History) -> set[str]:
    return {each.id for each in history.canisters if is_summary(each)}


def _unfold(store: ConversationStore, history: History) -> History:
    """Return a conversation with the messages that its summaries replace, without the summaries."""
    canisters, findings = read_whole(store, history)
    if findings:
        raise _refuse(
            "conversations",
            f"{history.identity} lacks messages that its summary replaces.",
            "Use `vibe cherry-pick` for single turns.",
        )
    kept = tuple(each for each in canisters if not is_summary(each))
    return attrs.evolve(history, canisters=kept)


def _find_ending(history: History, shared: int) -> list[Turn]:
    """Return the turns that do not lie entirely in a shared beginning."""
    turns = split_turns(history.canisters)
    return [turn for turn in turns if turn.start + len(turn.canisters) > shared]


def _survey_conflicts(one: History, other: History, shared: int) -> list[str]:
    conflicts = _survey_open_calls(one)
    endings = [history.canisters[shared:] for history in (one, other)]
    if all(any(each.role == "supervisor" for each in ending) for ending in endings):
        conflicts.append(
            f"Both endings change the instructions; those of {other.identity} come last."
        )
    return conflicts


def _survey_open_calls(history: History) -> list[str]:
    turns = split_turns(history.canisters)
    calls = find_open_calls(turns[-1].canisters) if turns else []
    return [f"{history.identity} ends with a call without a result: {call.name}." for call in calls]


def _survey_ids(history: History) -> set[str]:
    return {canister.id for canister in history.canisters}


def _collect(target: History, source: History, turns: Iterable[Turn]) -> _Ending:
    """Return the messages of turns that a conversation lacks."""
    known, ending = _survey_ids(target), _Ending()
    for turn in turns:
        name = f"Turn {turn.number} of {source.identity}"
        repeated = sum(each.id in known for each in turn.canisters)
        if repeated == len(turn.canisters):
            ending.conflicts.append(f"{name} is already there; skipped.")
            continue
        if repeated:
            ending.conflicts.append(f"{name} continues a message that is there; it is repeated.")
        if calls := find_open_calls(turn.canisters):
            names = ", ".join(call.name for call in calls)
            ending.conflicts.append(f"{name} has calls without a result: {names}.")
        for each in turn.canisters:
            # A conversation has no id twice.
            added = attrs.evolve(each, id=produce_identity()) if each.id in known else each
            if isinstance(added, DocumentCanister):  # a summary replaces nothing here
                added = attrs.evolve(added, summarizes=None)
            ending.added.append(added)
            if each.id in source.metadata.pinned:
                ending.pinned.append(added.id)
        known.update(each.id for each in turn.canisters)
    return ending


def _plant(store: ConversationStore, target: History, source: str, ending: _Ending) -> str:
    """Store a fork of a conversation with more messages, completely or not at all."""
    identity = produce_identity()
    link = ParentLink(identity=target.identity, canisters=len(target.canisters))
    metadata = target.metadata.fork(link)
    metadata = attrs.evolve(
        metadata,
        tags=(*metadata.tags, f"{SOURCE_TAG}{source}"),
        pinned=(*metadata.pinned, *ending.pinned),
    )
    store.plant(identity, metadata, ending.added)
    return identity


def _refuse(path: str, detail: str, remedy: str) -> RequestError:
    return RequestError(path=path, detail=detail, remedy=remedy, stage=Stage.STORE)
