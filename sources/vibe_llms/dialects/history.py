"""Repair of conversations: brings them into the form that vendors require, and records the losses.

In that form, each invocation that this library executes has exactly one result, right after the
turn, and ids are unique and valid for the vendor. A conversation in that form does not change, so
repairing is idempotent.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

import attrs

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.plain import OURS
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import (
    BROKEN_OFF,
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.messages.views import has_calls, list_plain_texts, text_of

NO_RESULT: Final = "No result is known. This call may or may not have been executed."
"""Result to insert if there is none, and it is unknown whether the invocation was executed."""

NOT_BEGUN: Final = "There is no result. This call was not executed."
"""Result of an invocation that a run did not start, according to its log."""

BEGUN: Final = (
    "There is no result. This call was begun and then interrupted: it may have taken effect in"
    " full, in part, or not at all."
)
"""Result of an invocation that a run started but did not finish, according to its log."""

NOTES: Final = frozenset({NO_RESULT, NOT_BEGUN, BEGUN})


@frozen(kw_only=True)
class HistoryRules:
    """A vendor's rules for the ids of invocations.

    Attributes:
        id_pattern: A regular expression for valid ids.
        alias_length: The length of aliases, which have letters and digits.
        alias_prefix: Prefix of aliases, included in the length.
    """

    id_pattern: str = ".+"
    alias_length: int = 24
    alias_prefix: str = "call_"


@frozen
class HistoryEntry:
    """A canister of the repaired conversation, and the path of its original."""

    canister: AnyCanister
    path: str


@frozen
class RepairedHistory:
    """A repaired conversation.

    Attributes:
        canisters: The canisters.
        positions: For each canister, the position of its original.
    """

    canisters: Sequence[AnyCanister]
    positions: Sequence[int]

    def __iter__(self) -> Iterator[HistoryEntry]:
        """Yield each canister with its path; :meth:`pair` is faster."""
        for canister, position in self.pair():
            yield HistoryEntry(canister, locate(position))

    def pair(self) -> Iterator[tuple[AnyCanister, int]]:
        """Return each canister with the position of its original."""
        return zip(self.canisters, self.positions, strict=True)

    def read(self, *, allows_native: bool = False) -> Iterator[tuple[AnyCanister, int, str | None]]:
        """Return each canister with its position, and its text if it is plain.

        Args:
            allows_native: See :func:`.list_plain_texts`.
        """
        texts = list_plain_texts(self.canisters, allows_native=allows_native)
        return zip(self.canisters, self.positions, texts, strict=True)

    def walk(self) -> Iterator[tuple[AnyCanister, int, str | None, AnyCanister | None]]:
        """Return the same, each with the canister after it."""
        following = (*self.canisters[1:], None)
        texts = list_plain_texts(self.canisters)
        return zip(self.canisters, self.positions, texts, following)  # noqa: B905  # may be empty


def locate(position: int) -> str:
    """Return the path of a canister."""
    return f"canisters[{position}]"


def repair_history(
    canisters: Sequence[AnyCanister], rules: HistoryRules, ledger: Ledger
) -> RepairedHistory:
    """Return the conversation in the form that vendors require.

    A missing result is inserted, a result without an invocation becomes a user's message, a late
    result moves to the turn of its invocation, and an invalid id is replaced by an alias that is
    derived from the id. Each change is a loss in the ledger. Calls that a vendor executed itself do
    not change.
    """
    ledger.set_conversation(canisters)
    if _is_in_order(canisters, rules):
        return RepairedHistory(canisters, range(len(canisters)))
    entries = _repair(canisters, rules, ledger)
    return RepairedHistory(
        [canister for canister, _ in entries], [position for _, position in entries]
    )


def _is_in_order(canisters: Sequence[AnyCanister], rules: HistoryRules) -> bool:
    """Return whether a conversation has the required form: exactly one result of each invocation,
    right after its turn, and valid ids.
    """
    if not has_calls(canisters):
        return True
    names: list[str] = []
    unanswered: set[str] = set()
    canister: Any
    before: AnyCanister | None = None
    for canister in canisters:
        kind = type(canister)
        if kind is ResultCanister and canister.owner is OURS:
            try:
                unanswered.remove(canister.invocation_id)
            except KeyError:
                return False
        else:
            if unanswered and not (before is not None and belongs(before, canister)):
                return False
            if kind is InvocationCanister and canister.owner is OURS:
                name = canister.invocation_id
                names.append(name)
                unanswered.add(name)
        before = canister
    is_valid = re.compile(rules.id_pattern).fullmatch
    return not unanswered and len({*names}) == len(names) and all(map(is_valid, names))


def _repair(
    canisters: Sequence[AnyCanister], rules: HistoryRules, ledger: Ledger
) -> list[tuple[AnyCanister, int]]:
    answers = pair_results(canisters)
    names = _find_aliases(canisters, rules, ledger)
    used_results = set(answers.values())
    turn_numbers = _number_turns(canisters)
    entries: list[tuple[AnyCanister, int]] = []
    for run in _split_turns(canisters):
        for index in run:
            canister = canisters[index]
            if not isinstance(canister, ResultCanister) or canister.owner is Owner.VENDOR:
                entries.append((_rename(canister, names.get(index)), index))
            elif index not in used_results:
                reason = "a result without its invocation is sent as text of the user"
                ledger.coerce(locate(index), reason)
                entries.append((convert_result(canister), index))
        unanswered = [index for index in run if _is_our_invocation(canisters[index])]
        entries += _place_results(canisters, unanswered, answers, names, turn_numbers, ledger)
    return entries


def pair_results(canisters: Sequence[AnyCanister]) -> dict[int, int]:
    """Return the position of the result for each of our invocations that has one.

    A result belongs to the first unanswered invocation with its id after the last input, or, if
    there is none, before it: some vendors use the same ids again in each turn. If the id of an
    invocation in an interrupted response occurs again, that invocation was not executed, and counts
    as one before.
    """
    recent: dict[str, deque[int]] = {}
    older: dict[str, deque[int]] = {}
    answers = {}
    for index, canister in enumerate(canisters):
        if not isinstance(canister, (InvocationCanister, ResultCanister)):
            if not isinstance(canister, AssistantCanister):
                for name, calls in recent.items():
                    older.setdefault(name, deque()).extend(calls)
                recent = {}
            continue
        if canister.owner is not Owner.OURS:
            continue
        name = canister.invocation_id
        if isinstance(canister, InvocationCanister):
            calls = recent.setdefault(name, deque())
            if calls and _broke_off_before(canisters[calls[-1]], canister):
                older.setdefault(name, deque()).extend(calls)
                calls.clear()
            calls.append(index)
        else:
            calls_without_result = recent.get(name) or older.get(name)
            if calls_without_result:
                answers[calls_without_result.popleft()] = index
    return answers


def _broke_off_before(earlier: AnyCanister, call: InvocationCanister) -> bool:
    """Return whether an earlier invocation belongs to another turn that was interrupted."""
    assert isinstance(earlier, InvocationCanister)
    origin = earlier.origin
    if origin is None or earlier.turn_id == call.turn_id:
        return False
    return origin.stop_reason in BROKEN_OFF


def is_missing_note(result: ResultCanister) -> bool:
    """Return whether a result is one of the notes that stand for a missing result."""
    return len(result.content) == 1 and text_of(result) in NOTES


def convert_result(result: ResultCanister) -> UserCanister:
    """Convert a result to a user's message, including its media."""
    kind = "Error" if result.is_error else "Result"
    contents = _label(f"{kind} of {result.name or result.invocation_id}:\n", result.content)
    return UserCanister(contents, id=result.id, timestamp=result.timestamp)


