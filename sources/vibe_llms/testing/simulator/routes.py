"""Routes: any path that ends as a vendor's does, with any prefix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.testing.simulator.chat_completions import CHAT
from vibe_llms.testing.simulator.faces import SimulatedFace
from vibe_llms.testing.simulator.generate_content import GEMINI
from vibe_llms.testing.simulator.messages import MESSAGES
from vibe_llms.testing.simulator.ollama import OLLAMA
from vibe_llms.testing.simulator.responses import RESPONSES


@frozen
class SimulatedRoute:
    """Route of a path.

    Attributes:
        face: The protocol.
        purpose: ``answer``, ``count``, ``models`` or the name of another request.
        names: Names in the path.
    """

    face: SimulatedFace
    purpose: str
    names: Mapping[str, str] = attrs.field(factory=dict, hash=False)


_MODEL = r"/models/(?P<model>[^:]+)"
_ROUTES: Final[tuple[tuple[SimulatedFace, str, str, str], ...]] = (
    (CHAT, "POST", r"/openai/deployments/(?P<deployment>[^/]+)/chat/completions", "answer"),
    (CHAT, "POST", r"/chat/completions", "answer"),
    (MESSAGES, "POST", r"/messages/batches", "batches"),
    (MESSAGES, "GET", r"/messages/batches", "batch_list"),
    (MESSAGES, "GET", r"/messages/batches/(?P<batch>[^/]+)", "batch"),
    (MESSAGES, "DELETE", r"/messages/batches/(?P<batch>[^/]+)", "batch_forgotten"),
    (MESSAGES, "POST", r"/messages/batches/(?P<batch>[^/]+)/cancel", "batch_cancel"),
    (MESSAGES, "GET", r"/messages/batches/(?P<batch>[^/]+)/results", "batch_results"),
    (CHAT, "POST", r"/files", "files"),
    (CHAT, "GET", r"/files/(?P<file>[^/]+)", "file"),
    (CHAT, "GET", r"/files/(?P<file>[^/]+)/content", "file_content"),
    (CHAT, "DELETE", r"/files/(?P<file>[^/]+)", "file_forgotten"),
    (CHAT, "POST", r"/batches", "batches"),
    (CHAT, "GET", r"/batches", "batch_list"),
    (CHAT, "GET", r"/batches/(?P<batch>[^/]+)", "batch"),
    (CHAT, "POST", r"/batches/(?P<batch>[^/]+)/cancel", "batch_cancel"),
    (CHAT, "POST", r"/embeddings", "embeddings"),
    (CHAT, "POST", r"/rerank", "rerank"),
    (CHAT, "POST", r"/moderations", "moderations"),
    (RESPONSES, "POST", r"/responses/input_tokens", "count"),
    (RESPONSES, "POST", r"/responses", "answer"),
    (RESPONSES, "GET", r"/responses/(?P<response>[^/]+)", "stored"),
    (RESPONSES, "DELETE", r"/responses/(?P<response>[^/]+)", "forgotten"),
    (MESSAGES, "POST", r"/messages/count_tokens", "count"),
    (MESSAGES, "POST", r"/messages", "answer"),
    (MESSAGES, "POST", r"/model/(?P<model>[^/]+)/invoke(?:-with-response-stream)?", "answer"),
    (MESSAGES, "POST", rf"{_MODEL}:rawPredict", "answer"),
    (MESSAGES, "POST", rf"{_MODEL}:streamRawPredict", "answer"),
    (GEMINI, "POST", rf"{_MODEL}:generateContent", "answer"),
    (GEMINI, "POST", rf"{_MODEL}:streamGenerateContent", "answer"),
    (GEMINI, "POST", rf"{_MODEL}:countTokens", "count"),
    (GEMINI, "POST", rf"{_MODEL}:batchEmbedContents", "embed_contents"),
    (GEMINI, "POST", rf"{_MODEL}:embedContent", "embed_content"),
    (GEMINI, "POST", rf"{_MODEL}:predict", "predict"),
    (GEMINI, "GET", r"/v1(?:beta1?|alpha)/models", "models"),
    (OLLAMA, "POST", r"/api/chat", "answer"),
    (OLLAMA, "POST", r"/api/embed", "embed"),
    (OLLAMA, "POST", r"/api/show", "show"),
    (OLLAMA, "POST", r"/api/pull", "pull"),
    (OLLAMA, "GET", r"/api/tags", "tags"),
    (OLLAMA, "GET", r"/api/ps", "ps"),
    (OLLAMA, "GET", r"/api/version", "version"),
)


def find_route(method: str, path: str, headers: Mapping[str, str]) -> SimulatedRoute | None:
    """Find the route of a path; for ``/models`` alone, the headers decide."""
    for face, allowed, pattern, purpose in _ROUTES:
        if method == allowed and (match := re.search(pattern + r"\Z", path)):
            return SimulatedRoute(face, purpose, match.groupdict())
    if method == "GET" and path.endswith("/models"):
        if "anthropic-version" in headers:
            return SimulatedRoute(MESSAGES, "models")
        return SimulatedRoute(GEMINI if "x-goog-api-key" in headers else CHAT, "models")
    return None
