"""Which path is whose: any path that ends as a vendor's does, whatever stands before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

import attrs

from vibe_llms.testing.simulator import (
    chat_completions,
    generate_content,
    messages,
    ollama,
    responses,
)
from vibe_llms.testing.simulator.faces import Face
from vibe_llms.values import frozen

CHAT = cast(Face, chat_completions)
RESPONSES = cast(Face, responses)
MESSAGES = cast(Face, messages)
GEMINI = cast(Face, generate_content)
OLLAMA = cast(Face, ollama)


@frozen
class Route:
    """What a path is for.

    Attributes:
        face: Who answers.
        purpose: ``answer``, ``count``, ``models`` or the name of something smaller.
        names: What the path names.
    """

    face: Face
    purpose: str
    names: Mapping[str, str] = attrs.field(factory=dict, hash=False)


_MODEL = r"/models/(?P<model>[^:]+)"
_ROUTES: tuple[tuple[str, str, Face, str], ...] = tuple(
    (method, pattern, face, purpose)
    for face, rows in (
        (
            CHAT,
            (
                ("POST", r"/openai/deployments/(?P<deployment>[^/]+)/chat/completions", "answer"),
                ("POST", r"/chat/completions", "answer"),
            ),
        ),
        (
            RESPONSES,
            (
                ("POST", r"/responses/input_tokens", "count"),
                ("POST", r"/responses", "answer"),
                ("GET", r"/responses/(?P<response>[^/]+)", "stored"),
                ("DELETE", r"/responses/(?P<response>[^/]+)", "forgotten"),
            ),
        ),
        (
            MESSAGES,
            (
                ("POST", r"/messages/count_tokens", "count"),
                ("POST", r"/messages", "answer"),
                ("POST", r"/model/(?P<model>[^/]+)/invoke(?:-with-response-stream)?", "answer"),
                ("POST", rf"{_MODEL}:rawPredict", "answer"),
                ("POST", rf"{_MODEL}:streamRawPredict", "answer"),
            ),
        ),
        (
            GEMINI,
            (
                ("POST", rf"{_MODEL}:generateContent", "answer"),
                ("POST", rf"{_MODEL}:streamGenerateContent", "answer"),
                ("POST", rf"{_MODEL}:countTokens", "count"),
                ("GET", r"/v1(?:beta1?|alpha)/models", "models"),
            ),
        ),
        (
            OLLAMA,
            (
                ("POST", r"/api/chat", "answer"),
                ("POST", r"/api/show", "show"),
                ("POST", r"/api/pull", "pull"),
                ("GET", r"/api/tags", "tags"),
                ("GET", r"/api/ps", "ps"),
                ("GET", r"/api/version", "version"),
            ),
        ),
    )
    for method, pattern, purpose in rows
)


def find_route(method: str, path: str, headers: Mapping[str, str]) -> Route | None:
    """Finds who answers a path; ``/models`` alone belongs to whom the headers name."""
    for allowed, pattern, face, purpose in _ROUTES:
        if method == allowed and (match := re.search(pattern + r"\Z", path)):
            return Route(face, purpose, match.groupdict())
    if method == "GET" and path.endswith("/models"):
        if "anthropic-version" in headers:
            return Route(MESSAGES, "models")
        return Route(GEMINI if "x-goog-api-key" in headers else CHAT, "models")
    return None
