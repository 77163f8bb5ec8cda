"""What is left out of a conversation that exceeds a model's window."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.messages.canisters import (
    CANISTER_CLASSES,
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import pairs_of
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.genera import Genus
from vibe_llms.models.windows import cut_oldest, measure_canisters, surely_fits, survey_turn_cuts

_ATTRIBUTES = ModelAttributes(
    address=ModelAddress("p", "m"), genus=Genus.CONVERSER, controls=(), traced_values=()
)


@st.composite
def _conversations(draw: st.DrawFn) -> list[AnyCanister]:
    """Exchanges with calls, also such as are answered late or never, and instructions between."""
    canisters: list[AnyCanister] = []
    late: list[ResultCanister] = []
    for turn in range(draw(st.integers(0, 8))):
        name = f"turn-{turn}"
        match draw(st.integers(0, 5)):
            case 0:
                canisters.append(SupervisorCanister("Be brief."))
            case 1:
                canisters.append(UserCanister("A question"))
            case 2:
                canisters += [DocumentCanister("Some text"), UserCanister("What of it?")]
            case 3:
                canisters.append(AssistantCanister("An answer", turn_id=name))
            case _:
                calls = [f"{name}-{each}" for each in range(draw(st.integers(1, 3)))]
                canisters += [
                    InvocationCanister(invocation_id=each, name="look", turn_id=name)
                    for each in calls
                ]
                for each in calls:
                    result = ResultCanister("Found", invocation_id=each)
                    match draw(st.integers(0, 4)):
                        case 0:
                            late.append(result)
                        case 1:
                            pass
                        case _:
                            canisters.append(result)
        if late and draw(st.booleans()):
            canisters.append(late.pop(0))
    return [*canisters, *late]


@st.composite
def _measured(draw: st.DrawFn) -> tuple[list[AnyCanister], list[int], int]:
    canisters = draw(_conversations())
    sizes = [draw(st.integers(1, 50)) for _ in canisters]
    return canisters, sizes, draw(st.integers(1, 300))


def _rest(canisters: Sequence[AnyCanister], sizes: Sequence[int], room: int) -> list[int]:
    gone = set(cut_oldest(canisters, sizes, room).omitted)
    return [index for index in range(len(canisters)) if index not in gone]


@given(_measured())
def test_the_rest_fits_or_is_said_not_to(given: tuple[list[AnyCanister], list[int], int]) -> None:
    """What is sent does not exceed the window, unless what has to stay does."""
    canisters, sizes, room = given

    cut = cut_oldest(canisters, sizes, room)

    left = sum(size for index, size in enumerate(sizes) if index not in cut.omitted)
    assert cut.fits == (left <= room)
    if sum(sizes) <= room:
        assert not cut.omitted


@given(_measured())
def test_an_invocation_goes_with_its_result(
    given: tuple[list[AnyCanister], list[int], int],
) -> None:
    """No vendor takes a result without its call, or a call without its result."""
    canisters, sizes, room = given

    kept = {canisters[index].id for index in _rest(canisters, sizes, room)}

    for pair in pairs_of(canisters):
        if pair.result is not None:
            assert (pair.invocation.id in kept) == (pair.result.id in kept)


@given(_measured())
def test_supervisors_the_last_question_and_the_last_turn_stay(
    given: tuple[list[AnyCanister], list[int], int],
) -> None:
    """Whatever the window is, instructions hold, and there is something to be answered."""
    canisters, sizes, room = given

    kept = _rest(canisters, sizes, room)

    assert {i for i, each in enumerate(canisters) if each.role == "supervisor"} <= set(kept)
    asked = [i for i, each in enumerate(canisters) if each.role in ("user", "document")]
    assert set(asked[-1:]) <= set(kept)
    assert {len(canisters) - 1} & set(range(len(canisters))) <= set(kept)


@given(_measured())
def test_a_turn_is_never_split(given: tuple[list[AnyCanister], list[int], int]) -> None:
    """What one response brought goes, or stays."""
    canisters, sizes, room = given

    kept = set(_rest(canisters, sizes, room))

    turns: dict[str, set[bool]] = {}
    for index, canister in enumerate(canisters):
        if (turn := getattr(canister, "turn_id", None)) is not None:
            turns.setdefault(turn, set()).add(index in kept)
    assert all(len(states) == 1 for states in turns.values())


def _replace(
    canisters: Sequence[AnyCanister], keep: int, pinned: Collection[str] = ()
) -> tuple[int, ...]:
    """Return the indices of what a summary replaces."""
    removable, lengths = survey_turn_cuts(canisters, keep, pinned)
    return removable[: lengths[0]]


@given(_conversations(), st.integers(0, 4), st.data())
def test_a_summary_replaces_only_what_may_go(
    canisters: list[AnyCanister], keep: int, data: st.DataObject
) -> None:
    """Not instructions, pins, open calls, half a pair, the last turns, or a question."""
    pinned = {each.id for each in canisters if data.draw(st.booleans())}
    omitted = _replace(canisters, keep, pinned)

    gone = {canisters[index].id for index in omitted}
    assert not gone & pinned
    assert not [index for index in omitted if canisters[index].role == "supervisor"]
    for pair in pairs_of(canisters):
        if pair.result is None:
            assert pair.invocation.id not in gone
        else:
            assert (pair.invocation.id in gone) == (pair.result.id in gone)
    rest = [each.role for each in canisters[max(omitted, default=-1) + 1 :]]
    if omitted and rest:
        assert rest.count("user") + rest.count("document") >= min(keep, 1)


def test_the_last_turns_stay() -> None:
    """A turn ends with the next input; an unanswered input is no turn."""
    roles = ["user", "assistant", "document", "user", "assistant", "user", "assistant"]
    canisters: list[AnyCanister] = [CANISTER_CLASSES[role]("x") for role in roles]  # type: ignore[call-arg]
    waiting = [*canisters, UserCanister("?")]

    assert [len(_replace(canisters, keep)) for keep in range(5)] == [7, 5, 2, 0, 0]
    assert [len(_replace(waiting, keep)) for keep in range(5)] == [7, 5, 2, 0, 0]


def test_a_late_result_keeps_its_call() -> None:
    """The part that is replaced ends before the call."""
    canisters: list[AnyCanister] = [
        UserCanister("a"),
        AssistantCanister("A"),
        UserCanister("b"),
        InvocationCanister(invocation_id="1", name="look"),
        UserCanister("c"),
        ResultCanister("late", invocation_id="1"),
        AssistantCanister("C"),
    ]

    assert _replace(canisters, 1) == (0, 1)


def _call(identity: str, turn: str) -> InvocationCanister:
    return InvocationCanister(invocation_id=identity, name="look", turn_id=turn)


def _talk(count: int) -> list[AnyCanister]:
    turns = [[UserCanister("?"), AssistantCanister("!")] for _ in range(count)]
    return [canister for turn in turns for canister in turn]


def test_an_answer_with_an_open_call_stays_with_its_results() -> None:
    """Of parallel calls, one may be answered."""
    calls = [_call("a", "t"), _call("b", "t"), ResultCanister("Found", invocation_id="b")]

    assert _replace([UserCanister("Look."), *calls, *_talk(3)], 1) == (0, *range(4, 8))


@pytest.mark.parametrize("answered", [["b"], ["a", "b"]])
def test_an_unfinished_turn_stays(answered: list[str]) -> None:
    """The model still has to answer the question with the results."""
    results = [ResultCanister("Found " * 800, invocation_id=each) for each in answered]
    turn = [UserCanister("Look."), _call("a", "t"), _call("b", "t"), *results]

    assert _replace([*_talk(2), *turn], 0) == (0, 1, 2, 3)
    assert _replace([*_talk(2), *turn], 1) == (0, 1)


def test_an_interrupted_call_does_not_take_the_result_of_a_later_one() -> None:
    """Vendors may use an id again."""
    done = [_call("0", "y"), ResultCanister("R", invocation_id="0"), AssistantCanister("Done.")]
    canisters = [UserCanister("a"), _call("0", "x"), UserCanister("b"), *done, *_talk(1)]

    assert _replace(canisters, 1) == (0, 2, 3, 4, 5)
    assert len(_rest(canisters, [10] * 8, 50)) < 8  # a cut between them is allowed


@given(_measured())
def test_what_was_cut_is_not_cut_again(given: tuple[list[AnyCanister], list[int], int]) -> None:
    """The same conversation gives the same cut, and what is left of it is left as it is."""
    canisters, sizes, room = given
    kept = _rest(canisters, sizes, room)

    again = cut_oldest([canisters[i] for i in kept], [sizes[i] for i in kept], room)

    assert not again.omitted
    assert kept == _rest(canisters, sizes, room)


@given(_measured())
def test_the_losses_name_all_that_went(given: tuple[list[AnyCanister], list[int], int]) -> None:
    """Each canister that is not sent is in one of the paths, and no other."""
    canisters, sizes, room = given
    cut = cut_oldest(canisters, sizes, room)

    named: list[int] = []
    for loss in cut.survey_losses(LossKind.DROPPED, "why"):
        first, _, end = loss.path.removeprefix("canisters[").removesuffix("]").partition(":")
        named += range(int(first), int(end or int(first) + 1))

    assert tuple(named) == cut.omitted


def test_the_boundary_stays_for_several_turns() -> None:
    """A vendor's cache holds the beginning of what was sent: it does not move at each turn."""
    canisters: list[AnyCanister] = []
    firsts = []
    for _ in range(60):
        canisters.append(UserCanister("?"))
        canisters.append(AssistantCanister("!"))
        firsts.append(_rest(canisters, [5] * len(canisters), 200)[0])

    assert firsts[0] == 0
    assert firsts[-1] > 60
    assert len(set(firsts)) < 15


