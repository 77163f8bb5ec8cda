"""A response as a body of this protocol, for gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.buckets import add_counts
from vibe_llms.dialects.executions import adopt_executions
from vibe_llms.dialects.extras import merge, read_native
from vibe_llms.dialects.generate_content.calling.messages import ContentsWriter
from vibe_llms.dialects.generate_content.calling.parts import SIGNATURE, PartsWriter
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.generate_content.serving.executions import choose_forms
from vibe_llms.dialects.generate_content.tables import normalize_stop
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.serving import (
    keeps_native_stop_reason,
    repeat_usage,
    report_merged_usage,
    report_stop_reason,
)
from vibe_llms.dialects.signatures import is_wrapped, wrap_response
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    Origin,
    Owner,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import AnyContent, ReasoningContent, TextualContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response

_FINISH_REASONS: Final = {
    StopReason.LIMIT: "MAX_TOKENS",
    StopReason.PAUSED: "CONTINUATION",
    StopReason.REFUSED: "SAFETY",
    StopReason.FILTERED: "SAFETY",
    StopReason.OVERFLOW: "MAX_TOKENS",
    StopReason.INTERRUPTED: "OTHER",
    StopReason.FAILED: "MALFORMED_RESPONSE",
    StopReason.UNKNOWN: "OTHER",
}
"""Finish reasons for other vendors' answers; the default is STOP."""


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the whole body of a response of any vendor, and the losses.

    For a response in this protocol it is the inverse of decoding.
    """
    ledger = Ledger(protocol=PROTOCOL)
    native = response.request.native
    is_clients = native is not None and native.protocol == PROTOCOL
    client_request = read_native(native, "request") if native is not None and is_clients else {}
    forms = choose_forms(client_request)
    response = wrap_response(adopt_executions(response, forms, ledger), PROTOCOL)
    origin = response.metadata.origin
    is_ours = origin.protocol == PROTOCOL
    parts = _write_parts(response, ledger)
    extras = ledger.read_sendable(response.metadata.native, "response")
    first, *other_candidates = extras.pop("candidates", [{}])
    reason = _find_finish_reason(origin, parts, ledger)
    body: dict[str, Any] = {}
    blocked = (extras.get("promptFeedback") or {}).get("blockReason")
    # A blocked prompt has no candidate at all.
    if parts or not blocked or blocked != reason:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}}
        candidate |= {} if reason is None else {"finishReason": reason}
        grounding = {} if is_ours else write_grounding(_find_texts(response))
        if grounding:
            candidate["groundingMetadata"] = grounding
        body["candidates"] = [merge(candidate, first), *other_candidates]
    if origin.usage is not None:
        body["usageMetadata"] = repeat_usage(origin, PROTOCOL) or nativize_usage(
            origin.usage, ledger
        )
    body["modelVersion"] = origin.model
    if origin.response_id:
        body["responseId"] = origin.response_id
    return Translation(merge(body, extras), ledger.losses)


def _find_finish_reason(
    origin: Origin, parts: Sequence[Mapping[str, Any]], ledger: Ledger
) -> str | None:
    if keeps_native_stop_reason(origin, PROTOCOL):
        return origin.native_stop_reason
    finish_reason = nativize_stop(origin.stop_reason)
    calls = any("functionCall" in part for part in parts)
    report_stop_reason(origin, finish_reason, normalize_stop(finish_reason, calls=calls), ledger)
    return finish_reason


class _AnswerPartsWriter(PartsWriter):
    """Writes the reasoning of any vendor; citations become grounding metadata, without a loss."""

    def withhold_citations(self, content: TextualContent, path: str) -> None:
        pass

    def write_thought(
        self, content: ReasoningContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        is_own = self.ledger.admits(content.native, canister)
        if is_wrapped(content.signature):
            thought = self.write_thought_text(content, path) or {"text": ""}
            return {"thought": True, **thought, SIGNATURE: content.signature}
        if is_own or not (content.text or content.summary):
            return super().write_thought(content, path, canister)
        self.ledger.read_sendable(content.native, path, canister)
        if content.signature:
            self.ledger.withhold(f"{path}.signature", "the signature belongs to another vendor")
        return {"thought": True, **self.write_thought_text(content, path)}


def write_parts(canister: AnyCanister, path: str, ledger: Ledger) -> list[dict[str, Any]]:
    """Return the parts of one canister of an answer."""
    writer = _produce_writer(ledger)
    writer.write(HistoryEntry(canister, path))
    return [part for content in writer.contents for part in content["parts"]]


def _write_parts(response: Response, ledger: Ledger) -> list[dict[str, Any]]:
    writer = _produce_writer(ledger)
    for index, canister in enumerate(response.canisters):
        writer.write(HistoryEntry(canister, f"canisters[{index}]"))
    return [part for content in writer.contents for part in content["parts"]]


def _produce_writer(ledger: Ledger) -> ContentsWriter:
    parts = _AnswerPartsWriter(attributes=None, quirks=Quirks(), ledger=ledger)
    return ContentsWriter(parts=parts)


def _find_texts(response: Response) -> list[tuple[int, TextualContent]]:
    """Return the texts with their approximate indices among the parts."""
    contents: list[AnyContent | None] = []
    for canister in response.canisters:
        if isinstance(canister, AssistantCanister):
            contents += canister.content
        elif not _is_withheld(canister):  # it is one part
            contents.append(None)
    return [
        (index, content)
        for index, content in enumerate(contents)
        if isinstance(content, TextualContent)
    ]


def _is_withheld(canister: AnyCanister) -> bool:
    """Return whether a vendor's call or result has no part in this protocol."""
    native = canister.native
    is_own = native is not None and native.protocol == PROTOCOL
    return getattr(canister, "owner", Owner.OURS) is Owner.VENDOR and not is_own


