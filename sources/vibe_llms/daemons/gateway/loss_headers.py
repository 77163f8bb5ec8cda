"""The header, and trailer, that reports the losses of a translation."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Final

from vibe_llms.messages.losses import Loss, rank_losses

LOSSES_HEADER: Final = "x-vibe-losses"
_LOSSES_BYTES: Final = 4_096
"""Longest value; most clients refuse longer headers. The log has all losses."""


_FEW: Final = 4
"""Up to so many losses, the value is cached: most requests for a model have the same ones."""


def write_ranked(losses: Iterable[Loss]) -> str:
    """Return the header's value, most serious losses first; empty without losses."""
    losses = tuple(losses)
    return _write_few(losses) if len(losses) <= _FEW else _rank_and_write(losses)


def _rank_and_write(losses: tuple[Loss, ...]) -> str:
    texts = [str(loss) for loss in rank_losses(losses)]
    return write_losses(texts) if texts else ""


_write_few: Final = functools.lru_cache(maxsize=64)(_rank_and_write)


def write_losses(texts: list[str]) -> str:
    """Return a JSON list of texts in ASCII; texts beyond the limit are only counted."""
    if sum(map(len, texts)) <= _LOSSES_BYTES:  # a quick check: encoded texts are never shorter
        value = _write_ascii(texts)
        if len(value) <= _LOSSES_BYTES:
            return value
    included: list[str] = []
    free_bytes = _LOSSES_BYTES - len(json.dumps([f"and {len(texts)} more"]))
    for text in texts:
        free_bytes -= len(_write_ascii(text)) + len(", ")
        if free_bytes < 0:
            break
        included.append(text)
    return _write_ascii([*included, f"and {len(texts) - len(included)} more"])


def _write_ascii(value: object) -> str:
    # A JSON string may contain the character DEL; a header may not.
    return json.dumps(value).replace("\x7f", "\\u007f")
