"""Translation of a whole response to a body of this dialect, for clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.citations import nativize_citations
from vibe_llms.dialects.executions import adopt_executions
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.calling.blocks import Block, BlocksWriter
from vibe_llms.dialects.messages.calling.messages import write_execution, write_invocation
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.serving.executions import FORMS, write_foreign_citation
from vibe_llms.dialects.messages.tables import STOP_REASONS
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
from vibe_llms.messages.contents import ReasoningContent, TextualContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response

# Two of the vendor's stop reasons mean a pause; use the more general one.
_STOP_REASON_NAMES: Final = {
    reason: word for word, reason in STOP_REASONS.items() if word != "compaction"
} | {
    StopReason.FAILED: "max_tokens",
    StopReason.FILTERED: "refusal",
    StopReason.INTERRUPTED: "max_tokens",
}
"""This dialect's name of each stop reason; ``end_turn`` for any other."""


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the body of an answer: the inverse of the decoder and the assembler."""
    ledger = Ledger(protocol=PROTOCOL)
    response = wrap_response(adopt_executions(response, FORMS, ledger), PROTOCOL)
    origin = response.metadata.origin
    content: list[Block] = []
    blocks = produce_blocks_writer(ledger)
    for index, canister in enumerate(response.canisters):
        content += write_canister(canister, f"canisters[{index}]", blocks)
    body = {
        "id": origin.response_id or _generate_id(response, ledger),
        "type": "message",
        "role": "assistant",
        "model": origin.model,
        "content": content,
        "stop_reason": _find_stop_reason(origin, content, ledger),
        "stop_sequence": None,
        "usage": repeat_usage(origin, PROTOCOL)
        or nativize_usage(origin.usage, ledger) | _count_executions(content),
        **ledger.read_sendable(response.metadata.native, "metadata"),
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
            return [write_invocation(canister, path, blocks.ledger)]
        case InvocationCanister() | ResultCanister(owner=Owner.VENDOR):
            return write_execution(canister, path, blocks.ledger)
    blocks.ledger.drop(path, f"a response cannot contain a {canister.role} canister")
    return []


class _ResponseBlocksWriter(BlocksWriter):
    """Writes the reasoning and the citations of any vendor; only a signature is withheld."""

    def _write_citations(
        self, content: TextualContent, path: str, canister: AnyCanister | None
    ) -> list[Block]:
        written: list[Block] = []
        for index, citation in enumerate(content.citations):
            place = f"{path}.citations[{index}]"
            native = citation.native
            is_own = native is not None and native.protocol == PROTOCOL
            block = None if is_own else write_foreign_citation(citation)
            if block is None:
                written += nativize_citations((citation,), path, canister, self.ledger)
                continue
            self.ledger.coerce(place, "another vendor's citation is sent without its index")
            written.append(block)
        return written

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
        if text:
            return {"type": "thinking", "thinking": text, "signature": signature}
        return {"type": "redacted_thinking", "data": signature} if signature else None


def _count_executions(content: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the field of the usage with the numbers of searches and visits, if there are any."""
    names = [each["name"] for each in content if each["type"] == "server_tool_use"]
    if not names:
        return {}
    counted = {f"{name}_requests": names.count(name) for name in ("web_search", "web_fetch")}
    return {"server_tool_use": counted}


def _generate_id(response: Response, ledger: Ledger) -> str:
    ledger.synthesize(
        "metadata.origin.response_id",
        "the vendor sent no id of the response; one was generated",
        is_routine=True,
    )
    first = response.canisters[0].id if response.canisters else "empty"
    return f"msg_{first}"


def _find_stop_reason(
    origin: Origin, content: Sequence[Mapping[str, Any]], ledger: Ledger
) -> str | None:
    if keeps_native_stop_reason(origin, PROTOCOL):
        return origin.native_stop_reason
    word = _STOP_REASON_NAMES.get(origin.stop_reason, "end_turn")
    stop_reason_of_clients = STOP_REASONS[word]
    if stop_reason_of_clients is StopReason.ANSWERED and any(
        each["type"] == "tool_use" for each in content
    ):
        stop_reason_of_clients = StopReason.INVOCATION  # as clients expect
    report_stop_reason(origin, word, stop_reason_of_clients, ledger)
    return word


_MERGED_BUCKETS: Final = {
    "input_audio_tokens": "input_tokens",
    "output_audio_tokens": "output_tokens",
}


def nativize_usage(usage: Usage | None, ledger: Ledger) -> dict[str, Any]:
    """Return the usage in this dialect's format; unknown counts are 0."""
    usage = usage or Usage()
    report_merged_usage(usage, _MERGED_BUCKETS, ledger)
    report_unknown_usage(usage, "input_tokens", "output_tokens", ledger)
    short, long = usage.cache_write_tokens, usage.cache_write_long_tokens
    native: dict[str, Any] = {
        "input_tokens": (usage.input_tokens or 0) + (usage.input_audio_tokens or 0),
        "output_tokens": usage.total_output_tokens or 0,
    }
    if usage.cache_read_tokens is not None:
        native["cache_read_input_tokens"] = usage.cache_read_tokens
    if short is not None or long is not None:
        native["cache_creation_input_tokens"] = (short or 0) + (long or 0)
    if long is not None:
        parts = {"ephemeral_5m_input_tokens": short or 0, "ephemeral_1h_input_tokens": long}
        native["cache_creation"] = parts
    if usage.reasoning_tokens is not None:
        native["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return native
