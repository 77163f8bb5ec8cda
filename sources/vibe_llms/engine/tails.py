"""The tail of a conversation: its last turn, from which alone it follows what comes next.

What one response brought shares a turn id; our results follow it. Input of any kind (of the
user, a supervisor, a document) is a tail of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import (
    BROKEN_OFF,
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
)


@frozen(kw_only=True)
class Tail:
    """The last turn of a conversation.

    Attributes:
        last: The last canister of all.
        start: The index of the turn's first canister.
        before: How many canisters the model was asked with: of a turn that broke off, those before
            it and before others just before it that had broken off, too.
        continues: The model was going on with its own words before these, as after a pause.
        owed: Our invocations in the turn that have no result, in their order.
        results: Our results that follow the turn.
        origin: Where the turn came from; ``None`` where the tail is input, or a turn that a
            program wrote, of which nothing else is known.
        stop_reason: Why the model stopped; ``None`` where nothing is known of that.
    """

    last: AnyCanister
    start: int
    before: int = 0
    continues: bool = False
    owed: tuple[InvocationCanister, ...] = ()
    results: tuple[ResultCanister, ...] = ()
    origin: Origin | None = None
    stop_reason: StopReason | None = None

    @property
    def is_broken_off(self) -> bool:
        """Whether the response did not come to its end: what it asks for may not be whole."""
        return self.stop_reason in BROKEN_OFF

    @property
    def is_paused(self) -> bool:
        """Whether the model has only paused, and shall go on."""
        return self.stop_reason is StopReason.PAUSED

    @property
    def ends_in_words(self) -> bool:
        """Whether the last is the assistant's, so that nothing is left to be answered."""
        return isinstance(self.last, AssistantCanister)

    @property
    def is_answered(self) -> bool:
        """Whether the assistant has had the last word, and all of it has come."""
        return self.ends_in_words and not (self.is_paused or self.is_broken_off)


def read_tail(canisters: Sequence[AnyCanister]) -> Tail:
    """Reads the last turn; however long the conversation is, no more than that is looked at.

    Raises:
        RequestError: The conversation is empty.
    """
    if not canisters:
        raise RequestError(
            path="canisters",
            detail="The conversation is empty.",
            remedy="Add what the user says.",
            stage=Stage.EXECUTE,
        )
    results: list[ResultCanister] = []
    for canister in reversed(canisters):
        if not isinstance(canister, ResultCanister) or canister.owner is not Owner.OURS:
            break
        results.append(canister)
    results.reverse()
    end = len(canisters) - len(results)
    start = _find_start(canisters, end)
    turn = canisters[start:end]
    origin = _find_origin(turn)
    before = _pass_broken(canisters, start) if _broke_off(origin) else start
    return Tail(
        last=canisters[-1],
        start=start,
        before=before,
        continues=before > 0 and _ends_in_own_words(canisters[before - 1]),
        owed=_find_owed(turn, results),
        results=tuple(results),
        origin=origin,
        stop_reason=None if origin is None else origin.stop_reason,
    )


def _is_of_model(canister: AnyCanister) -> bool:
    if isinstance(canister, ResultCanister):
        return canister.owner is Owner.VENDOR
    return isinstance(canister, (AssistantCanister, InvocationCanister))


def _ends_in_own_words(last: AnyCanister) -> bool:
    """Tells by the last canister whether the model can go on: nothing of ours is owed to it."""
    is_ours = isinstance(last, InvocationCanister) and last.owner is Owner.OURS
    return _is_of_model(last) and not is_ours


def _find_start(canisters: Sequence[AnyCanister], end: int) -> int:
    """Returns where the turn begins that ends before an index."""
    start = end
    while start and _is_of_model(canisters[start - 1]):
        # Two answers may follow each other with no input between them, as after a pause.
        if _access_turn(canisters[start - 1]) != _access_turn(canisters[end - 1]):
            break
        start -= 1
    return start


def _pass_broken(canisters: Sequence[AnyCanister], start: int) -> int:
    """Returns where the turns begin that broke off, one after the other, up to an index."""
    earlier = _find_start(canisters, start)
    while _broke_off(_find_origin(canisters[earlier:start])):  # no turn, no origin
        start, earlier = earlier, _find_start(canisters, earlier)
    return start


def find_end(canisters: Sequence[AnyCanister]) -> int:
    """Returns where the turn ends that begins at the first canister; 0 where none begins there."""
    end = 0
    while end < len(canisters) and _is_of_model(canisters[end]):
        if _access_turn(canisters[end]) != _access_turn(canisters[0]):
            break
        end += 1
    return end


def _access_turn(canister: AnyCanister) -> str | None:
    return getattr(canister, "turn_id", None)


def _find_owed(
    turn: Sequence[AnyCanister], results: Sequence[ResultCanister]
) -> tuple[InvocationCanister, ...]:
    """Returns the invocations without a result; an id that recurs wants a result each time."""
    answered = [result.invocation_id for result in results]
    owed = []
    for canister in turn:
        if not isinstance(canister, InvocationCanister) or canister.owner is not Owner.OURS:
            continue
        if canister.invocation_id in answered:
            answered.remove(canister.invocation_id)
        else:
            owed.append(canister)
    return tuple(owed)


def _find_origin(turn: Sequence[AnyCanister]) -> Origin | None:
    for canister in reversed(turn):
        origin: Origin | None = getattr(canister, "origin", None)
        if origin is not None:
            return origin
    return None


def _broke_off(origin: Origin | None) -> bool:
    return origin is not None and origin.stop_reason in BROKEN_OFF
