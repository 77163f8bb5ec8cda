"""Turns of a conversation: some input, and the model's answer to it with calls and results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Origin
from vibe_llms.messages.views import match_results

_INPUT_ROLES = ("user", "supervisor", "document")


@frozen(kw_only=True)
class Turn:
    """Part of a conversation: input, and all answers until the next input.

    Attributes:
        number: Its number in the conversation, from 1.
        start: Position of its first canister.
        canisters: Its canisters. A call and its result are in one turn.
    """

    number: int
    start: int
    canisters: tuple[AnyCanister, ...]

    @property
    def question(self) -> AnyCanister | None:
        """The first message of the user; otherwise the first input, or ``None``."""
        inputs = [each for each in self.canisters if each.role in _INPUT_ROLES]
        questions = [each for each in inputs if each.role == "user"]
        return next(iter(questions or inputs), None)

    @property
    def answer_origin(self) -> Origin | None:
        """The origin of its last answer; ``None`` if no model answered."""
        origins = [each.origin for each in self.canisters if each.origin is not None]
        return origins[-1] if origins else None


def split_turns(canisters: Sequence[AnyCanister]) -> tuple[Turn, ...]:
    """Split a conversation into turns.

    A turn begins with the first input after an answer. It does not begin between a call and its
    result, where a message to a running conversation may be.
    """
    ends = match_results(canisters)
    starts: list[int] = []
    reach = 0
    for index, canister in enumerate(canisters):
        is_input = canister.role in _INPUT_ROLES
        follows_input = index > 0 and canisters[index - 1].role in _INPUT_ROLES
        if index == 0 or (is_input and not follows_input and index > reach):
            starts.append(index)
        reach = max(reach, ends.get(index, 0))
    return tuple(
        Turn(number=number, start=start, canisters=tuple(canisters[start:end]))
        for number, (start, end) in enumerate(pairwise([*starts, len(canisters)]), 1)
    )


def find_open_calls(canisters: Sequence[AnyCanister]) -> list[InvocationCanister]:
    """Return the calls without a result."""
    results = match_results(canisters)
    return [
        canister
        for index, canister in enumerate(canisters)
        if isinstance(canister, InvocationCanister) and index not in results
    ]
