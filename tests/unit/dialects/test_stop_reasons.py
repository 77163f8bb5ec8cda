"""The stop reason of an answer is written with a protocol's own name, or its change is a loss."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from vibe_llms.dialects import (
    bedrock,
    chat_completions,
    generate_content,
    messages,
    ollama_chat,
    responses,
)
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

DIALECTS = [bedrock, chat_completions, generate_content, messages, ollama_chat, responses]
CONTENTS: dict[str, AnyCanister] = {
    "words": AssistantCanister("Yes.", turn_id="t"),
    "call": InvocationCanister(invocation_id="call_1", name="look", turn_id="t"),
    "refusal": AssistantCanister((RefusalContent("No."),), turn_id="t"),
}
UNFINISHED = (StopReason.FAILED, StopReason.INTERRUPTED, StopReason.PAUSED)

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.PROTOCOL)
each_reason = pytest.mark.parametrize("reason", StopReason)


def answer(content_kind: str, reason: StopReason, protocol: str = "elsewhere") -> Response:
    """Make a response that ended for a reason."""
    origin = Origin(provider="vendor", model="model", protocol=protocol, stop_reason=reason)
    return Response(
        request=Request(canisters=[UserCanister("Well?")]),
        canisters=[CONTENTS[content_kind]],
        metadata=ResponseMetadata(origin=origin, duration_seconds=1.0),
    )


def read(dialect: ModuleType, body: Any) -> StopReason:
    """Return the stop reason that a client of the protocol reads."""
    try:
        events = dialect.Decoder(provider="gateway").decode_response(body)
    except ProviderError:
        return StopReason.FAILED
    reason: StopReason = events[-1].stop_reason
    return reason


@pytest.mark.slow
@each_dialect
@each_reason
@pytest.mark.parametrize("content_kind", CONTENTS)
def test_the_stop_reason_is_read_the_same_or_its_change_is_reported(
    dialect: ModuleType, reason: StopReason, content_kind: str
) -> None:
    """By exactly one loss."""
    translation = dialect.nativize_response(answer(content_kind, reason))

    losses = [loss for loss in translation.losses if "stop_reason" in loss.path]
    understood = read(dialect, translation.value)
    assert [loss.kind for loss in losses] == [LossKind.COERCED] * (understood is not reason)


@each_dialect
@pytest.mark.parametrize("reason", UNFINISHED)
def test_an_incomplete_answer_does_not_look_complete(
    dialect: ModuleType, reason: StopReason
) -> None:
    """A failed, interrupted or paused answer is not taken for a complete one."""
    body = dialect.nativize_response(answer("words", reason)).value

    assert read(dialect, body) not in (StopReason.ANSWERED, StopReason.STOP_SEQUENCE)


@each_dialect
def test_an_interrupted_stream_does_not_look_complete(dialect: ModuleType) -> None:
    """Also in its own protocol, whose vendor had not sent a reason."""
    left = answer("words", StopReason.INTERRUPTED, protocol=dialect.PROTOCOL)

    translation = dialect.nativize_response(left)

    assert read(dialect, translation.value) is not StopReason.ANSWERED
