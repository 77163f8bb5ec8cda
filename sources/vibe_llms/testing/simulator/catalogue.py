"""Requests that ask no model: lists of models, token counts, stored responses, Ollama's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vibe_llms.testing.simulator.backgrounds import (
    access_kept,
    cancel_kept,
    read_kept,
    stream_kept,
)
from vibe_llms.testing.simulator.bedrock import BEDROCK
from vibe_llms.testing.simulator.cached_contents import answer_cached_contents
from vibe_llms.testing.simulator.calls import CALLS, CallAnswer
from vibe_llms.testing.simulator.chat_completions import CHAT
from vibe_llms.testing.simulator.generate_content import GEMINI
from vibe_llms.testing.simulator.interactions import INTERACTIONS
from vibe_llms.testing.simulator.messages import MESSAGES
from vibe_llms.testing.simulator.ollama import check_model
from vibe_llms.testing.simulator.protocols import (
    SimulatedFrame,
    SimulatedProtocol,
    SimulatedRequest,
)
from vibe_llms.testing.simulator.refusals import SimulatedRefusal
from vibe_llms.testing.simulator.responses import RESPONSES
from vibe_llms.testing.simulator.routes import SimulatedRoute

MODELS = ("simulated-large", "simulated-small")
CREATED = 1_790_000_000
CAPABILITIES = ["completion", "tools", "vision", "thinking"]


def count_prompt(protocol: SimulatedProtocol, request: SimulatedRequest) -> dict[str, Any]:
    """Count the tokens of a request, in the vendor's format."""
    protocol.check(request)
    tokens = protocol.read(request).tokens
    if protocol is GEMINI:
        details = [{"modality": "TEXT", "tokenCount": tokens}]
        return {"totalTokens": tokens, "promptTokensDetails": details}
    if protocol is BEDROCK:
        return {"inputTokens": tokens}
    if protocol is RESPONSES:
        return {"object": "response.input_tokens", "input_tokens": tokens}
    return {"input_tokens": tokens}


def answer_other(route: SimulatedRoute, request: SimulatedRequest) -> CallAnswer:
    """Answer a request that asks no model, with an object or with the lines of a stream."""
    match route.purpose:
        case "models":
            return _list_models(route.protocol, request)
        case "response" | "response_delete" | "response_cancel":
            return _answer_stored_response(route, request)
        case "tags":
            return {"models": [_describe_tag(name) for name in MODELS]}
        case "ps":
            running = {"expires_at": "2026-11-22T12:05:00Z", "size_vram": 1, "context_length": 4096}
            return {"models": [{**_describe_tag(MODELS[0]), **running}]}
        case "version":
            return {"version": "0.20.0"}
        case "show":
            return _show(request)
        case "pull":
            return _pull(request)
        case purpose if purpose.startswith("cached_"):
            return answer_cached_contents(purpose, request)
        case purpose if purpose in CALLS:
            return CALLS[purpose](request)
    raise SimulatedRefusal(404, "missing", "Not found.")


def _list_models(protocol: SimulatedProtocol, request: SimulatedRequest) -> dict[str, Any]:
    if protocol is MESSAGES:
        rows = [_describe_messages_model(name) for name in MODELS]
        ends = {"first_id": MODELS[0], "last_id": MODELS[-1], "has_more": False}
        return {"data": rows, **ends}
    if protocol is GEMINI:
        return {"models": [_describe_gemini_model(name) for name in MODELS]}
    assert protocol is CHAT
    if request.query.get("endpoint") == "chat":  # Cohere
        return {"models": [_describe_cohere_model(name) for name in MODELS]}
    extra: dict[str, Any] = {}
    if "vllm" in request.conditions:
        extra = {"max_model_len": 32768, "root": "/models", "parent": None}
    if "openrouter" in request.conditions:
        extra = {"context_length": 200_000, "pricing": {"prompt": "0.000001", "completion": "0"}}
    rows = [
        {"id": name, "object": "model", "created": CREATED, "owned_by": "simulated", **extra}
        for name in MODELS
    ]
    return {"object": "list", "data": rows}


def _describe_messages_model(name: str) -> dict[str, Any]:
    supported = {"supported": True}
    return {
        "type": "model",
        "id": name,
        "display_name": name.replace("-", " ").title(),
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "line": "simulated",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
        "deprecated_at": None,
        "retires_at": None,
        "capabilities": {"image_input": supported, "pdf_input": supported},
    }


def _describe_cohere_model(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "endpoints": ["chat"],
        "features": ["tools", "vision"],
        "context_length": 256_000,
    }


def _describe_gemini_model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": True,
    }


def _answer_stored_response(route: SimulatedRoute, request: SimulatedRequest) -> CallAnswer:
    identity = route.names["response"]
    kept = access_kept(request, identity)
    if route.purpose == "response_delete":
        del request.stored[identity]
        if route.protocol is INTERACTIONS:
            return {}
        return {"id": identity, "object": "response.deleted", "deleted": True}
    if route.purpose == "response_cancel":
        return cancel_kept(kept)
    if request.query.get("stream") == "true":
        if route.protocol is INTERACTIONS:
            return stream_kept(kept, request.query.get("last_event_id", ""), "event_id")
        return stream_kept(kept, request.query.get("starting_after", ""), "sequence_number")
    return read_kept(kept)


def _describe_tag(name: str) -> dict[str, Any]:
    details = {"format": "gguf", "family": "simulated", "families": ["simulated"]}
    return {
        "name": f"{name}:latest",
        "model": f"{name}:latest",
        "modified_at": "2026-01-01T00:00:00Z",
        "size": 1_000_000,
        "digest": "0" * 64,
        "details": {**details, "parameter_size": "1B", "quantization_level": "Q4_K_M"},
        "capabilities": CAPABILITIES,
    }


def _show(request: SimulatedRequest) -> dict[str, Any]:
    name = str(request.body.get("model") or request.body.get("name") or "")
    check_model(name)
    information = {"general.architecture": "simulated", "simulated.context_length": 131_072}
    return {
        "modelfile": "",
        "parameters": "",
        "template": "{{ .SimulatedPrompt }}",
        "details": _describe_tag(name)["details"],
        "model_info": {**information, "general.parameter_count": 1_000_000_000},
        "capabilities": CAPABILITIES,
    }


def _pull(request: SimulatedRequest) -> Mapping[str, Any] | Iterator[SimulatedFrame]:
    name = str(request.body.get("model") or request.body.get("name") or "")
    if request.body.get("stream") is False:
        return {"status": "success"}
    return _stream_pull(name)


def _stream_pull(name: str) -> Iterator[SimulatedFrame]:
    yield SimulatedFrame({"status": "pulling manifest"})
    if "does-not-exist" in name:
        yield SimulatedFrame({"error": "pull model manifest: file does not exist"})
        return
    digest = f"sha256:{'0' * 64}"
    for completed in range(0, 1_000_001, 250_000):
        progress = {"digest": digest, "total": 1_000_000, "completed": completed}
        yield SimulatedFrame({"status": f"pulling {'0' * 12}", **progress})
    for status in ("verifying sha256 digest", "writing manifest", "success"):
        yield SimulatedFrame({"status": status}, ends=status == "success")
