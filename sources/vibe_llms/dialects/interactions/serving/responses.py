"""A response as an interaction, for gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.buckets import add_counts
from vibe_llms.dialects.executions import adopt_executions
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.interactions.calling.contents import StepContentsWriter
from vibe_llms.dialects.interactions.calling.messages import StepsWriter
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.serving.executions import FORMS
from vibe_llms.dialects.interactions.tables import STOP_REASONS
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.serving import (
    keeps_native_stop_reason,
    repeat_usage,
    report_merged_usage,
    report_stop_reason,
)
from vibe_llms.dialects.signatures import wrap_response
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister, Origin, StopReason, Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response

_STATUSES: Final = {
    StopReason.FILTERED: "incomplete",
    StopReason.FAILED: "incomplete",
    StopReason.INTERRUPTED: "cancelled",
    StopReason.INVOCATION: "requires_action",
    StopReason.LIMIT: "incomplete",
    StopReason.OVERFLOW: "incomplete",
    StopReason.PAUSED: "requires_continuation",
    StopReason.UNKNOWN: "incomplete",
}
"""Statuses for other vendors' answers; the default is ``completed``."""

_MERGED: Final = dict.fromkeys(
    ("cache_write_tokens", "cache_write_long_tokens"), "total_input_tokens"
)


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the whole body of a response of any vendor, and the losses.

    For a response in this protocol it is the inverse of decoding.
    """
    ledger = Ledger(protocol=PROTOCOL)
    response = wrap_response(adopt_executions(response, FORMS, ledger), PROTOCOL)
    writer = produce_writer(ledger)
    for index, canister in enumerate(response.canisters):
        writer.write(HistoryEntry(canister, f"canisters[{index}]"))
    body = compose_interaction(response, ledger)
    return Translation({**body, "steps": writer.steps}, ledger.losses)


def compose_interaction(response: Response, ledger: Ledger) -> dict[str, Any]:
    """Return an interaction without its steps, as at the end of a stream."""
    origin = response.metadata.origin
    extras = ledger.read_sendable(response.metadata.native, "response")
    body: dict[str, Any] = {
        "id": origin.response_id or "",
        "object": "interaction",
        "model": origin.model,
        "status": _find_status(origin, ledger),
    }
    if origin.usage is not None:
        body["usage"] = repeat_usage(origin, PROTOCOL) or nativize_usage(origin.usage, ledger)
    return merge(body, extras)


def _find_status(origin: Origin, ledger: Ledger) -> str:
    if keeps_native_stop_reason(origin, PROTOCOL) and origin.native_stop_reason:
        return origin.native_stop_reason
    status = _STATUSES.get(origin.stop_reason, "completed")
    report_stop_reason(origin, status, STOP_REASONS[status], ledger)
    return status


def produce_writer(ledger: Ledger) -> StepsWriter:
    """Make the writer of an answer's steps, which writes the thoughts of any vendor."""
    contents = StepContentsWriter(attributes=None, ledger=ledger)
    return StepsWriter(contents=contents, keeps_thoughts=True)


def write_steps(canister: AnyCanister, path: str, ledger: Ledger) -> list[dict[str, Any]]:
    """Return the steps of one canister of an answer."""
    writer = produce_writer(ledger)
    writer.write(HistoryEntry(canister, path))
    return writer.steps


def nativize_usage(usage: Usage, ledger: Ledger) -> dict[str, Any]:
    """Return another protocol's usage in the vendor's format."""
    report_merged_usage(usage, _MERGED, ledger)
    fields: Mapping[str, Any] = {
        "total_input_tokens": usage.total_input_tokens,
        "total_cached_tokens": usage.cache_read_tokens,
        "total_output_tokens": add_counts(usage.output_tokens, usage.output_audio_tokens),
        "total_thought_tokens": usage.reasoning_tokens,
        "total_tokens": add_counts(usage.total_input_tokens, usage.total_output_tokens),
        "input_tokens_by_modality": _write_audio(usage.input_audio_tokens),
        "output_tokens_by_modality": _write_audio(usage.output_audio_tokens),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _write_audio(count: int | None) -> list[dict[str, Any]] | None:
    return None if count is None else [{"modality": "audio", "tokens": count}]
