"""The embedded model acts: it invokes by its grammar, reads the result, and answers."""

from __future__ import annotations

from typing import Literal

import pytest

from vibe_llms.engine.states import Reason
from vibe_llms.instruments.engines import Engine
from vibe_llms.invocables import invocable
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.views import text_of
from vibe_llms.providers.interfaces import ConverserModel

pytestmark = pytest.mark.weights


@invocable(effect="pure")
def weather(city: Literal["Rome", "Oslo", "Paris"]) -> str:
    """Tells the weather in a city."""
    return f"It rains in {city}."


@pytest.mark.parametrize("stream", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_a_real_model_invokes_reads_and_answers(
    local_model: ConverserModel, stream: bool
) -> None:
    """Two generations and an execution between them, all of it real."""
    engine = Engine(
        local_model,
        [weather],
        stream=stream,
        invocation_choice="required",
        controls={"max_tokens": 60, "temperature": 0},
    )

    outcome = await engine.answer("How is the weather in Rome? Use the tool.")

    invocation = outcome.canisters[0]
    assert isinstance(invocation, InvocationCanister)
    assert invocation.fault is None
    result = outcome.canisters[1]
    assert isinstance(result, ResultCanister)
    assert not result.is_error
    assert text_of(result).startswith("It rains in ")
    assert outcome.reason is Reason.ANSWERED
    assert outcome.text
    assert [str(loss.kind) for loss in outcome.losses if loss.path == "invocation_choice"] == [
        "coerced"
    ]
