"""Token counts of images: the vendors' published rules, as data of the model's family.

The attribute ``image_tokens`` is a table whose ``rule`` defines the other keys:

- ``patches``: squares of ``size`` pixels cover the image, and each is ``factor`` tokens. A larger
  image is first scaled down until its longer edge is at most ``edge`` and its patches are at most
  ``budget``. ``high_edge`` and ``high_budget`` apply instead with the detail ``high``, ``low_edge``
  with ``low``.
- ``tiles``: scaled into a square of 2048 pixels, then to a shorter edge of 768, covered with
  squares of 512: ``base`` tokens, and ``tile`` for each square; with the detail ``low`` only
  ``base``.
- ``crops``: ``tokens`` for an image whose edges are at most ``small``; a larger image is covered
  with squares of ``size`` pixels, each of which is ``tokens``.
- ``flat``: ``tokens``, whatever its size.

``error`` is the maximum error of the rule, as a part of the count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.sentinels import Absence
from vibe_llms.messages.contents import ImageContent
from vibe_llms.models.measures import ImageSize, measure_image
from vibe_llms.models.tokens import TokenCount

_TYPICAL_SIZE: Final = ImageSize(1024, 1024)
"""Assumed if neither the data nor the size are known: about a thousand tokens by most rules."""

_MIN_GUESS: Final = 85
_MAX_GUESS: Final = 1600
"""Bounds of the guessed tokens of an image."""

_LARGEST_SIZE: Final = ImageSize(8_000, 8_000)
"""Largest image that vendors accept. Source:
https://platform.claude.com/docs/en/build-with-claude/vision,
read 2026-11-26; others have no limit and scale larger images down.
"""


def bound_image(content: ImageContent, rule: JsonValue | Absence) -> int:
    """Return the maximum tokens of an image of unknown size, such as one at a URL.

    Args:
        rule: See :func:`estimate_image`.
    """
    if not isinstance(rule, Mapping):
        count = _guess(_LARGEST_SIZE)
    else:
        count = apply_rule(rule, _LARGEST_SIZE, detail=content.detail or "auto")
    return count.tokens + count.error_tokens


def estimate_image(content: ImageContent, rule: JsonValue | Absence) -> TokenCount:
    """Estimate the tokens of an image by a rule; without a known rule or size the error is large.

    Args:
        content: The image; its data tell its size. Without data it may be of any size.
        rule: The attribute ``image_tokens`` of the model; absent for an unknown one.
    """
    size = measure_image(content.data) if content.data is not None else None
    if not isinstance(rule, Mapping):
        return _guess(size or _TYPICAL_SIZE)
    count = apply_rule(rule, size or _TYPICAL_SIZE, detail=content.detail or "auto")
    return count if size or rule.get("rule") == "flat" else count.widen(1.0)


def apply_rule(rule: JsonObject, size: ImageSize, detail: str = "auto") -> TokenCount:
    """Estimate the tokens of an image of known size by a rule; guess if the rule is unknown."""
    compute = _RULES.get(str(rule.get("rule")))
    if compute is None:
        return _guess(size)
    tokens = compute(rule, size, detail)
    return TokenCount(tokens=tokens).widen(_read(rule, "error", 0.02))


def _guess(size: ImageSize) -> TokenCount:
    """Estimate one token for 750 pixels, which is close for several vendors; others may differ."""
    tokens = size.width * size.height // 750
    tokens = max(_MIN_GUESS, min(tokens, _MAX_GUESS))
    return TokenCount(tokens=tokens).widen(1.0)


def _count_patches(rule: JsonObject, size: ImageSize, detail: str) -> int:
    patch, factor = _read(rule, "size", 32), _read(rule, "factor", 1)
    edge, budget = _read(rule, "edge", math.inf), _read(rule, "budget", math.inf)
    if detail in ("high", "low"):
        edge = _read(rule, f"{detail}_edge", edge)
        budget = _read(rule, f"{detail}_budget", budget)
    width, height = _fit(size, edge)
    if math.ceil(width / patch) * math.ceil(height / patch) > budget:
        # As the vendor computes it: scale to the area of the budget, then further, so that one edge
        # is a multiple of a patch.
        scale = math.sqrt(patch**2 * budget / (width * height))
        columns, rows = width * scale / patch, height * scale / patch
        scale *= min(max(math.floor(columns), 1) / columns, max(math.floor(rows), 1) / rows)
        width, height = width * scale, height * scale
    # Rounded first: by an error in the last digit, ``ceil`` would return one patch more.
    patches = math.ceil(round(width / patch, 6)) * math.ceil(round(height / patch, 6))
    return math.ceil(min(patches, budget) * factor)


def _count_tiles(rule: JsonObject, size: ImageSize, detail: str) -> int:
    base = int(_read(rule, "base", 0))
    if detail == "low":
        return base
    width, height = _fit(size, 2048)
    scale = min(768 / min(width, height), 1.0)
    columns, rows = (math.ceil(round(each * scale / 512, 6)) for each in (width, height))
    return base + int(_read(rule, "tile", 0)) * columns * rows


def _count_crops(rule: JsonObject, size: ImageSize, detail: str) -> int:
    tokens = int(_read(rule, "tokens", 0))
    if max(size) <= _read(rule, "small", 384):
        return tokens
    crop = _read(rule, "size", 768)
    return tokens * math.ceil(size.width / crop) * math.ceil(size.height / crop)


def _count_flat(rule: JsonObject, size: ImageSize, detail: str) -> int:
    return int(_read(rule, "tokens", 0))


_RULES: Final = {
    "patches": _count_patches,
    "tiles": _count_tiles,
    "crops": _count_crops,
    "flat": _count_flat,
}


def _fit(size: ImageSize, edge: float) -> tuple[float, float]:
    """Scale rows until the longer edge fits."""
    scale = min(edge / max(size), 1.0)
    return max(size.width * scale, 1.0), max(size.height * scale, 1.0)


def _read(rule: JsonObject, key: str, default: float) -> float:
    value = rule.get(key, default)
    return value if isinstance(value, (int, float)) else default