def _label(label: str, contents: tuple[AnyContent, ...]) -> tuple[AnyContent, ...]:
    """Put a label before contents; add it to the first content if that is a text."""
    if contents and isinstance(contents[0], TextualContent):
        return (attrs.evolve(contents[0], text=label + contents[0].text), *contents[1:])
    return (TextualContent(label), *contents)


def belongs(previous: AnyCanister, canister: AnyCanister) -> bool:
    """Return whether two adjacent canisters belong to the same turn of a model.

    Without turn ids, an invocation belongs to the message before it.
    """
    # Fast path: most turns have one canister.
    if type(previous) is UserCanister:
        return False
    if type(previous) is ResultCanister and previous.owner is OURS:
        return False
    if not (_is_from_model(previous) and _is_from_model(canister)):
        return False
    before: str | None = previous.turn_id
    current: str | None = canister.turn_id
    if before is None and current is None:
        return not isinstance(canister, AssistantCanister)
    return before == current


def _split_turns(canisters: Sequence[AnyCanister]) -> Iterator[list[int]]:
    """Yield the positions of each turn of a model; any other canister is yielded alone."""
    run: list[int] = []
    for index, canister in enumerate(canisters):
        if run and not belongs(canisters[run[-1]], canister):
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def _place_results(
    canisters: Sequence[AnyCanister],
    unanswered: Sequence[int],
    answers: Mapping[int, int],
    names: Mapping[int, str],
    turn_numbers: Sequence[int],
    ledger: Ledger,
) -> Iterator[tuple[AnyCanister, int]]:
    """Yield the existing results of a turn's invocations in their order, then inserted results."""
    results = sorted((answers[index], index) for index in unanswered if index in answers)
    for position, index in results:
        if turn_numbers[index] != turn_numbers[position]:
            ledger.coerce(locate(position), "the result is moved to the turn of its invocation")
        yield _rename(canisters[position], names.get(index)), position
    for index in unanswered:
        if index in answers:
            continue
        canister = canisters[index]
        assert isinstance(canister, InvocationCanister)
        ledger.synthesize(locate(index), "the invocation has no result; a note was inserted")
        result = ResultCanister(
            NO_RESULT,
            id=f"{canister.id}-result",  # the same each time it is inserted
            timestamp=canister.timestamp,
            invocation_id=names.get(index, canister.invocation_id),
            name=canister.name,
            is_error=True,
        )
        yield result, index


