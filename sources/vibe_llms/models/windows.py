"""What is sent of a conversation that exceeds a model's window: all but its oldest turns.

What is stored is never touched. A turn is never split; an invocation goes with its result, and
supervisors, the user's last words and what the model makes of them stay. What goes leaves in
steps of a part of the window, so that the beginning of what is sent, which a vendor's prompt cache
holds, stays the same for several turns.
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
"""Room for an answer whose length nobody bounds; a quarter of the window where that is less."""

_STEP_SHARE: Final = 4
"""What goes is counted in steps of this part of the room."""

_INPUT_ROLES: Final = frozenset({"user", "document"})


@frozen(kw_only=True)
class Cut:
    """What is left out of a conversation.

    Attributes:
        gone: The indices of the canisters that are left out, in order.
        fits: Whether the rest fits.
    """

    gone: tuple[int, ...] = ()
    fits: bool = True

    def keep(self, canisters: Sequence[AnyCanister]) -> tuple[AnyCanister, ...]:
        """Returns the rest."""
        gone = set(self.gone)
        return tuple(each for index, each in enumerate(canisters) if index not in gone)

    def survey_losses(self, kind: LossKind, reason: str) -> Iterator[Loss]:
        """Yields one loss for each run of neighbours."""
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
    """Returns how many tokens of input a model's window has room for, and how many of output.

    The first is ``None`` where the window is not known.
    """
    asked = controls.get("max_tokens")
    output = asked if isinstance(asked, int) and asked > 0 else 0
    window = attributes.access_value("context_window_tokens")
    if not isinstance(window, int) or isinstance(window, bool) or window <= 0:
        return None, output
    # An answer that may fill the window leaves half of it to what is asked.
    output = min(output or min(UNSAID_OUTPUT, window // 4), window // 2)
    return window - output, output


def measure_canisters(request: Request, attributes: ModelAttributes) -> tuple[list[int], int]:
    """Estimates the tokens of each canister of a request, and of all that is not a canister."""
    sizes = [count_canister(canister, attributes).tokens for canister in request.canisters]
    return sizes, estimate_overhead(request, attributes).tokens


def surely_fits(request: Request, attributes: ModelAttributes, room: int) -> bool:
    """Tells cheaply whether nothing needs to be counted: no token is shorter than a byte."""
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
    """Decides which of the oldest turns are left out so that the rest fits.

    Args:
        canisters: The conversation, oldest first.
        sizes: The tokens of each.
        room: How many tokens the rest may have.

    Returns:
        Nothing where all fits; as little as possible, up to a step, where it does not; and all that
        may go where even so the rest does not fit.
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
    """Yields what could go, from the least to the most; what is in it of supervisors stays.

    First, one span: whole exchanges, from the beginning to before a question. Then a second one:
    turns of the model after the last question, but for its last turn.
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
        return  # something there belongs to what was said before
    for end in range(start + 1, len(canisters)):
        if joints[end] and is_model[end] and _begins_turn(canisters[end - 1], canisters[end]):
            yield (range(last), range(start, end))


def _survey_joints(canisters: Sequence[AnyCanister]) -> list[bool]:
    """Tells of each canister whether a conversation may be cut before it.

    It may not between an invocation and its result; where there is no result, nothing is parted.
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
    """Returns where the user begins to speak, the supervisor's words being nobody's turn."""
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
    """Tells whether the model begins anew: after a result of ours, input or another turn."""
    if not _is_of_model(former):
        return True
    mine, theirs = canister.turn_id, former.turn_id
    return mine is not None and mine != theirs
