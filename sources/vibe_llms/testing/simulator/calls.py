"""Embeddings, rankings and moderations of the simulated vendors."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from math import sqrt
from typing import Any, Final, TypeAlias

from vibe_llms.testing.simulator import completions, images, speech
from vibe_llms.testing.simulator.credentials import check_model
from vibe_llms.testing.simulator.protocols import SimulatedFrame, SimulatedMedia, SimulatedRequest
from vibe_llms.testing.simulator.refusals import require

WIDTH = 8
MAX_TEXTS = 2048
"""OpenAI's limit."""
_TASKS = (
    "RETRIEVAL_QUERY",
    "RETRIEVAL_DOCUMENT",
    "SEMANTIC_SIMILARITY",
    "CLASSIFICATION",
    "CLUSTERING",
)

COHERE_TYPES = ("search_document", "search_query", "classification", "clustering")


def draw(text: str, width: int = WIDTH) -> list[float]:
    """Derive the vector of a text from its hash: of length 1, and the same in each run."""
    data = hashlib.shake_256(text.encode()).digest(4 * width)
    numbers = [value / 2**31 for value in struct.unpack(f"<{width}i", data)]
    length = sqrt(sum(number * number for number in numbers)) or 1.0
    return [number / length for number in numbers]


def _count(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _read_width(value: Any) -> int:
    require(value is None or (isinstance(value, int) and value > 0), "Invalid dimensions.")
    return value or WIDTH


def _read_texts(value: Any, limit: int) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    valid = isinstance(texts, list) and all(isinstance(text, str) and text for text in texts)
    require(valid and texts, "'$.input' is invalid.", param="input")
    require(len(texts) <= limit, f"Too many inputs: at most {limit}.", param="input")
    return list(texts)


def _embed_openai(request: SimulatedRequest) -> dict[str, Any]:
    body = request.body
    check_model(str(body.get("model")))
    texts = _read_texts(body.get("input"), MAX_TEXTS)
    encoding_format = body.get("encoding_format", "float")
    require(
        encoding_format in ("float", "base64"), "Invalid encoding_format.", param="encoding_format"
    )
    width = _read_width(body.get("dimensions"))
    rows: list[Any] = [draw(text, width) for text in texts]
    if encoding_format == "base64":
        rows = [base64.b64encode(struct.pack(f"<{width}f", *row)).decode() for row in rows]
    tokens = _count(texts)
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": row}
            for index, row in enumerate(rows)
        ],
        "model": body["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _embed_cohere(request: SimulatedRequest) -> dict[str, Any]:
    body = request.body
    check_model(str(body.get("model")))
    texts = _read_texts(body.get("texts"), 96)
    require(body.get("input_type") in COHERE_TYPES, "input_type is invalid or missing")
    require(body.get("embedding_types") == ["float"], "embedding_types is invalid or missing")
    require(body.get("truncate", "END") in ("NONE", "START", "END"), "truncate is invalid")
    width = _read_width(body.get("output_dimension"))
    return {
        "id": request.mint("embed-", 12),
        "embeddings": {"float": [draw(text, width) for text in texts]},
        "texts": texts,
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": _count(texts)}},
        "response_type": "embeddings_by_type",
    }


def _embed_bedrock(request: SimulatedRequest) -> dict[str, Any]:
    body, model = request.body, request.names["model"]
    check_model(model)
    require("model" not in body, "extraneous key [model] is not permitted")
    if "cohere" in model:
        texts = _read_texts(body.get("texts"), 96)
        require(body.get("input_type") in COHERE_TYPES, "input_type is invalid or missing")
        is_third = "v3" in model
        require(not is_third or "output_dimension" not in body, "extraneous key [output_dimension]")
        require(body.get("truncate", "NONE") in ("NONE", "START", "END"), "truncate is invalid")
        rows = [draw(text, _read_width(body.get("output_dimension"))) for text in texts]
        if "embedding_types" not in body:
            return {"id": "e", "response_type": "embeddings_floats", "embeddings": rows}
        return {"id": "e", "response_type": "embeddings_by_type", "embeddings": {"float": rows}}
    known = {"inputText", "dimensions", "normalize", "embeddingTypes"}
    known = known if "v2" in model else {"inputText"}
    require(body.keys() <= known, "extraneous key is not permitted")
    text = body.get("inputText")
    require(isinstance(text, str) and text, "expected minLength: 1")
    row = draw(str(text), _read_width(body.get("dimensions")))
    return {"embedding": row, "inputTextTokenCount": _count([str(text)])}


def _embed_ollama(request: SimulatedRequest) -> dict[str, Any]:
    body = request.body
    require(body.get("model"), "model is required")
    check_model(str(body["model"]))
    texts = _read_texts(body.get("input"), 1_000_000)
    width = _read_width(body.get("dimensions"))
    return {
        "model": body["model"],
        "embeddings": [draw(text, width) for text in texts],
        "total_duration": 14_143_917,
        "load_duration": 1_019_500,
        "prompt_eval_count": _count(texts),
    }


def _read_content(entry: Mapping[str, Any]) -> str:
    content = entry.get("content")
    require(isinstance(content, Mapping), "content is required")
    parts = content.get("parts") if isinstance(content, Mapping) else None
    require(isinstance(parts, list) and parts, "content is empty")
    texts = [part.get("text", "") for part in parts or ()]
    require(all(texts), "content is empty")
    return "".join(texts)


def _embed_gemini(request: SimulatedRequest) -> dict[str, Any]:
    requests = request.body.get("requests")
    require(isinstance(requests, list) and requests, "requests is required")
    require(len(requests or ()) <= 100, "at most 100 requests can be in one batch")
    rows = []
    for entry in requests or ():
        require(entry.get("model") == f"models/{request.names['model']}", "model does not match")
        require(entry.get("taskType") in (None, *_TASKS), "Invalid value at taskType")
        width = _read_width(entry.get("outputDimensionality"))
        rows.append({"values": draw(_read_content(entry), width)})
    return {"embeddings": rows}


def _embed_vertex(request: SimulatedRequest) -> dict[str, Any]:
    body = request.body
    text = _read_content(body)
    configuration = body.get("embedContentConfig") or {}
    require(configuration.get("taskType") in (None, *_TASKS), "Invalid value at taskType")
    width = _read_width(configuration.get("outputDimensionality"))
    usage = {"promptTokenCount": _count([text])}
    return {"embedding": {"values": draw(text, width)}, "usageMetadata": usage, "truncated": False}


def _predict(request: SimulatedRequest) -> dict[str, Any]:
    body = request.body
    instances = body.get("instances")
    require(isinstance(instances, list) and instances, "instances is required")
    width = _read_width((body.get("parameters") or {}).get("outputDimensionality"))
    predictions = []
    for instance in instances or ():
        require(instance.get("task_type") in (None, *_TASKS), "Invalid task_type")
        text = str(instance.get("content") or "")
        require(text, "The text content is empty.")
        statistics = {"truncated": False, "token_count": float(_count([text]))}
        row = {"values": draw(text, width), "statistics": statistics}
        predictions.append({"embeddings": row})
    return {"predictions": predictions}


def score(query: str, text: str) -> float:
    """Return the relevance of a text: the share of the query's words that are in it."""
    words = query.lower().split()
    return sum(word in text.lower().split() for word in words) / len(words)


def _rank(request: SimulatedRequest) -> dict[str, Any] | SimulatedMedia:
    body = request.body
    is_inference = "texts" in body
    """Whether the server is Text Embeddings Inference, which serves one model."""
    if not is_inference:
        check_model(str(body.get("model")))
    texts = _read_texts(body.get("texts" if is_inference else "documents"), 1000)
    query = body.get("query")
    require(isinstance(query, str) and query, "query is required")
    is_voyage = "top_k" in body
    limit = body.get("top_k" if is_voyage else "top_n") or len(texts)
    require(isinstance(limit, int) and limit > 0, "top_n must be positive")
    rows = [
        {"index": index, "relevance_score": score(str(query), text)}
        for index, text in enumerate(texts)
    ]
    rows.sort(key=lambda row: row["relevance_score"], reverse=True)  # ties keep their order
    if is_inference:
        scores = [{"index": row["index"], "score": row["relevance_score"]} for row in rows]
        return SimulatedMedia(json.dumps(scores).encode(), "application/json")
    rows = rows[:limit]
    usage = {"total_tokens": _count(texts)}
    return {"model": body["model"], "data" if is_voyage else "results": rows, "usage": usage}


def _moderate(request: SimulatedRequest) -> dict[str, Any]:
    body = request.body
    check_model(str(body.get("model")))
    results = []
    for text in _read_texts(body.get("input"), 32):
        harmful = "kill" in text.lower()
        categories = {"violence": harmful, "harassment": False, "illicit": None}
        scores = {"violence": 0.97 if harmful else 0.01, "harassment": 0.02, "illicit": None}
        results.append({"flagged": harmful, "categories": categories, "category_scores": scores})
    return {"id": "modr-1", "model": body["model"], "results": results}


CallAnswer: TypeAlias = Mapping[str, Any] | SimulatedMedia | Iterator[SimulatedFrame]
"""An object, audio, or the events of a stream."""

CALLS: Final[Mapping[str, Callable[[SimulatedRequest], CallAnswer]]] = {
    "bedrock_embed": _embed_bedrock,
    "cohere_embed": _embed_cohere,
    "completions": completions.complete,
    "embed": _embed_ollama,
    "embed_content": _embed_vertex,
    "embed_contents": _embed_gemini,
    "embeddings": _embed_openai,
    "fim_completions": completions.fill,
    "image_edits": images.edit,
    "images": images.draw,
    "listen": speech.transcribe_deepgram,
    "moderations": _moderate,
    "predict": _predict,
    "rerank": _rank,
    "speak": speech.speak_deepgram,
    "speech": speech.speak_openai,
    "speech_to_text": speech.transcribe_elevenlabs,
    "text_to_speech": speech.speak_elevenlabs,
    "transcriptions": speech.transcribe_openai,
}
"""Functions that answer a call, by the purpose of its route. Each may raise SimulatedRefusal."""
