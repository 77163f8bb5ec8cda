"""Routes: a path belongs to a vendor if it ends as the vendor's paths do, with any prefix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.testing.simulator.bedrock import BEDROCK
from vibe_llms.testing.simulator.chat_completions import CHAT
from vibe_llms.testing.simulator.generate_content import GEMINI
from vibe_llms.testing.simulator.interactions import INTERACTIONS
from vibe_llms.testing.simulator.messages import MESSAGES
from vibe_llms.testing.simulator.ollama import OLLAMA
from vibe_llms.testing.simulator.protocols import SimulatedProtocol
from vibe_llms.testing.simulator.responses import RESPONSES
from vibe_llms.testing.simulator.speech import DEEPGRAM, ELEVENLABS


@frozen
class SimulatedRoute:
    """Route of a path.

    Attributes:
        protocol: The protocol.
        purpose: ``answer``, ``count``, ``models`` or the name of another request.
        names: Names in the path.
    """

    protocol: SimulatedProtocol
    purpose: str
    names: Mapping[str, str] = attrs.field(factory=dict, hash=False)


_MODEL = r"/models/(?P<model>[^:]+)"
_ROUTES: Final[tuple[tuple[SimulatedProtocol, str, str, str], ...]] = (
    (CHAT, "POST", r"/openai/deployments/(?P<deployment>[^/]+)/chat/completions", "answer"),
    (CHAT, "POST", r"/chat/completions", "answer"),
    (CHAT, "POST", r"/fim/completions", "fim_completions"),
    (CHAT, "POST", r"(?:/v1|/beta|/openai/deployments/[^/]+)/completions", "completions"),
    (MESSAGES, "POST", r"/messages/batches", "batches"),
    (MESSAGES, "GET", r"/messages/batches", "batch_list"),
    (MESSAGES, "GET", r"/messages/batches/(?P<batch>[^/]+)", "batch"),
    (MESSAGES, "DELETE", r"/messages/batches/(?P<batch>[^/]+)", "batch_delete"),
    (MESSAGES, "POST", r"/messages/batches/(?P<batch>[^/]+)/cancel", "batch_cancel"),
    (MESSAGES, "GET", r"/messages/batches/(?P<batch>[^/]+)/results", "batch_results"),
    (GEMINI, "POST", r"/upload/v1(?:beta|alpha)?/files", "files"),
    (GEMINI, "POST", rf"{_MODEL}:batchGenerateContent", "batches"),
    (GEMINI, "POST", rf"{_MODEL}:asyncBatchEmbedContent", "batch_embeddings"),
    (GEMINI, "GET", r"/v1(?:beta|alpha)?/batches", "batch_list"),
    (GEMINI, "POST", r"/v1(?:beta|alpha)?/(?P<batch>batches/[^/:]+):cancel", "batch_cancel"),
    (GEMINI, "GET", r"/v1(?:beta|alpha)?/(?P<batch>batches/[^/]+)", "batch"),
    (CHAT, "POST", r"/files", "files"),
    (CHAT, "GET", r"/files", "file_list"),
    (CHAT, "GET", r"/files/(?P<file>[^/]+)", "file"),
    (CHAT, "GET", r"/files/(?P<file>[^/]+)/content", "file_content"),
    (CHAT, "DELETE", r"/files/(?P<file>[^/]+)", "file_delete"),
    (CHAT, "POST", r"/batches", "batches"),
    (CHAT, "GET", r"/batches", "batch_list"),
    (CHAT, "GET", r"/batches/(?P<batch>[^/]+)", "batch"),
    (CHAT, "POST", r"/batches/(?P<batch>[^/]+)/cancel", "batch_cancel"),
    (CHAT, "POST", r"/embeddings", "embeddings"),
    (CHAT, "POST", r"/v2/embed", "cohere_embed"),
    (CHAT, "POST", r"/rerank", "rerank"),
    (CHAT, "POST", r"/moderations", "moderations"),
    (CHAT, "POST", r"/images/generations", "images"),
    (CHAT, "POST", r"/images/edits", "image_edits"),
    (CHAT, "POST", r"/audio/speech", "speech"),
    (CHAT, "POST", r"/audio/(?:transcriptions|translations)", "transcriptions"),
    (ELEVENLABS, "POST", r"/v1/text-to-speech/(?P<voice>[^/]+)(?:/stream)?", "text_to_speech"),
    (ELEVENLABS, "POST", r"/v1/speech-to-text", "speech_to_text"),
    (DEEPGRAM, "POST", r"/v1/speak", "speak"),
    (DEEPGRAM, "POST", r"/v1/listen", "listen"),
    (DEEPGRAM, "GET", r"/v1/listen", "live_deepgram"),
    (DEEPGRAM, "GET", r"/v1/speak", "live_speech_deepgram"),
    (ELEVENLABS, "GET", r"/v1/text-to-speech/[^/]+/stream-input", "live_speech_elevenlabs"),
    (CHAT, "GET", r"/v1/realtime", "live_openai"),
    (CHAT, "GET", r"/audio/transcriptions/realtime", "live_mistral"),
    (RESPONSES, "POST", r"/responses/input_tokens", "count"),
    (RESPONSES, "POST", r"/responses", "answer"),
    (RESPONSES, "GET", r"/responses/(?P<response>[^/]+)", "response"),
    (RESPONSES, "DELETE", r"/responses/(?P<response>[^/]+)", "response_delete"),
    (RESPONSES, "POST", r"/responses/(?P<response>[^/]+)/cancel", "response_cancel"),
    (MESSAGES, "POST", r"/messages/count_tokens", "count"),
    (MESSAGES, "POST", r"/messages", "answer"),
    (BEDROCK, "POST", r"/model/(?P<model>[^/]*(?:titan|cohere\.)[^/]*)/invoke", "bedrock_embed"),
    (MESSAGES, "POST", r"/model/(?P<model>[^/]+)/invoke(?:-with-response-stream)?", "answer"),
    (BEDROCK, "POST", r"/model/(?P<model>.+)/converse(?:-stream)?", "answer"),
    (BEDROCK, "POST", r"/model/(?P<model>.+)/count-tokens", "count"),
    (MESSAGES, "POST", rf"{_MODEL}:rawPredict", "answer"),
    (MESSAGES, "POST", rf"{_MODEL}:streamRawPredict", "answer"),
    (INTERACTIONS, "POST", r"/v1(?:beta)?/interactions", "answer"),
    (INTERACTIONS, "GET", r"/interactions/(?P<response>[^/]+)", "response"),
    (INTERACTIONS, "DELETE", r"/interactions/(?P<response>[^/]+)", "response_delete"),
    (INTERACTIONS, "POST", r"/interactions/(?P<response>[^/]+)/cancel", "response_cancel"),
    (GEMINI, "POST", rf"{_MODEL}:generateContent", "answer"),
    (GEMINI, "POST", rf"{_MODEL}:streamGenerateContent", "answer"),
    (GEMINI, "POST", rf"{_MODEL}:countTokens", "count"),
    (GEMINI, "POST", rf"{_MODEL}:batchEmbedContents", "embed_contents"),
    (GEMINI, "POST", rf"{_MODEL}:embedContent", "embed_content"),
    (GEMINI, "POST", rf"{_MODEL}:predict", "predict"),
    (GEMINI, "GET", r"/v1(?:beta1?|alpha)/models", "models"),
    (GEMINI, "POST", r"/cachedContents", "cached_create"),
    (GEMINI, "GET", r"/cachedContents", "cached_list"),
    (GEMINI, "GET", r"/cachedContents/(?P<content>[^/]+)", "cached_content"),
    (GEMINI, "PATCH", r"/cachedContents/(?P<content>[^/]+)", "cached_change"),
    (GEMINI, "DELETE", r"/cachedContents/(?P<content>[^/]+)", "cached_delete"),
    (OLLAMA, "POST", r"/api/chat", "answer"),
    (OLLAMA, "POST", r"/api/embed", "embed"),
    (OLLAMA, "POST", r"/api/show", "show"),
    (OLLAMA, "POST", r"/api/pull", "pull"),
    (OLLAMA, "GET", r"/api/tags", "tags"),
    (OLLAMA, "GET", r"/api/ps", "ps"),
    (OLLAMA, "GET", r"/api/version", "version"),
)


def find_route(method: str, path: str, headers: Mapping[str, str]) -> SimulatedRoute | None:
    """Find the route of a path; the headers tell which vendor's ``/models`` to use."""
    for protocol, allowed, pattern, purpose in _ROUTES:
        if method == allowed and (match := re.search(pattern + r"\Z", path)):
            if protocol is GEMINI and "/batches" in path and "x-goog-api-key" not in headers:
                continue  # OpenAI has the same paths
            if purpose.startswith("file"):
                protocol = _find_owner(protocol, headers)
            return SimulatedRoute(protocol, purpose, match.groupdict())
    if method == "GET" and path.endswith("/models"):
        return SimulatedRoute(_find_owner(CHAT, headers), "models")
    return None


def _find_owner(default: SimulatedProtocol, headers: Mapping[str, str]) -> SimulatedProtocol:
    """Return the vendor of a path that several vendors have, by the headers of its clients."""
    if "anthropic-version" in headers:
        return MESSAGES
    return GEMINI if "x-goog-api-key" in headers else default
