"""Tail of a conversation: its last turn, which alone determines the next step.

The canisters of one response share a turn id. Results that the engine added follow them. Input of
any kind (from the user, a supervisor, a document) is a tail by itself.
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
    """Last turn of a conversation.

    Attributes:
        last: Last canister of the conversation.
        start: Index of the turn's first canister.
        sent_count: Number of canisters that were sent to the model. If the last turn broke off,
            the canisters of that turn and of broken-off turns directly before it do not count.
        is_continuation: Whether the model continued its own turn, as after a pause.
        pending_calls: Invocations in the turn that are for us to execute and have no result, in
            order.
        results: Our results that follow the turn.
        origin: Origin of the turn; ``None`` for input, and for a turn that a program wrote.
        stop_reason: Why the model stopped; ``None`` if unknown.
    """

    last: AnyCanister
    start: int
    sent_count: int = 0
    is_continuation: bool = False
    pending_calls: tuple[InvocationCanister, ...] = ()
    results: tuple[ResultCanister, ...] = ()
    origin: Origin | None = None
    stop_reason: StopReason | None = None

    @property
    def is_broken_off(self) -> bool:
        """True if the response was cut off, so that its invocations may be incomplete."""
        return self.stop_reason in BROKEN_OFF

    @property
    def is_paused(self) -> bool:
        """True if the model paused and has to continue."""
        return self.stop_reason is StopReason.PAUSED

    @property
    def ends_with_assistant(self) -> bool:
        """True if the last canister is from the assistant, so that no answer is due."""
        return isinstance(self.last, AssistantCanister)

    @property
    def is_answered(self) -> bool:
        """True if the last canister is a complete answer of the assistant."""
        return self.ends_with_assistant and not (self.is_paused or self.is_broken_off)


def read_tail(canisters: Sequence[AnyCanister]) -> Tail:
    """Read the last turn; the rest of the conversation does not matter.

    Raises:
        RequestError: The conversation is empty.
    """
    if not canisters:
        raise RequestError(
            path="canisters",
            detail="The conversation is empty.",
            remedy="Add a user message.",
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
    sent_count = _skip_broken(canisters, start) if _broke_off(origin) else start
    return Tail(
        last=canisters[-1],
        start=start,
        sent_count=sent_count,
        is_continuation=sent_count > 0 and _can_continue(canisters[sent_count - 1]),
        pending_calls=_find_pending(turn, results),
        results=tuple(results),
        origin=origin,
        stop_reason=None if origin is None else origin.stop_reason,
    )


def _is_of_model(canister: AnyCanister) -> bool:
    if isinstance(canister, ResultCanister):
        return canister.owner is Owner.VENDOR
    return isinstance(canister, (AssistantCanister, InvocationCanister))


def _can_continue(last: AnyCanister) -> bool:
    """Return whether the model can continue after the last canister: no result is missing."""
    is_ours = isinstance(last, InvocationCanister) and last.owner is Owner.OURS
    return _is_of_model(last) and not is_ours


def _find_start(canisters: Sequence[AnyCanister], end: int) -> int:
    """Return the index of the first canister of the turn that ends before ``end``."""
    start = end
    while start and _is_of_model(canisters[start - 1]):
        # Two answers may follow each other without input between them, as after a pause.
        if _access_turn(canisters[start - 1]) != _access_turn(canisters[end - 1]):
            break
        start -= 1
    return start


def _skip_broken(canisters: Sequence[AnyCanister], start: int) -> int:
    """Return the start of the first of consecutive broken-off turns directly before ``start``."""
    while True:
        earlier = _find_start(canisters, start)
        # Without an earlier turn the slice is empty, and has no origin.
        if not _broke_off(_find_origin(canisters[earlier:start])):
            return start
        start = earlier


def find_end(canisters: Sequence[AnyCanister]) -> int:
    """Return the length of a turn at the beginning; 0 if the first canister is not a model's."""
    end = 0
    while end < len(canisters) and _is_of_model(canisters[end]):
        if _access_turn(canisters[end]) != _access_turn(canisters[0]):
            break
        end += 1
    return end


def _access_turn(canister: AnyCanister) -> str | None:
    return canister.turn_id


def _find_pending(
    turn: Sequence[AnyCanister], results: Sequence[ResultCanister]
) -> tuple[InvocationCanister, ...]:
    """Return the invocations without a result; a repeated id needs a result each time."""
    answered = [result.invocation_id for result in results]
    pending = []
    for canister in turn:
        if not isinstance(canister, InvocationCanister) or canister.owner is not Owner.OURS:
            continue
        if canister.invocation_id in answered:
            answered.remove(canister.invocation_id)
        else:
            pending.append(canister)
    return tuple(pending)


def _find_origin(turn: Sequence[AnyCanister]) -> Origin | None:
    for canister in reversed(turn):
        origin: Origin | None = canister.origin
        if origin is not None:
            return origin
    return None


def _broke_off(origin: Origin | None) -> bool:
    return origin is not None and origin.stop_reason in BROKEN_OFF
