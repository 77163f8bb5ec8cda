"""Gemini's batches: long-running operations whose requests and answers are in their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from vibe_llms.testing.simulator.batches import AnswerItem, Batch, find_batch, list_batches
from vibe_llms.testing.simulator.calls import CALLS
from vibe_llms.testing.simulator.protocols import SimulatedProtocol, SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require

_KIND: Final = "gemini"
_STATES: Final = {"open": "BATCH_STATE_PENDING", "canceling": "BATCH_STATE_RUNNING"}
_TYPE: Final = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"


def _create(request: SimulatedRequest, *, is_embedding: bool) -> Batch:
    given = request.body.get("batch")
    require(isinstance(given, Mapping), "batch is required")
    assert isinstance(given, Mapping)
    source = given.get("inputConfig")
    listed = source.get("requests") if isinstance(source, Mapping) else None
    entries = listed.get("requests") if isinstance(listed, Mapping) else None
    require(isinstance(entries, list) and entries, "batch.inputConfig.requests is required")
    requests: dict[str, Mapping[str, Any]] = {}
    for place, entry in enumerate(entries or ()):
        body = entry.get("request") if isinstance(entry, Mapping) else None
        require(isinstance(body, Mapping), f"requests[{place}].request is required")
        requests[str(place)] = dict(body or {})
    batch = Batch(
        id=request.mint("batches/", 20),
        created=request.now,
        requests=requests,
        polls=request.conditions.count("batch_polls", 1),
        fields={
            "kind": _KIND,
            "model": request.names["model"],
            "name": given.get("displayName", ""),
            "metadata": [entry.get("metadata") for entry in entries or ()],
            "is_embedding": is_embedding,
        },
    )
    request.stored[batch.id] = batch
    return batch


def _answer_item(batch: Batch, answer_item: AnswerItem) -> AnswerItem:
    """Return the function that answers a request of a batch, which names no model."""
    model = batch.fields["model"]

    def answer(protocol: SimulatedProtocol, item: SimulatedRequest) -> dict[str, Any]:
        path = f"/v1beta/models/{model}:generateContent"
        item = attrs.evolve(item, names={"model": model}, path=path)
        if not batch.fields["is_embedding"]:
            return answer_item(protocol, item)
        named = item.body.get("model")
        require(named in (None, f"models/{model}"), "model does not match")
        embedded: Any = CALLS["embed_content"](attrs.evolve(item, body=_write_embedding(item.body)))
        tokens = embedded["usageMetadata"]["promptTokenCount"]
        return {"embedding": embedded["embedding"], "tokenCount": str(tokens)}

    return answer


def _write_embedding(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request in the form of ``embedContent``, whose answer has the usage, too."""
    names = ("taskType", "outputDimensionality")
    return {"content": body.get("content"), "embedContentConfig": {n: body.get(n) for n in names}}


def _determine_state(batch: Batch) -> str:
    if batch.status != "ended":
        return _STATES[batch.status]
    if "canceled" in batch.fields:
        return "BATCH_STATE_CANCELLED"
    return "BATCH_STATE_EXPIRED" if batch.count("expired") else "BATCH_STATE_SUCCEEDED"


def _write_results(batch: Batch) -> list[dict[str, Any]]:
    entries = []
    for place, (kind, content) in enumerate(batch.results.values()):
        entry: dict[str, Any] = {}
        if batch.fields["metadata"][place] is not None:
            entry["metadata"] = batch.fields["metadata"][place]
        if kind == "succeeded":
            entries.append({**entry, "response": content})
        elif kind == "errored":
            _, body, _ = content
            entries.append({**entry, "error": body["error"]})
    return entries


def _describe(batch: Batch) -> dict[str, Any]:
    state, fields = _determine_state(batch), batch.fields
    created = datetime.fromtimestamp(batch.created, UTC).isoformat().replace("+00:00", "Z")
    metadata: dict[str, Any] = {
        "@type": _TYPE,
        "model": f"models/{fields['model']}",
        "displayName": fields["name"],
        "state": state,
        "createTime": created,
        "updateTime": created,
        "batchStats": {"requestCount": str(len(batch.requests))},
        "name": batch.id,
    }
    operation: dict[str, Any] = {"name": batch.id, "metadata": metadata}
    if batch.status == "ended":
        metadata["batchStats"] |= {
            "successfulRequestCount": str(batch.count("succeeded")),
            "failedRequestCount": str(batch.count("errored")),
        }
        if state == "BATCH_STATE_SUCCEEDED":
            output = {"inlinedResponses": {"inlinedResponses": _write_results(batch)}}
            metadata["output"] = output
            operation |= {"done": True, "response": output}
        else:
            message = "The batch was cancelled." if "canceled" in fields else "It has expired."
            operation |= {"done": True, "error": {"code": 1, "message": message}}
    return operation


def answer_gemini(
    purpose: str, protocol: SimulatedProtocol, request: SimulatedRequest, answer_item: AnswerItem
) -> Mapping[str, Any]:
    """Answer a request about batches. Raises SimulatedRefusal."""
    if purpose in ("batches", "batch_embeddings"):
        return _describe(_create(request, is_embedding=purpose == "batch_embeddings"))
    if purpose == "batch_list":
        page, has_more = list_batches(request, _KIND)
        operations = [_describe(each) for each in page]
        more = {"nextPageToken": page[-1].id} if has_more and page else {}
        return {"operations": operations, **more}
    batch = find_batch(request, _KIND)
    if purpose == "batch_cancel":
        if batch.status != "open":
            raise SimulatedRefusal(400, "invalid", "The batch has ended.")
        batch.status, batch.fields["canceled"] = "canceling", request.now
        return {}
    batch.advance(protocol, request, _answer_item(batch, answer_item))
    return _describe(batch)
