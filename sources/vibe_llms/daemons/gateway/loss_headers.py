"""The header, and trailer, that reports the losses of a translation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from vibe_llms.messages.losses import Loss, rank_losses

LOSSES_HEADER: Final = "x-vibe-losses"
_LOSSES_BYTES: Final = 4_096
"""Longest value; most clients refuse longer headers. The log has all losses."""


def write_ranked(losses: Iterable[Loss]) -> str:
    """Return the header's value, most serious losses first; empty without losses."""
    texts = [str(loss) for loss in rank_losses(losses)]
    return write_losses(texts) if texts else ""


def write_losses(texts: list[str]) -> str:
    """Return a JSON list of texts in ASCII; those that do not fit are only counted."""
    if sum(map(len, texts)) <= _LOSSES_BYTES and len(text := _write_ascii(texts)) <= _LOSSES_BYTES:
        return text
    free, kept = _LOSSES_BYTES - len(json.dumps([f"and {len(texts)} more"])), list[str]()
    for each in texts:
        free -= len(_write_ascii(each)) + len(", ")
        if free < 0:
            break
        kept.append(each)
    return _write_ascii([*kept, f"and {len(texts) - len(kept)} more"])


def _write_ascii(value: object) -> str:
    # JSON may contain the character DEL; a header may not.
    return json.dumps(value).replace("\x7f", "\\u007f")
