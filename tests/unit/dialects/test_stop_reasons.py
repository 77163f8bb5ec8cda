"""Why an answer ended is written in a protocol's own word, or its change is told."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from vibe_llms.dialects import chat_completions, generate_content, messages, ollama_chat, responses
from vibe_llms.exceptions import ProviderError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.contents import RefusalContent
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

DIALECTS = [chat_completions, generate_content, messages, ollama_chat, responses]
SAID: dict[str, AnyCanister] = {
    "words": AssistantCanister("Yes.", turn_id="t"),
    "call": InvocationCanister(invocation_id="call_1", name="look", turn_id="t"),
    "refusal": AssistantCanister((RefusalContent("No."),), turn_id="t"),
}
UNFINISHED = (StopReason.FAILED, StopReason.INTERRUPTED, StopReason.PAUSED)

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.PROTOCOL)
each_reason = pytest.mark.parametrize("reason", StopReason)


def answer(said: str, reason: StopReason, protocol: str = "elsewhere") -> Response:
    """Makes a response that ended for a reason."""
    origin = Origin(provider="vendor", model="model", protocol=protocol, stop_reason=reason)
    return Response(
        request=Request(canisters=[UserCanister("Well?")]),
        canisters=[SAID[said]],
        metadata=ResponseMetadata(origin=origin, duration_seconds=1.0),
    )


def read(dialect: ModuleType, body: Any) -> StopReason:
    """Returns what a client of the protocol takes for the reason."""
    try:
        events = dialect.Decoder(provider="gateway").decode_response(body)
    except ProviderError:
        return StopReason.FAILED
    reason: StopReason = events[-1].stop_reason
    return reason


@pytest.mark.slow
@each_dialect
@each_reason
@pytest.mark.parametrize("said", SAID)
def test_whoever_reads_it_takes_it_for_what_it_is_or_is_told(
    dialect: ModuleType, reason: StopReason, said: str
) -> None:
    """Either the word reads as the reason, or there is exactly one loss that says it does not."""
    translation = dialect.nativize_response(answer(said, reason))

    losses = [loss for loss in translation.losses if "stop_reason" in loss.path]
    understood = read(dialect, translation.value)
    assert [loss.kind for loss in losses] == [LossKind.COERCED] * (understood is not reason)


@each_dialect
@pytest.mark.parametrize("reason", UNFINISHED)
def test_what_is_not_whole_does_not_look_whole(dialect: ModuleType, reason: StopReason) -> None:
    """A failed, interrupted or paused answer is never taken for one that came to its end."""
    body = dialect.nativize_response(answer("words", reason)).value

    assert read(dialect, body) not in (StopReason.ANSWERED, StopReason.STOP_SEQUENCE)


@each_dialect
def test_a_stream_that_was_left_does_not_look_whole(dialect: ModuleType) -> None:
    """Nor where it was of the same protocol, whose vendor had not come to say why it ends."""
    left = answer("words", StopReason.INTERRUPTED, protocol=dialect.PROTOCOL)

    translation = dialect.nativize_response(left)

    assert read(dialect, translation.value) is not StopReason.ANSWERED
