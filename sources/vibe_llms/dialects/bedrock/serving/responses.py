"""Translation of a whole response to a body of this dialect, for clients."""

from __future__ import annotations

from typing import Any, Final

from vibe_llms.dialects.bedrock.calling.blocks import Block, BlocksWriter
from vibe_llms.dialects.bedrock.calling.messages import write_execution, write_invocation
from vibe_llms.dialects.bedrock.calling.usage import LONG
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.bedrock.tables import STOP_REASONS
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.serving import (
    keeps_native_stop_reason,
    repeat_usage,
    report_merged_usage,
    report_stop_reason,
    report_unknown_usage,
)
from vibe_llms.dialects.signatures import is_wrapped, wrap_response
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response

_STOP_REASON_NAMES: Final = {
    StopReason.ANSWERED: "end_turn",
    StopReason.FAILED: "malformed_model_output",
    StopReason.FILTERED: "content_filtered",
    StopReason.INTERRUPTED: "max_tokens",
    StopReason.INVOCATION: "tool_use",
    StopReason.LIMIT: "max_tokens",
    StopReason.OVERFLOW: "model_context_window_exceeded",
    StopReason.PAUSED: "max_tokens",
    StopReason.REFUSED: "content_filtered",
    StopReason.STOP_SEQUENCE: "stop_sequence",
}
"""This dialect's name of each stop reason; ``end_turn`` for any other."""

_MERGED_BUCKETS: Final = {
    "input_audio_tokens": "inputTokens",
    "output_audio_tokens": "outputTokens",
    "reasoning_tokens": "outputTokens",
}


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the body of an answer: the inverse of the decoder and the assembler."""
    response = wrap_response(response, PROTOCOL)
    ledger = Ledger(protocol=PROTOCOL)
    origin = response.metadata.origin
    content: list[Block] = []
    blocks = produce_blocks_writer(ledger)
    for index, canister in enumerate(response.canisters):
        content += write_canister(canister, f"canisters[{index}]", blocks)
    extras = ledger.read_sendable(response.metadata.native, "metadata")
    body = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _find_stop_reason(origin, content, ledger),
        "usage": repeat_usage(origin, PROTOCOL) or nativize_usage(origin.usage, ledger),
        "metrics": {"latencyMs": round(response.metadata.duration_seconds * 1000)},
        **extras,
    }
    return Translation(body, ledger.losses)


def produce_blocks_writer(ledger: Ledger) -> BlocksWriter:
    """Return the writer for the blocks of an answer."""
    return _ResponseBlocksWriter(ledger=ledger, is_answer=True)


def write_canister(canister: AnyCanister, path: str, blocks: BlocksWriter) -> list[Block]:
    """Return the blocks of a canister of an answer."""
    match canister:
        case AssistantCanister():
            # Only to record the losses: a message has no field for native data.
            blocks.ledger.read_sendable(canister.native, path, canister)
            return blocks.write(canister.content, path, canister)
        case InvocationCanister(owner=Owner.OURS):
            return write_invocation(canister, path, blocks.ledger)
        case InvocationCanister() | ResultCanister(owner=Owner.VENDOR):
            return write_execution(canister, path, blocks.ledger)
    blocks.ledger.drop(path, f"a response cannot contain a {canister.role} canister")
    return []


class _ResponseBlocksWriter(BlocksWriter):
    """Writes the reasoning of any vendor; only its signature is withheld."""

    def _write_reasoning(
        self, content: ReasoningContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        if self.ledger.admits(content.native, canister):
            return super()._write_reasoning(content, path, canister)
        signature = content.signature if is_wrapped(content.signature) else ""
        if content.signature and not signature:
            self.ledger.withhold(f"{path}.signature", "the signature belongs to another vendor")
        text = content.text or "\n\n".join(content.summary)
        if content.text and content.summary:
            self.ledger.withhold(f"{path}.summary", "reasoning has no summary in this protocol")
        elif content.summary:
            self.ledger.coerce(f"{path}.summary", "the summary is sent as the reasoning")
        if not text and not signature:
            return None
        signed = {"signature": signature} if signature else {}
        return {"reasoningContent": {"reasoningText": {"text": text, **signed}}}


def _find_stop_reason(origin: Origin, content: list[Block], ledger: Ledger) -> str | None:
    if keeps_native_stop_reason(origin, PROTOCOL):
        return origin.native_stop_reason
    word = _STOP_REASON_NAMES.get(origin.stop_reason, "end_turn")
    stop_reason_of_clients = STOP_REASONS[word]
    calls = any("toolUse" in each and each["toolUse"].get("type") is None for each in content)
    if stop_reason_of_clients is StopReason.ANSWERED and calls:
        stop_reason_of_clients = StopReason.INVOCATION  # as clients expect
    report_stop_reason(origin, word, stop_reason_of_clients, ledger)
    return word


def nativize_usage(usage: Usage | None, ledger: Ledger) -> dict[str, Any]:
    """Return the usage in this dialect's format; unknown counts are 0."""
    usage = usage or Usage()
    report_merged_usage(usage, _MERGED_BUCKETS, ledger)
    report_unknown_usage(usage, "inputTokens", "outputTokens", ledger)
    short, long = usage.cache_write_tokens, usage.cache_write_long_tokens
    native: dict[str, Any] = {
        "inputTokens": (usage.input_tokens or 0) + (usage.input_audio_tokens or 0),
        "outputTokens": usage.total_output_tokens or 0,
        "totalTokens": (usage.total_input_tokens or 0) + (usage.total_output_tokens or 0),
    }
    if usage.cache_read_tokens is not None:
        native["cacheReadInputTokens"] = usage.cache_read_tokens
    if short is not None or long is not None:
        native["cacheWriteInputTokens"] = (short or 0) + (long or 0)
    if long is not None:
        native["cacheDetails"] = [{"ttl": LONG, "inputTokens": long}]
    return native
