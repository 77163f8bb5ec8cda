"""A turn that is not an answer counts as one nowhere: the same rule for all instruments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import say
from support.runs.scripting import produce_model, write_script
from vibe_llms import Engine, Model
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.engine.states import Reason
from vibe_llms.exceptions import ConverseError, LimitError, ParseError, ProviderError
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.messages.views import text_of

THOUGHT = {"reasoning": "Hm."}

FAILURES = [
    ([], "failed", Reason.FAILED, ProviderError),
    ([THOUGHT], "failed", Reason.FAILED, ProviderError),
    ([say("Half")], "failed", Reason.FAILED, ProviderError),
    ([], "filtered", Reason.REFUSED, ProviderError),
    ([], "refused", Reason.REFUSED, ProviderError),
    ([THOUGHT], "limit", Reason.LIMIT, LimitError),
    ([], "overflow", Reason.LIMIT, ConverseError),
    ([], "unknown", Reason.FAILED, ProviderError),
    ([say("Half")], "unknown", Reason.FAILED, ProviderError),  # the vendor's word is "unknown"
    ([], "paused", Reason.FAILED, ProviderError),
]
"""What a turn brings, why it ends, and what that is to a run, and to a batch."""

PARTS = [
    ([say("Half")], "limit", Reason.LIMIT),
    ([say("Half")], "filtered", Reason.REFUSED),
    ([say("Half")], "overflow", Reason.LIMIT),
]
"""Turns with a part of an answer."""

each_failure = pytest.mark.parametrize(("said", "stop", "reason", "error"), FAILURES)
each_part = pytest.mark.parametrize(("said", "stop", "reason"), PARTS)


def turn(said: Sequence[Any], stop: str) -> dict[str, Any]:
    return {"contents": list(said), "stop_reason": stop}


@pytest.fixture
def address(tmp_path: Path, said: Sequence[Any], stop: str) -> str:
    """The address of a model whose first turn is not an answer, unlike those after it."""
    first, second = turn(said, stop), turn([say("Yes.")], "answered")
    return f"scripted:{write_script(tmp_path, first, second)}"


@each_failure
async def test_an_engine_says_what_it_came_to(
    said: Sequence[Any], stop: str, reason: Reason, error: type[ConverseError]
) -> None:
    """Where the turn failed, after it was asked for three times; but for an unknown ending."""
    model = produce_model(turn(said, stop), turn([say("Yes.")], "answered"))

    outcome = await Engine(model).answer("Well?")

    assert (outcome.reason, outcome.is_answered) == (reason, False)
    assert outcome.shortfall is not None
    assert outcome.detail == outcome.shortfall.detail
    is_over = reason is not Reason.FAILED or (outcome.text and stop == "unknown")
    assert outcome.readings.steps == (1 if is_over else 3)
    assert isinstance(outcome.error, ProviderError) == (reason is Reason.FAILED)


@each_part
async def test_an_engine_knows_a_part_of_an_answer(
    said: Sequence[Any], stop: str, reason: Reason
) -> None:
    outcome = await Engine(produce_model(turn(said, stop))).answer("Well?")

    assert (outcome.reason, outcome.text, outcome.error) == (reason, "Half", None)


async def test_a_turn_that_failed_is_asked_for_again_by_the_next_run() -> None:
    """What had come of it is not sent: the same question has the same answer."""
    engine = Engine(produce_model(turn([say("Half")], "failed"), turn([say("Yes.")], "answered")))
    outcome = await engine.answer("Well?")

    again = await engine.answer(outcome.conversation)

    assert (again.reason, again.readings.steps) == (Reason.FAILED, 3)
    told = [text_of(each) for each in again.conversation.canisters]
    assert told == ["Well?", *["Half"] * 6]


@pytest.mark.parametrize("said", [[], [say("Half")], [THOUGHT]])
async def test_a_turn_that_failed_once_does_not_end_a_run(
    said: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as of a call that its vendor could not read."""
    model = produce_model(turn(said, "failed"), turn([say("Yes.")], "answered"))
    play, sent = model.send, 0

    async def send(native: Any, request: Any, *, streaming: bool) -> Any:
        nonlocal sent
        sent += 1
        other = produce_model(turn([say("Yes.")], "answered"))
        source = model if sent == 1 else other
        return await (play if sent == 1 else source.send)(native, request, streaming=streaming)

    monkeypatch.setattr(model, "send", send)

    outcome = await Engine(model).answer("Well?")

    assert (outcome.reason, outcome.text, sent) == (Reason.ANSWERED, "Yes.", 2)


async def test_a_model_that_completes_its_turn_without_a_word_has_answered() -> None:
    outcome = await Engine(produce_model(turn([], "answered"))).answer("Well?")

    assert (outcome.reason, outcome.detail) == (Reason.ANSWERED, "The model returned nothing.")


@each_failure
async def test_a_model_says_that_it_has_not_answered(
    address: str, said: Sequence[Any], stop: str, reason: Reason, error: type[ConverseError]
) -> None:
    response = await Model(address).ask("Well?")

    assert not response.is_answered
    assert response.shortfall is not None
    assert response.shortfall.is_failure
    assert response.shortfall.reason == reason


@each_part
async def test_a_model_knows_a_part_of_an_answer(
    address: str, said: Sequence[Any], stop: str, reason: Reason
) -> None:
    response = await Model(address).ask("Well?")

    assert (response.is_answered, response.text) == (False, "Half")
    assert response.shortfall is not None
    assert not response.shortfall.is_failure


@each_failure
async def test_a_channel_has_no_value(
    said: Sequence[Any], stop: str, reason: Reason, error: type[ConverseError]
) -> None:
    channel = AsyncChannel(produce_model(turn(said, stop)))
    if reason is Reason.FAILED:
        with pytest.raises(ProviderError):
            await channel.ask("Well?")
        return

    reply = await channel.ask("Well?")

    assert not reply.has_value
    with pytest.raises(ParseError, match="The reply has no value: "):
        _ = reply.value


@each_failure
async def test_a_batch_counts_a_failure_and_asks_again(
    tmp_path: Path,
    address: str,
    said: Sequence[Any],
    stop: str,
    reason: Reason,
    error: type[ConverseError],
) -> None:
    """With what it cost; the next run asks once more where it is told to."""
    journal = tmp_path / "out.jsonl"

    (item,) = [each async for each in BatchChannel(Model(address), journal=journal).run(["Well?"])]
    assert isinstance(item.error, error)
    assert item.origin is not None
    assert item.text is None

    again = BatchChannel(Model(address), journal=journal, retry_failed=True)
    (item,) = [each async for each in again.run(["Well?"])]
    assert not item.is_stored


@each_part
async def test_a_batch_keeps_a_part_of_an_answer(
    address: str, said: Sequence[Any], stop: str, reason: Reason
) -> None:
    (item,) = [each async for each in BatchChannel(Model(address)).run(["Well?"])]

    assert (item.error, item.text) == (None, "Half")
    assert item.origin is not None
    assert item.origin.stop_reason == stop
