"""Context windows: leave out the oldest turns of a conversation that exceeds the model's window.

The stored conversation does not change. A turn is never split, and an invocation is left out only
together with its result. Supervisors, the user's last message and, if possible, the model's turns
after it stay. More turns are left out than necessary, up to the next multiple of a step. So the
beginning of the request stays the same for several turns, and the vendor's prompt cache applies.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from vibe_llms.messages.views import match_results
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.counting import MESSAGE_OVERHEAD, count_canister, estimate_overhead

DEFAULT_OUTPUT_TOKENS: Final = 4096
"""Tokens reserved for an answer without a maximum; a quarter of the window if that is less."""

_STEPS: Final = 4
"""Number of steps in the room for input; whole exchanges are left out in multiples of a step."""

_INPUT_ROLES: Final = frozenset({"user", "document"})


@frozen(kw_only=True)
class Cut:
    """The canisters to leave out of a conversation.

    Attributes:
        omitted: The indices of the canisters that are left out, in order.
        fits: Whether the rest fits.
    """

    omitted: tuple[int, ...] = ()
    fits: bool = True

    def keep(self, canisters: Sequence[AnyCanister]) -> tuple[AnyCanister, ...]:
        """Return the remaining canisters."""
        omitted = set(self.omitted)
        return tuple(each for index, each in enumerate(canisters) if index not in omitted)

    def survey_losses(self, kind: LossKind, reason: str) -> Iterator[Loss]:
        """Yield one loss for each sequence of adjacent canisters."""
        # In a sequence of adjacent indices, the index minus its position is the same for all.
        runs = groupby(enumerate(self.omitted), key=lambda pair: pair[1] - pair[0])
        for _, run in runs:
            indices = [index for _, index in run]
            path = f"canisters[{indices[0]}]"
            if indices[1:]:
                path = f"canisters[{indices[0]}:{indices[-1] + 1}]"
            yield Loss(kind=kind, path=path, reason=reason)


WINDOW_REASON: Final = "the conversation exceeds the model's window"
"""Part of the reason of losses of canisters that were left out or summarized."""


def count_omitted(losses: Iterable[Loss]) -> int:
    """Return the number of canisters that were left out, or summarized, by these losses."""
    count = 0
    for loss in losses:
        if WINDOW_REASON in loss.reason:
            first, _, end = loss.path.removeprefix("canisters[").rstrip("]").partition(":")
            count += int(end) - int(first) if end else 1
    return count


def measure_room(
    attributes: ModelAttributes, controls: Mapping[str, object]
) -> tuple[int | None, int]:
    """Return the tokens that a model's window has for input, and for output.

    The first is ``None`` if the window is unknown.
    """
    max_tokens = controls.get("max_tokens")
    output = max_tokens if isinstance(max_tokens, int) and max_tokens > 0 else 0
    window = attributes.access_value("context_window_tokens")
    if not isinstance(window, int) or isinstance(window, bool) or window <= 0:
        return None, output
    # If the answer may fill the window, reserve half of it for the input.
    output = min(output or min(DEFAULT_OUTPUT_TOKENS, window // 4), window // 2)
    return window - output, output


def measure_canisters(request: Request, attributes: ModelAttributes) -> tuple[list[int], int]:
    """Estimate the tokens of each canister of a request, and of everything else."""
    sizes = [count_canister(canister, attributes).tokens for canister in request.canisters]
    return sizes, estimate_overhead(request, attributes).tokens


def surely_fits(request: Request, attributes: ModelAttributes, room: int) -> bool:
    """Return whether the request fits even if each byte of its texts is a token."""
    overhead = estimate_overhead(request, attributes)
    remaining_tokens = room - overhead.tokens - overhead.error_tokens
    for canister in request.canisters:
        remaining_tokens -= MESSAGE_OVERHEAD.tokens + MESSAGE_OVERHEAD.error_tokens
        if isinstance(canister, InvocationCanister):
            remaining_tokens -= len(canister.name.encode("utf-8", "replace"))
            remaining_tokens -= len(canister.arguments.encode("utf-8", "replace"))
        for content in canister.content:
            if not isinstance(content, TextualContent):
                return False
            remaining_tokens -= len(content.text.encode("utf-8", "replace"))
        if remaining_tokens < 0:
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
    step = max(room // _STEPS, 1)
    target = -(-excess // step) * step  # the excess, rounded up to a multiple of the step
    smallest: Sequence[range] | None = None
    largest: Sequence[range] = ()
    # Tokens before each canister, so that the tokens of a span are a difference.
    before = [0, *accumulate(_measure(*each) for each in zip(canisters, sizes, strict=True))]

    def measure_spans(spans: Sequence[range]) -> int:
        return sum(before[span.stop] - before[span.start] for span in spans)

    for spans in _survey_cuts(canisters):
        freed = measure_spans(spans)
        if freed > measure_spans(largest):
            largest = spans
        if smallest is None and freed >= excess:
            smallest = spans
        if len(spans) == 1 and freed >= target:
            return Cut(omitted=_list_removable(canisters, spans))
    spans = largest if smallest is None else smallest
    return Cut(omitted=_list_removable(canisters, spans), fits=bool(smallest))


def survey_turn_cuts(
    canisters: Sequence[AnyCanister], keep: int, pinned: Collection[str] = ()
) -> tuple[tuple[int, ...], list[int]]:
    """Return the canisters that a summary may replace, and the lengths of the possible cuts.

    Supervisors stay, as do pinned canisters, calls without a result with the rest of their answers,
    and a call whose result stays or vice versa. A last turn whose input, calls or results wait for
    an answer stays, too.

    Args:
        canisters: The conversation, oldest first.
        keep: Number of last turns that the first cut keeps. A turn begins with an input of the
            user; an unfinished one does not count.
        pinned: Ids of canisters that stay.

    Returns:
        The indices of the canisters, in order, and how many of them each cut replaces. Each further
        cut keeps one turn less.
    """
    results = match_results(canisters)
    inputs = _find_inputs(canisters)
    is_finished = _is_finished(canisters, inputs[-1] if inputs else 0, results)
    ends = [*inputs, len(canisters)] if is_finished else inputs
    can_cut_before = find_cut_points(canisters, results)
    # The last place up to each end at which the conversation may be cut.
    cuts = [0, *accumulate((end if can_cut_before[end] else 0 for end in ends), max)]
    staying = _survey_staying(canisters, pinned, results)
    removable = [index for index in range(len(canisters)) if index not in staying]
    lengths = [bisect_left(removable, end) for end in cuts[max(len(ends) - keep, 0) :]]
    return tuple(removable), lengths


def _is_finished(canisters: Sequence[AnyCanister], start: int, results: Mapping[int, int]) -> bool:
    """Return whether the last turn, which begins at a position, is answered; no call is open."""
    turn = range(start, len(canisters))
    is_open = any(
        isinstance(canisters[index], InvocationCanister) and index not in results for index in turn
    )
    roles = [canisters[index].role for index in turn if canisters[index].role != "supervisor"]
    return not is_open and roles[-1:] == ["assistant"]


def _survey_staying(
    canisters: Sequence[AnyCanister], pinned: Collection[str], results: Mapping[int, int]
) -> set[int]:
    """Return the indices of the canisters that a summary must not replace."""
    calls = {i for i, each in enumerate(canisters) if isinstance(each, InvocationCanister)}
    open_turns = {canisters[index].turn_id for index in calls - results.keys()} - {None}
    staying = calls - results.keys() | {
        index
        for index, each in enumerate(canisters)
        if each.role == "supervisor" or each.id in pinned or each.turn_id in open_turns
    }
    for pair in results.items():
        if not staying.isdisjoint(pair):
            staying.update(pair)
    return staying


def _measure(canister: AnyCanister, size: int) -> int:
    """Return the tokens that leaving out a canister frees; supervisors stay."""
    return 0 if canister.role == "supervisor" else max(size, 1)


def _list_removable(canisters: Sequence[AnyCanister], spans: Sequence[range]) -> tuple[int, ...]:
    indices = chain.from_iterable(spans)
    return tuple(index for index in indices if canisters[index].role != "supervisor")


def _survey_cuts(canisters: Sequence[AnyCanister]) -> Iterator[Sequence[range]]:
    """Yield possible cuts, from the smallest to the largest; supervisors in them stay.

    Smaller cuts have one span: whole exchanges, from the beginning up to an input of the user.
    Larger ones have all of these, and a second span: turns of the model after the last input,
    except for its last turn.
    """
    can_cut_before = find_cut_points(canisters)
    inputs = _find_inputs(canisters)
    for end in inputs[1:]:
        if can_cut_before[end]:
            yield (range(end),)
    last_input = inputs[-1] if inputs else 0
    is_model = [_is_of_model(each) for each in canisters]
    start = next((i for i in range(last_input, len(canisters)) if is_model[i]), len(canisters))
    if start == len(canisters) or not (can_cut_before[last_input] and can_cut_before[start]):
        return  # a call before this place has its result after it
    for end in range(start + 1, len(canisters)):
        if (
            can_cut_before[end]
            and is_model[end]
            and _begins_turn(canisters[end - 1], canisters[end])
        ):
            yield (range(last_input), range(start, end))


def find_cut_points(
    canisters: Sequence[AnyCanister], results: Mapping[int, int] | None = None
) -> list[bool]:
    """Return for each canister, and for the end, whether a conversation may be cut before it.

    It may not be cut between a call and its result; a call without a result does not prevent a cut.

    Args:
        results: The matched results of the conversation, if they are known.
    """
    changes = [0] * (len(canisters) + 1)
    for call, result in (match_results(canisters) if results is None else results).items():
        changes[call + 1] += 1
        changes[result + 1] -= 1
    return [depth == 0 for depth in accumulate(changes)]


def _find_inputs(canisters: Sequence[AnyCanister]) -> list[int]:
    """Return the indices at which input of the user begins; supervisors are ignored."""
    inputs = []
    previous = ""
    for index, canister in enumerate(canisters):
        if canister.role in _INPUT_ROLES and previous not in _INPUT_ROLES:
            inputs.append(index)
        if canister.role != "supervisor":
            previous = canister.role
    return inputs


def _is_of_model(canister: AnyCanister) -> bool:
    if isinstance(canister, ResultCanister):
        return canister.owner is Owner.VENDOR
    return isinstance(canister, (AssistantCanister, InvocationCanister))


def _begins_turn(previous: AnyCanister, canister: AnyCanister) -> bool:
    """Return whether a turn of the model begins here: after a result, an input or another turn."""
    if not _is_of_model(previous):
        return True
    this_turn, previous_turn = canister.turn_id, previous.turn_id
    return this_turn is not None and this_turn != previous_turn
