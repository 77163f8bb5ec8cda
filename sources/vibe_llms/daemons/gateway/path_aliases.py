"""Where clients look for us whose base URL was written for somebody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ELSEWHERE: Final = ("/openai/v1", "/v1beta/openai", "/openai", "/v1beta/v1beta", "/v1/v1", "")
"""What stands in the place of ``/v1``: Azure's paths and Gemini's for OpenAI's clients, a version
that both the base URL and the library have written, and none at all."""

_VERTEX: Final = re.compile(
    r"/v1(?:beta1)?/(?:projects/[^/]+/locations/[^/]+/)?publishers/google/(models/.+)"
)
"""Where Gemini's clients find a model in Google's cloud."""

_SLASHES: Final = re.compile("/{2,}")


def survey_spellings(path: str) -> Iterator[str]:
    """Yields the paths of ours that a path may stand for, which is none of them itself."""
    plain = _SLASHES.sub("/", path).rstrip("/")
    if plain != path:
        yield plain
    if (found := _VERTEX.fullmatch(plain)) is not None:
        yield f"/v1beta/{found[1]}"
    for prefix in _ELSEWHERE:
        if plain.startswith(f"{prefix}/"):
            rest = plain.removeprefix(prefix)
            yield f"/v1beta{rest}" if prefix == "/v1beta/v1beta" else f"/v1{rest}"
