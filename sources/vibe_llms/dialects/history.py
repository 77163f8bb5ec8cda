"""Repair of conversations into the form that vendors require, with the losses.

Each of our invocations gets exactly one result, right after its turn; ids have a format that the
vendor accepts, and are unique. A conversation in that form does not change, so that repairing is
idempotent.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeGuard

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
from vibe_llms.messages.views import text_of

NO_RESULT: Final = "No result is known. This call may or may not have been executed."
"""The result of an invocation without one; whether it was executed is unknown."""

NOT_BEGUN: Final = "There is no result. This call was not executed."
"""The result of an invocation that a run left before starting it, as its log records."""

BEGUN: Final = (
    "There is no result. This call was begun and then interrupted: it may have taken effect in"
    " full, in part, or not at all."
)
"""The result of an invocation that a run had started: its log records nothing else."""

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
        positions: The position of the original of each.
    """

    canisters: Sequence[AnyCanister]
    positions: Sequence[int]

    def __iter__(self) -> Iterator[HistoryEntry]:
        """Yield each canister with its path; usual ones are written without a path."""
        for canister, position in self.pair():
            yield HistoryEntry(canister, locate(position))

    def pair(self) -> Iterator[tuple[AnyCanister, int]]:
        """Return each canister with the position of its original."""
        return zip(self.canisters, self.positions, strict=True)

    def walk(self) -> Iterator[tuple[AnyCanister, int, AnyCanister | None]]:
        """Do the same, each with the canister after it."""
        following = itertools.chain(self.canisters[1:], (None,))
        return zip(self.canisters, self.positions, following)  # noqa: B905  # may be empty


def locate(position: int) -> str:
    """Return the path of a canister."""
    return f"canisters[{position}]"


def repair_history(
    canisters: Sequence[AnyCanister], rules: HistoryRules, ledger: Ledger
) -> RepairedHistory:
    """Return the conversation in the form that vendors require.

    A missing result is made up, a result without its invocation becomes a user's message, a late
    one moves up to its turn, and an invalid id gets an alias derived from it. Each change is a loss
    in the ledger. Calls that a vendor executed itself do not change.
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
    if {*map(type, canisters)}.isdisjoint((InvocationCanister, ResultCanister)):
        return True
    names: list[str] = []
    owed: set[str] = set()
    before: AnyCanister | None = None
    for canister in canisters:
        if type(canister) is ResultCanister and canister.owner is OURS:
            name = canister.invocation_id
            if name not in owed:
                return False
            owed.remove(name)
        else:
            if owed and not (before is not None and belongs(before, canister)):
                return False
            if type(canister) is InvocationCanister and canister.owner is OURS:
                name = canister.invocation_id
                names.append(name)
                owed.add(name)
        before = canister
    is_valid = re.compile(rules.id_pattern).fullmatch
    return not owed and len({*names}) == len(names) and all(map(is_valid, names))


def _repair(
    canisters: Sequence[AnyCanister], rules: HistoryRules, ledger: Ledger
) -> list[tuple[AnyCanister, int]]:
    answers = pair_results(canisters)
    names = _survey_names(canisters, rules, ledger)
    answering = set(answers.values())
    breaks = _count_breaks(canisters)
    entries: list[tuple[AnyCanister, int]] = []
    for run in _split_turns(canisters):
        for index in run:
            canister = canisters[index]
            if not isinstance(canister, ResultCanister) or canister.owner is Owner.VENDOR:
                entries.append((_rename(canister, names.get(index)), index))
            elif index not in answering:
                reason = "a result without its invocation is sent as text of the user"
                ledger.coerce(locate(index), reason)
                entries.append((convert_result(canister), index))
        owed = [index for index in run if _is_our_invocation(canisters[index])]
        entries += _place_results(canisters, owed, answers, names, breaks, ledger)
    return entries


def pair_results(canisters: Sequence[AnyCanister]) -> dict[int, int]:
    """Return the position of the result for each of our invocations that has one.

    A result answers the first unanswered invocation with its id since the last input; where
    there is none, the first unanswered one before. Some vendors use an id again in each turn.
    An invocation of a response that broke off counts as one before, once its id recurs: it was
    not executed.
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
        elif waiting := recent.get(name) or older.get(name):
            answers[waiting.popleft()] = index
    return answers


def _broke_off_before(earlier: AnyCanister, call: InvocationCanister) -> bool:
    """Return whether an earlier invocation is of another turn, which is incomplete."""
    assert isinstance(earlier, InvocationCanister)
    origin = earlier.origin
    if origin is None or earlier.turn_id == call.turn_id:
        return False
    return origin.stop_reason in BROKEN_OFF


def is_missing_note(result: ResultCanister) -> bool:
    """Return whether a result is one of the notes for a missing one, which describe the failure."""
    return len(result.content) == 1 and text_of(result) in NOTES


