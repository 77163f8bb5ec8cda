"""Usage of this protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.buckets import read_count
from vibe_llms.dialects.extras import write_json
from vibe_llms.messages.canisters import Usage

USAGE_FIELDS: Final = frozenset({"prompt_eval_count", "eval_count"})
"""The fields of a response that count tokens; the others measure time."""


def normalize_usage(native: Mapping[str, Any]) -> Usage | None:
    """Return the usage; ``None`` without counts.

    A server omits the input count if all of the input was in its cache: the count is then unknown,
    not zero.
    """
    counts = {name: native[name] for name in sorted(USAGE_FIELDS) if native.get(name) is not None}
    if not counts:
        return None
    return Usage(
        input_tokens=read_count(counts, "prompt_eval_count"),
        output_tokens=read_count(counts, "eval_count"),
        native=write_json(counts),
    )
