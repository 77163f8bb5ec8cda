"""A response as the body of a server, for gateways."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.calling.messages import MessagesWriter
from vibe_llms.dialects.ollama_chat.calling.parts import PartsWriter
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL
from vibe_llms.dialects.ollama_chat.tables import STOP_REASONS
from vibe_llms.dialects.serving import (
    UNKNOWN_MODEL,
    keeps_native_stop_reason,
    report_merged_usage,
    report_stop_reason,
)
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import INPUT_BUCKETS, OUTPUT_BUCKETS, Origin, StopReason, Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response

_DONE_REASONS: Final = {
    StopReason.ANSWERED: "stop",
    StopReason.INVOCATION: "stop",
    StopReason.LIMIT: "length",
    StopReason.OVERFLOW: "length",
    StopReason.INTERRUPTED: "length",
    StopReason.FAILED: "length",
    StopReason.PAUSED: "length",
}
"""This dialect's name of each stop reason; ``stop`` for any other."""


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the whole body of a response of any vendor, streamed or not.

    The inverse of ``Decoder.decode_response``.
    """
    ledger = Ledger(protocol=PROTOCOL)
    origin = response.metadata.origin
    native = response.metadata.native
    extras = ledger.read_sendable(native, "metadata")
    message = _write_message(response, ledger)
    body: dict[str, Any] = {
        "model": origin.model,
        "created_at": _find_creation_time(response),
        "message": message,
        "done": True,
        **_nativize_reason(origin, ledger, calls=bool(message.get("tool_calls"))),
        **nativize_usage(origin.usage, ledger),
    }
    return Translation(merge(body, extras), ledger.losses)


def _write_message(response: Response, ledger: Ledger) -> JsonObject:
    writer = MessagesWriter.of(PartsWriter(UNKNOWN_MODEL, ledger))
    entries = [
        HistoryEntry(canister, f"canisters[{index}]")
        for index, canister in enumerate(response.canisters)
    ]
    return writer.write_turn(entries) or {"role": "assistant", "content": ""}


def _find_creation_time(response: Response) -> str:
    """Return the time of the response: the time of the first canister."""
    first = next(iter(response.canisters), None)
    return format_time(first.timestamp if first else response.request.canisters[-1].timestamp)


def format_time(moment: datetime) -> str:
    """Format a time as servers do."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _nativize_reason(origin: Origin, ledger: Ledger, *, calls: bool) -> dict[str, str]:
    if keeps_native_stop_reason(origin, PROTOCOL):
        native_reason = origin.native_stop_reason
        return {} if native_reason is None else {"done_reason": native_reason}
    done_reason = _DONE_REASONS.get(origin.stop_reason, "stop")
    understood = STOP_REASONS[done_reason]
    if calls and understood is StopReason.ANSWERED:
        understood = StopReason.INVOCATION
    report_stop_reason(origin, done_reason, understood, ledger)
    return {"done_reason": done_reason}


def nativize_usage(usage: Usage | None, ledger: Ledger) -> dict[str, int]:
    """Return the counts; several buckets are added up to one count, as a loss."""
    if usage is None:
        return {}
    counts: dict[str, int] = {}
    totals = (
        ("prompt_eval_count", usage.total_input_tokens, INPUT_BUCKETS),
        ("eval_count", usage.total_output_tokens, OUTPUT_BUCKETS),
    )
    for field, total, buckets in totals:
        if total is not None:
            counts[field] = total
        report_merged_usage(usage, dict.fromkeys(buckets[1:], field), ledger)
    return counts
