"""Context windows: leave out the oldest turns of a conversation that exceeds the model's window.

The stored conversation does not change. A turn is never split, and an invocation is left out only
together with its result. Supervisors, the user's last message and the model's turns after it stay.
More turns are left out than necessary, up to the next multiple of a step, so that the beginning of
the request, which a vendor's prompt cache holds, stays the same for several turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, groupby
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.counting import MESSAGE_OVERHEAD, count_canister, estimate_overhead

UNSAID_OUTPUT: Final = 4096
"""Tokens reserved for an answer without a maximum; a quarter of the window if that is less."""

_STEP_SHARE: Final = 4
"""Divides the room for input into steps; whole exchanges are left out in multiples of a step."""

_INPUT_ROLES: Final = frozenset({"user", "document"})


@frozen(kw_only=True)
class Cut:
    """The canisters to leave out of a conversation.

    Attributes:
        gone: The indices of the canisters that are left out, in order.
        fits: Whether the rest fits.
    """

    gone: tuple[int, ...] = ()
    fits: bool = True

    def keep(self, canisters: Sequence[AnyCanister]) -> tuple[AnyCanister, ...]:
        """Return the remaining canisters."""
        gone = set(self.gone)
        return tuple(each for index, each in enumerate(canisters) if index not in gone)

    def survey_losses(self, kind: LossKind, reason: str) -> Iterator[Loss]:
        """Yield one loss for each sequence of adjacent canisters."""
        runs = groupby(enumerate(self.gone), key=lambda pair: pair[1] - pair[0])
        for _, run in runs:
            indices = [index for _, index in run]
            path = f"canisters[{indices[0]}]"
            if indices[1:]:
                path = f"canisters[{indices[0]}:{indices[-1] + 1}]"
            yield Loss(kind=kind, path=path, reason=reason)


def measure_room(
    attributes: ModelAttributes, controls: Mapping[str, object]
) -> tuple[int | None, int]:
    """Return the tokens that a model's window has for input, and for output.

    The first is ``None`` if the window is unknown.
    """
    asked = controls.get("max_tokens")
    output = asked if isinstance(asked, int) and asked > 0 else 0
    window = attributes.access_value("context_window_tokens")
    if not isinstance(window, int) or isinstance(window, bool) or window <= 0:
        return None, output
    # If the answer may fill the window, reserve half of it for the input.
    output = min(output or min(UNSAID_OUTPUT, window // 4), window // 2)
    return window - output, output


def measure_canisters(request: Request, attributes: ModelAttributes) -> tuple[list[int], int]:
    """Estimate the tokens of each canister of a request, and of everything else."""
    sizes = [count_canister(canister, attributes).tokens for canister in request.canisters]
    return sizes, estimate_overhead(request, attributes).tokens


def surely_fits(request: Request, attributes: ModelAttributes, room: int) -> bool:
    """Return whether the request fits even if each byte of its texts is a token."""
    left = room - estimate_overhead(request, attributes).tokens
    for canister in request.canisters:
        left -= MESSAGE_OVERHEAD.tokens
        if isinstance(canister, InvocationCanister):
            left -= len(canister.name.encode("utf-8", "replace"))
            left -= len(canister.arguments.encode("utf-8", "replace"))
        for content in canister.content:
            if not isinstance(content, TextualContent):
                return False
            left -= len(content.text.encode("utf-8", "replace"))
        if left < 0:
            return False
    return True


def cut_oldest(canisters: Sequence[AnyCanister], sizes: Sequence[int], room: int) -> Cut:
    """Decide which of the oldest turns to leave out so that the rest fits.

    Args:
        canisters: The conversation, oldest first.
        sizes: The tokens of each.
        room: The maximum tokens of the rest.

    Returns:
        An empty cut if the conversation fits. Otherwise whole exchanges, rounded up to a step; if
        there are not enough for that, as little as makes the rest fit. If nothing makes it fit, as
        much as is allowed.
    """
    excess = sum(sizes) - room
    if excess <= 0:
        return Cut()
    step = max(room // _STEP_SHARE, 1)
    wanted = -(-excess // step) * step
    least: Sequence[range] | None = None
    most: Sequence[range] = ()
    before = [0, *accumulate(_measure(*each) for each in zip(canisters, sizes, strict=True))]
    for spans in _survey_cuts(canisters):
        freed = sum(before[span.stop] - before[span.start] for span in spans)
        if freed > sum(before[span.stop] - before[span.start] for span in most):
            most = spans
        if least is None and freed >= excess:
            least = spans
        if len(spans) == 1 and freed >= wanted:
            return Cut(gone=_list_movable(canisters, spans))
    return Cut(gone=_list_movable(canisters, most if least is None else least), fits=bool(least))


def _measure(canister: AnyCanister, size: int) -> int:
    return 0 if canister.role == "supervisor" else max(size, 1)


def _list_movable(canisters: Sequence[AnyCanister], spans: Sequence[range]) -> tuple[int, ...]:
    indices = chain.from_iterable(spans)
    return tuple(index for index in indices if canisters[index].role != "supervisor")


def _survey_cuts(canisters: Sequence[AnyCanister]) -> Iterator[Sequence[range]]:
    """Yield possible cuts, from the smallest to the largest; supervisors in them stay.

    Smaller cuts have one span: whole exchanges, from the beginning up to a question. Larger ones
    have all of these, and a second span: turns of the model after the last question, except for
    its last turn.
    """
    joints = _survey_joints(canisters)
    questions = _survey_questions(canisters)
    for end in questions[1:]:
        if joints[end]:
            yield (range(end),)
    last = questions[-1] if questions else 0
    is_model = [_is_of_model(each) for each in canisters]
    start = next((i for i in range(last, len(canisters)) if is_model[i]), len(canisters))
    if start == len(canisters) or not (joints[last] and joints[start]):
        return  # a call before this place has its result after it
    for end in range(start + 1, len(canisters)):
        if joints[end] and is_model[end] and _begins_turn(canisters[end - 1], canisters[end]):
            yield (range(last), range(start, end))


def _survey_joints(canisters: Sequence[AnyCanister]) -> list[bool]:
    """Return for each canister whether a conversation may be cut before it.

    It may not be cut between an invocation and its result; an invocation without a result does not
    prevent a cut.
    """
    changes = [0] * (len(canisters) + 1)
    waiting: dict[str, list[int]] = {}
    for index, canister in enumerate(canisters):
        if isinstance(canister, InvocationCanister):
            waiting.setdefault(canister.invocation_id, []).append(index)
        elif isinstance(canister, ResultCanister) and waiting.get(canister.invocation_id):
            changes[waiting[canister.invocation_id].pop(0) + 1] += 1
            changes[index + 1] -= 1
    return [depth == 0 for depth in accumulate(changes[:-1])]


def _survey_questions(canisters: Sequence[AnyCanister]) -> list[int]:
    """Return the indices at which the user begins to speak; supervisors are ignored."""
    questions = []
    former = ""
    for index, canister in enumerate(canisters):
        if canister.role in _INPUT_ROLES and former not in _INPUT_ROLES:
            questions.append(index)
        if canister.role != "supervisor":
            former = canister.role
    return questions


def _is_of_model(canister: AnyCanister) -> bool:
    if isinstance(canister, ResultCanister):
        return canister.owner is Owner.VENDOR
    return isinstance(canister, (AssistantCanister, InvocationCanister))


def _begins_turn(former: AnyCanister, canister: AnyCanister) -> bool:
    """Return whether a turn of the model begins: after our result, input or another turn."""
    if not _is_of_model(former):
        return True
    mine, theirs = canister.turn_id, former.turn_id
    return mine is not None and mine != theirs
