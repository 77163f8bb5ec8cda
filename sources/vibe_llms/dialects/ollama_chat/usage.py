"""The server's account of tokens, both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.canisters import INPUT_BUCKETS, OUTPUT_BUCKETS, Usage

USAGE_FIELDS: Final = frozenset({"prompt_eval_count", "eval_count"})
"""The fields of a response which count tokens; the others measure time."""


def normalize_usage(native: Mapping[str, Any]) -> Usage | None:
    """Returns the usage; ``None`` where nothing is counted.

    A server leaves the input out where it was all in its cache: that is not known, not zero.
    """
    said = {name: native[name] for name in sorted(USAGE_FIELDS) if native.get(name) is not None}
    if not said:
        return None
    return Usage(
        input_tokens=_count(said.get("prompt_eval_count")),
        output_tokens=_count(said.get("eval_count")),
        native=msgspec.json.encode(said).decode("utf-8"),
    )


def nativize_usage(usage: Usage | None, ledger: Ledger) -> dict[str, int]:
    """Returns the counts; several buckets are one count here, as a loss."""
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
        for bucket in buckets[1:]:
            if getattr(usage, bucket) is not None:
                ledger.coerce(f"usage.{bucket}", f"it is counted within {field}")
    return counts


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None  # type: ignore[return-value]  # just told