def write_grounding(texts: Sequence[tuple[int, TextualContent]]) -> dict[str, Any]:
    """Return the metadata for citations of another vendor; empty without any.

    Args:
        texts: With the index of each text's part.
    """
    chunks: list[dict[str, Any]] = []
    supports: list[dict[str, Any]] = []
    for part_index, content in texts:
        for citation in content.citations:
            source = {
                "uri": citation.url or citation.file_id,
                "title": citation.title,
                "text": citation.cited_text,
            }
            source = {name: value for name, value in source.items() if value is not None}
            kind = "retrievedContext" if citation.cited_text or citation.file_id else "web"
            segment = _write_segment(content.text, citation.start, citation.end)
            if part_index:
                segment["partIndex"] = part_index
            supports.append({"segment": segment, "groundingChunkIndices": [len(chunks)]})
            chunks.append({kind: source})
    return {"groundingChunks": chunks, "groundingSupports": supports} if chunks else {}


def _write_segment(text: str, start: int | None, end: int | None) -> dict[str, Any]:
    if end is None:
        return {}
    begin = start or 0
    before = len(text[:begin].encode("utf-8", "surrogatepass"))
    within = len(text[begin:end].encode("utf-8", "surrogatepass"))
    return {"startIndex": before, "endIndex": before + within, "text": text[begin:end]}


_MERGED: Final = dict.fromkeys(
    ("cache_write_tokens", "cache_write_long_tokens"), "promptTokenCount"
)


def nativize_stop(reason: StopReason) -> str:
    """Return the vendor's finish reason for another vendor's answer."""
    return _FINISH_REASONS.get(reason, "STOP")


def nativize_usage(usage: Usage, ledger: Ledger) -> dict[str, Any]:
    """Return another protocol's usage in the vendor's format."""
    report_merged_usage(usage, _MERGED, ledger)
    fields = {
        "promptTokenCount": usage.total_input_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": add_counts(usage.output_tokens, usage.output_audio_tokens),
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": add_counts(usage.total_input_tokens, usage.total_output_tokens),
        "promptTokensDetails": _write_audio_details(usage.input_audio_tokens),
        "candidatesTokensDetails": _write_audio_details(usage.output_audio_tokens),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _write_audio_details(count: int | None) -> list[dict[str, Any]] | None:
    return None if count is None else [{"modality": "AUDIO", "tokenCount": count}]