def test_within_one_long_run_the_oldest_turns_go() -> None:
    """An agent that has called for hours keeps its question and its last turns."""
    canisters: list[AnyCanister] = [UserCanister("Do it.")]
    for step in range(20):
        canisters.append(
            InvocationCanister(invocation_id=f"{step}", name="look", turn_id=f"{step}")
        )
        canisters.append(ResultCanister("Found", invocation_id=f"{step}"))

    kept = _rest(canisters, [10] * 41, 100)

    assert kept == [0, *range(33, 41)]


@given(st.text(), st.text(max_size=20), st.integers(0, 100))
def test_what_surely_fits_is_not_cut(text: str, arguments: str, room: int) -> None:
    """The cheap look never says that something fits which the count would cut."""
    canisters = [
        UserCanister(text),
        InvocationCanister(invocation_id="a", name="look", arguments=arguments),
        ResultCanister(text, invocation_id="a"),
    ]
    request = Request(canisters=canisters)
    sizes, rest = measure_canisters(request, _ATTRIBUTES)

    if surely_fits(request, _ATTRIBUTES, room):
        assert not cut_oldest(canisters, sizes, room - rest).omitted


@pytest.mark.parametrize(
    "between",
    [
        [UserCanister("Still there?")],
        [AssistantCanister("A moment.", turn_id="2")],
        [AssistantCanister("A moment.", turn_id="2"), UserCanister("Well?")],
    ],
)
def test_a_result_that_comes_late_keeps_its_invocation(between: list[AnyCanister]) -> None:
    """Also where something else was said before it came."""
    call = InvocationCanister(invocation_id="a", name="look", turn_id="1")
    result = ResultCanister("Found", invocation_id="a")
    canisters = [
        UserCanister("Look."),
        call,
        *between,
        result,
        AssistantCanister("Here.", turn_id="3"),
    ]

    for room in range(10, 10 * len(canisters)):
        kept = [canisters[i] for i in _rest(canisters, [10] * len(canisters), room)]
        assert (call in kept) == (result in kept), room
