"""Where a caller is lenient, what comes nearest to a wish goes in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.vendors.shipped import SHIPPED
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.models.controls import Control, IntervalControl, OptionsControl, check_controls
from vibe_llms.providers.nearest import EFFORTS, find_nearest, find_obstacle

HI = UserCanister("hi")
BUDGETS = IntervalControl(name="reasoning_budget_tokens", minimum=1024, grade=1)
FREE = IntervalControl(name="reasoning_budget_tokens", minimum=0, maximum=9_000, grade=1)
LIMIT = IntervalControl(name="max_tokens", minimum=1, grade=1, default=8_192)


def find(name: str, value: Any, *controls: Control, **more: Any) -> Any:
    request = Request(canisters=[HI], controls={name: value, **more})
    return find_nearest(name, request, {each.name: each for each in controls})


@pytest.mark.parametrize(
    ("wished", "options", "goes"),
    [
        ("minimal", "none low medium high", "low"),
        ("none", "minimal low", "minimal"),
        ("max", "low medium high", "high"),
        ("xhigh", "none", None),
        ("medium", "none low max", "low"),
        ("medium", "high", "high"),
        ("furious", "low high", None),
        (3, "low high", None),
    ],
)
def test_the_effort_is_rather_less_than_was_wished_for_and_some(
    wished: Any, options: str, goes: str | None
) -> None:
    """Unless none was; what is no effort is near to none."""
    control = OptionsControl(name="reasoning_effort", options=tuple(options.split()))
    assert find("reasoning_effort", wished, control) == (goes and ("reasoning_effort", goes))


@given(
    wished=st.sampled_from(EFFORTS),
    options=st.sets(st.sampled_from(EFFORTS), min_size=1),
)
def test_what_goes_is_taken(wished: str, options: set[str]) -> None:
    """Whatever a model has of them."""
    control = OptionsControl(name="reasoning_effort", options=tuple(options))
    found = find("reasoning_effort", wished, control)
    if found is None:
        assert options == {"none"}
    else:
        check_controls(dict([found]), [control])


@pytest.mark.parametrize(
    ("budget", "goes"),
    [(0, "none"), (1_024, "low"), (4_000, "medium"), (31_999, "high"), (-1, None)],
)
def test_a_budget_goes_as_an_effort(budget: int, goes: str | None) -> None:
    """Where a model has these alone."""
    control = OptionsControl(name="reasoning_effort", options=("none", "low", "medium", "high"))
    found = find("reasoning_budget_tokens", budget, control)
    assert found == (goes and ("reasoning_effort", goes))
    assert find("reasoning_budget_tokens", 4_000, control, reasoning_effort="low") is None
    assert find("reasoning_budget_tokens", 4_000) is None


@pytest.mark.parametrize(
    ("effort", "controls", "more", "goes"),
    [
        ("high", [BUDGETS], {}, 24_576),
        ("low", [BUDGETS], {}, 1_024),
        ("high", [BUDGETS, LIMIT], {}, 4_096),
        ("high", [BUDGETS, LIMIT], {"max_tokens": 3_000}, 1_500),
        ("high", [BUDGETS, LIMIT], {"max_tokens": 300}, None),
        ("none", [BUDGETS], {}, None),
        ("none", [FREE], {}, 0),
        ("low", [BUDGETS], {"temperature": 0.5}, None),
        ("low", [BUDGETS], {"reasoning_budget_tokens": 2_000}, None),
        ("furious", [BUDGETS], {}, None),
        ("low", [], {}, None),
    ],
)
def test_an_effort_goes_as_a_budget(
    effort: str, controls: list[Control], more: dict[str, Any], goes: int | None
) -> None:
    """Such as leaves something of the answer, and is taken beside what else is asked for."""
    found = find("reasoning_effort", effort, *controls, **more)
    assert found == (None if goes is None else ("reasoning_budget_tokens", goes))


def test_no_model_begins_to_reason_in_the_midst_of_a_turn_or_where_it_must_call() -> None:
    """Anthropic refuses either."""
    made = InvocationCanister(invocation_id="c", name="f", arguments="{}")
    told = ResultCanister("Done.", invocation_id="c")
    tool = InvocableDescription(name="f", description="Does it.", schema={"type": "object"})
    for fields in (
        {"canisters": [HI, made, told]},
        {"canisters": [HI], "invocables": [tool], "invocation_choice": "required"},
    ):
        request = Request(controls={"reasoning_effort": "low"}, **fields)  # type: ignore[arg-type]
        assert find_nearest("reasoning_effort", request, {BUDGETS.name: BUDGETS}) is None


async def translate(name: str, model: str, folder: Path, **controls: Any) -> tuple[Any, list[str]]:
    """Returns what would be sent, and what was lost on the way."""
    asked = await SHIPPED[name].access("http://127.0.0.1:9", folder)
    request = Request(canisters=[HI], controls=controls, lenient=True)
    client = asked._client  # type: ignore[attr-defined]
    translation = (await client.access_model(model)).translate(request, streaming=True)
    return translation.value, [str(loss) for loss in translation.losses]


@pytest.mark.parametrize(
    ("provider", "signature", "goes"),
    [("claude", "signed", True), ("gemini", "signed", False), ("claude", None, False)],
)
def test_a_turn_that_began_with_signed_reasoning_goes_on_with_it(
    provider: str, signature: str | None, goes: bool
) -> None:
    origin = Origin(provider=provider, model="m")
    thought = ReasoningContent(text="Hm.", signature=signature)
    canisters = [
        HI,
        AssistantCanister([thought], origin=origin, turn_id="t"),
        InvocationCanister(invocation_id="1", name="f", origin=origin, turn_id="t"),
        ResultCanister("noon", invocation_id="1"),
    ]
    request = Request(canisters=canisters, controls={"reasoning_effort": "low"})
    controls: dict[str, Control] = {BUDGETS.name: BUDGETS}
    found = find_nearest("reasoning_effort", request, controls, "claude")
    assert found == (("reasoning_budget_tokens", 1_024) if goes else None)
    assert bool(find_obstacle(request, "claude")) is not goes


async def test_what_goes_in_its_place_is_told(tmp_path: Path) -> None:
    """With the reason why it does not go itself."""
    body, losses = await translate("openai_conversations", "gpt-5.5", tmp_path, stop=[*"abcdef"])
    assert body["stop"] == [*"abcd"]
    assert losses == [
        "coerced controls.stop: The value at controls.stop may have 4 elements, not 6; "
        "stop is sent as ['a', 'b', 'c', 'd']"
    ]
    body, losses = await translate("anthropic", "claude-sonnet-4-5", tmp_path, temperature=1.7)
    assert body["temperature"] == 1
    assert losses[0].startswith("coerced controls.temperature: ")


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-1"])
@pytest.mark.parametrize(
    "wish", [{"reasoning_effort": "high"}, {"reasoning_budget_tokens": 30_000}], ids=str
)
async def test_a_budget_leaves_room_for_the_answer(
    tmp_path: Path, model: str, wish: dict[str, Any]
) -> None:
    """Be it wished for by itself, or in the place of an effort; Anthropic refuses others."""
    body, _ = await translate("anthropic", model, tmp_path, **wish)
    assert body["max_tokens"] > body["thinking"]["budget_tokens"] >= 1_024
    body, _ = await translate("anthropic", model, tmp_path, max_tokens=40_000, **wish)
    assert body["max_tokens"] == 40_000
