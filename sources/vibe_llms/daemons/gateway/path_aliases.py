"""Alternative paths of clients whose base URL was written for a vendor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_PREFIXES: Final = ("/openai/v1", "/v1beta/openai", "/openai", "/v1beta/v1beta", "/v1/v1", "")
"""Prefixes that clients send in place of ``/v1``: those of Azure and Gemini for OpenAI's clients, a
version that both the base URL and the library contain, and no prefix at all."""

_VERTEX: Final = re.compile(
    r"/v1(?:beta1)?/(?:projects/[^/]+/locations/[^/]+/)?publishers/google/(models/.+)"
)
"""Paths of Gemini's clients in Google Cloud."""

_SLASHES: Final = re.compile("/{2,}")


def survey_aliases(path: str) -> Iterator[str]:
    """Yield the known paths that an unknown path may stand for."""
    plain = _SLASHES.sub("/", path).rstrip("/")
    if plain != path:
        yield plain
    if (match := _VERTEX.fullmatch(plain)) is not None:
        yield f"/v1beta/{match[1]}"
    for prefix in _PREFIXES:
        if plain.startswith(f"{prefix}/"):
            rest = plain.removeprefix(prefix)
            yield f"/v1beta{rest}" if prefix == "/v1beta/v1beta" else f"/v1{rest}"
