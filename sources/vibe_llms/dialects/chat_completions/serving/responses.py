"""A response as the body of a vendor of this dialect, for gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.chat_completions.calling.parts import PartsWriter
from vibe_llms.dialects.chat_completions.calling.turns import TurnWriter
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.chat_completions.tables import STOP_REASONS
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import encode_payload
from vibe_llms.dialects.serving import (
    UNKNOWN_MODEL,
    keeps_native_stop_reason,
    nativize_openai_usage,
    repeat_usage,
    report_stop_reason,
)
from vibe_llms.dialects.signatures import wrap_response
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    StopReason,
)
from vibe_llms.messages.contents import AudioContent, Citation, ImageContent, TextualContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response
from vibe_llms.messages.texts import BOUNDARY
from vibe_llms.messages.views import list_plain_texts

_FINISH_REASONS: Final = {
    StopReason.FAILED: "length",
    StopReason.FILTERED: "content_filter",
    StopReason.INTERRUPTED: "length",
    StopReason.INVOCATION: "tool_calls",
    StopReason.LIMIT: "length",
    StopReason.OVERFLOW: "length",
    StopReason.PAUSED: "length",
}
"""This dialect's name of each stop reason; ``stop`` for any other."""
_QUIRKS: Final = Quirks(reasoning_field="reasoning_content")


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the whole body of a response.

    A response decoded from this protocol is returned unchanged; for others, the losses list what
    this protocol cannot represent.
    """
    response = wrap_response(response, PROTOCOL)
    metadata = response.metadata
    origin = metadata.origin
    ledger = Ledger(protocol=PROTOCOL)
    extras = ledger.read_sendable(metadata.native, "metadata")
    first_choice, *other_choices = extras.pop("choices", [{}])
    message = _write_message(response, ledger)
    first = {"index": 0, "message": message}
    first["finish_reason"] = _find_finish_reason(origin, message, ledger)
    body: dict[str, Any] = {"id": origin.response_id or _make_response_id(response)}
    body |= {
        "object": "chat.completion",
        "created": _find_creation_time(response),
        "model": origin.model,
    }
    body["choices"] = [merge(first, first_choice), *other_choices]
    if origin.usage is not None:
        names = {"input_name": "prompt_tokens", "output_name": "completion_tokens"}
        body["usage"] = repeat_usage(origin, PROTOCOL) or nativize_openai_usage(
            origin.usage, **names, ledger=ledger
        )
    return Translation(merge(body, extras), ledger.losses)


def _write_message(response: Response, ledger: Ledger) -> dict[str, Any]:
    canisters = response.canisters
    if len(canisters) == 1 and type(canisters[0]) is AssistantCanister:
        text = list_plain_texts(canisters)[0]
        if text:
            return {"role": "assistant", "content": text}
    turn = []
    for index, canister in enumerate(canisters):
        path = f"canisters[{index}]"
        owner = getattr(canister, "owner", Owner.OURS)
        if isinstance(canister, (AssistantCanister, InvocationCanister)) and owner is Owner.OURS:
            turn.append(HistoryEntry(canister, path))
        else:
            ledger.withhold(path, "this protocol cannot represent calls that a vendor executed")
    return _AnswerWriter(PartsWriter(UNKNOWN_MODEL, _QUIRKS, ledger)).write(turn)


class _AnswerWriter(TurnWriter):
    """Writes contents that requests do not have: citations, generated images and audio."""

    def cite(self, content: TextualContent, path: str, canister: AnyCanister) -> None:
        for index, citation in enumerate(content.citations):
            annotation = self._write_citation(citation, f"{path}.citations[{index}]", canister)
            if "search_results" not in annotation:
                self.fields.setdefault("annotations", []).append(annotation)

    def _write_citation(
        self, citation: Citation, path: str, canister: AnyCanister
    ) -> Mapping[str, Any]:
        if extras := self.parts.ledger.read_sendable(citation.native, path, canister):
            return extras
        begin, end = self._find_span()
        if citation.start is not None or citation.end is not None:
            end = begin + (citation.end or 0)
            begin += citation.start or 0
        source = {
            "start_index": begin,
            "end_index": end,
            "title": citation.title or "",
            "url": citation.url or "",
        }
        if citation.url is None or citation.cited_text is not None:
            reason = "an annotation has only a span, a title and a URL"
            self.parts.ledger.coerce(path, reason)
        return {"type": "url_citation", "url_citation": source}

    def _find_span(self) -> tuple[int, int]:
        """Return the span of the last text in the single text of the message."""
        texts = [str(part.get("text", "")) for part in self._content]
        end = sum(map(len, texts)) + len(BOUNDARY) * len(self._separated_positions)
        return end - len(texts[-1]), end

    def is_generated_image(self, content: ImageContent, path: str, canister: AnyCanister) -> bool:
        is_theirs = not self.parts.ledger.admits(content.native, canister)
        return is_theirs or super().is_generated_image(content, path, canister)

    def has_audio_field(self, content: AudioContent) -> bool:
        return True

    def add_audio(self, content: AudioContent, path: str, canister: AnyCanister) -> None:
        audio: dict[str, Any] = {
            "id": content.file_id or canister.id,
            "data": encode_payload(content, path),
            "transcript": content.transcript or "",
            "expires_at": 0,
        }
        self.fields["audio"] = audio | self.parts.ledger.read_sendable(
            content.native, path, canister
        )


def _find_finish_reason(origin: Origin, message: Mapping[str, Any], ledger: Ledger) -> str | None:
    """Return the finish reason; unchanged if the vendor uses this protocol."""
    if keeps_native_stop_reason(origin, PROTOCOL):
        return origin.native_stop_reason
    finish_reason = _FINISH_REASONS.get(origin.stop_reason, "stop")
    if origin.stop_reason is StopReason.REFUSED and not message.get("refusal"):
        finish_reason = "content_filter"
    understood = STOP_REASONS[finish_reason]
    if finish_reason == "stop" and message.get("tool_calls"):
        understood = StopReason.INVOCATION
    elif finish_reason == "stop" and message.get("refusal"):
        understood = StopReason.REFUSED
    report_stop_reason(origin, finish_reason, understood, ledger)
    return finish_reason


def _make_response_id(response: Response) -> str:
    return f"chatcmpl-{response.canisters[0].id}" if response.canisters else "chatcmpl-0"


def _find_creation_time(response: Response) -> int:
    return int(response.canisters[0].timestamp.timestamp()) if response.canisters else 0