def _number_turns(canisters: Sequence[AnyCanister]) -> list[int]:
    """Return a number for each position that grows when a new turn or message begins.

    Two positions have the same number if only the rest of a turn and results are between them.
    """
    number = 0
    turn_numbers = [number]
    for earlier, canister in itertools.pairwise(canisters):
        is_result = isinstance(canister, ResultCanister) and canister.owner is Owner.OURS
        if not is_result and not belongs(earlier, canister):
            number += 1
        turn_numbers.append(number)
    return turn_numbers


def _find_aliases(
    canisters: Sequence[AnyCanister], rules: HistoryRules, ledger: Ledger
) -> dict[int, str]:
    """Return, by position, an alias for each invocation whose id is invalid or not unique."""
    used_ids: set[str] = set()
    aliases = {}
    alias_iterators: dict[str, Iterator[str]] = {}
    for index, canister in enumerate(canisters):
        if not _is_our_invocation(canister):
            continue
        name = canister.invocation_id
        if name in used_ids or not re.fullmatch(rules.id_pattern, name):
            # If an id needs several aliases, continue with the next one.
            candidates = alias_iterators.setdefault(name, _derive_aliases(name, rules))
            alias = next(alias for alias in candidates if alias not in used_ids)
            reason = f"the id {name!r} is sent as {alias}: this vendor does not accept the id"
            if name in used_ids:
                reason = f"the id {name!r} is sent as {alias}: an earlier invocation has the same"
            ledger.coerce(f"{locate(index)}.invocation_id", reason)
            aliases[index] = name = alias
        used_ids.add(name)
    return aliases


def _derive_aliases(name: str, rules: HistoryRules) -> Iterator[str]:
    """Yield possible aliases for an id; equal ids have equal aliases."""
    length = rules.alias_length - len(rules.alias_prefix)
    for number in itertools.count():
        # Ids may contain lone surrogates.
        digest = hashlib.sha256(f"{number}:{name}".encode("utf-8", "surrogatepass"))
        yield rules.alias_prefix + digest.hexdigest()[:length]


def _rename(canister: AnyCanister, name: str | None) -> AnyCanister:
    if name is None or not isinstance(canister, (InvocationCanister, ResultCanister)):
        return canister
    return attrs.evolve(canister, invocation_id=name)


def _is_our_invocation(canister: AnyCanister) -> TypeGuard[InvocationCanister]:
    return isinstance(canister, InvocationCanister) and canister.owner is Owner.OURS


def _is_from_model(canister: AnyCanister) -> bool:
    """Return whether a canister comes from a model, including calls that its vendor executed."""
    if isinstance(canister, ResultCanister):
        return canister.owner is not OURS
    return isinstance(canister, (AssistantCanister, InvocationCanister))