def convert_result(result: ResultCanister) -> UserCanister:
    """Return a result as a user's message, including media."""
    kind = "Error" if result.is_error else "Result"
    contents = _label(f"{kind} of {result.name or result.invocation_id}:\n", result.content)
    return UserCanister(contents, id=result.id, timestamp=result.timestamp)


def _label(label: str, contents: tuple[AnyContent, ...]) -> tuple[AnyContent, ...]:
    """Put a label before contents: into the first of them if it is a text."""
    if contents and isinstance(contents[0], TextualContent):
        return (attrs.evolve(contents[0], text=label + contents[0].text), *contents[1:])
    return (TextualContent(label), *contents)


def belongs(previous: AnyCanister, canister: AnyCanister) -> bool:
    """Return whether two adjacent canisters are of one turn of a model.

    Without turn ids, an invocation belongs to the message before it.
    """
    if not (_is_spoken(previous) and _is_spoken(canister)):
        return False
    before: str | None = previous.turn_id
    now: str | None = canister.turn_id
    if before is None and now is None:
        return not isinstance(canister, AssistantCanister)
    return before == now


def _split_turns(canisters: Sequence[AnyCanister]) -> Iterator[list[int]]:
    """Yield the positions of each turn of a model, and each other canister by itself."""
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
    owed: Sequence[int],
    answers: Mapping[int, int],
    names: Mapping[int, str],
    breaks: Sequence[int],
    ledger: Ledger,
) -> Iterator[tuple[AnyCanister, int]]:
    """Yield the results of a turn's invocations, in their order, then those made up."""
    given = sorted((answers[index], index) for index in owed if index in answers)
    for position, index in given:
        if breaks[index] != breaks[position]:
            ledger.coerce(locate(position), "the result is moved to the turn of its invocation")
        yield _rename(canisters[position], names.get(index)), position
    for index in owed:
        if index in answers:
            continue
        canister = canisters[index]
        assert isinstance(canister, InvocationCanister)
        ledger.synthesize(locate(index), "the invocation has no result; a note was inserted")
        result = ResultCanister(
            NO_RESULT,
            id=f"{canister.id}-result",  # the same each time it is made up
            timestamp=canister.timestamp,
            invocation_id=names.get(index, canister.invocation_id),
            name=canister.name,
            is_error=True,
        )
        yield result, index


def _count_breaks(canisters: Sequence[AnyCanister]) -> list[int]:
    """Return for each position how many canisters up to it end the turn before them.

    Between two positions with the same number stand only the rest of a turn and results.
    """
    breaks = [0]
    for earlier, canister in itertools.pairwise(canisters):
        is_result = isinstance(canister, ResultCanister) and canister.owner is Owner.OURS
        breaks.append(breaks[-1] + (not is_result and not belongs(earlier, canister)))
    return breaks


def _survey_names(
    canisters: Sequence[AnyCanister], rules: HistoryRules, ledger: Ledger
) -> dict[int, str]:
    """Return an alias for each invocation whose id is invalid or not unique."""
    taken: set[str] = set()
    aliases = {}
    derived: dict[str, Iterator[str]] = {}
    for index, canister in enumerate(canisters):
        if not _is_our_invocation(canister):
            continue
        name = canister.invocation_id
        if name in taken or not re.fullmatch(rules.id_pattern, name):
            # An id with several aliases continues after the last of them.
            ways = derived.setdefault(name, _derive_aliases(name, rules))
            alias = next(alias for alias in ways if alias not in taken)
            reason = f"the id {name!r} is sent as {alias}: this vendor does not accept the id"
            if name in taken:
                reason = f"the id {name!r} is sent as {alias}: an earlier invocation has the same"
            ledger.coerce(f"{locate(index)}.invocation_id", reason)
            aliases[index] = name = alias
        taken.add(name)
    return aliases


def _derive_aliases(name: str, rules: HistoryRules) -> Iterator[str]:
    """Yield aliases for an id; always the same ones for the same id."""
    length = rules.alias_length - len(rules.alias_prefix)
    for number in itertools.count():
        # Ids may have lone surrogates.
        digest = hashlib.sha256(f"{number}:{name}".encode("utf-8", "surrogatepass"))
        yield rules.alias_prefix + digest.hexdigest()[:length]


def _rename(canister: AnyCanister, name: str | None) -> AnyCanister:
    if name is None or not isinstance(canister, (InvocationCanister, ResultCanister)):
        return canister
    return attrs.evolve(canister, invocation_id=name)


def _is_our_invocation(canister: AnyCanister) -> TypeGuard[InvocationCanister]:
    return isinstance(canister, InvocationCanister) and canister.owner is Owner.OURS


def _is_spoken(canister: AnyCanister) -> bool:
    """Return whether a canister is a model's own, including calls that its vendor executed."""
    if isinstance(canister, ResultCanister):
        return canister.owner is Owner.VENDOR
    return isinstance(canister, (AssistantCanister, InvocationCanister))
