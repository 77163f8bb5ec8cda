"""OpenAI's batches: a file of requests is the input, files of answers and of errors the output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.batches import (
    LINES_LIMIT,
    AnswerItem,
    Batch,
    find_batch,
    join_lines,
    list_batches,
)
from vibe_llms.testing.simulator.calls import CALLS
from vibe_llms.testing.simulator.chat_completions import CHAT
from vibe_llms.testing.simulator.files import StoredFile, store_file
from vibe_llms.testing.simulator.protocols import SimulatedProtocol, SimulatedRequest
from vibe_llms.testing.simulator.refusals import require
from vibe_llms.testing.simulator.responses import RESPONSES

_DAY_SECONDS: Final = 86_400
_PROTOCOLS: Final[Mapping[str, SimulatedProtocol]] = {
    "/v1/chat/completions": CHAT,
    "/v1/embeddings": CHAT,
    "/v1/images/generations": CHAT,
    "/v1/moderations": CHAT,
    "/v1/responses": RESPONSES,
}
_CALLS: Final = {
    "/v1/embeddings": "embeddings",
    "/v1/images/generations": "images",
    "/v1/moderations": "moderations",
}
"""Purposes of the endpoints outside of a conversation."""
_EXPIRED: Final = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}


def _create(request: SimulatedRequest) -> Batch:
    body = request.body
    endpoint, file = body.get("endpoint"), request.stored.get(str(body.get("input_file_id")))
    require(endpoint in _PROTOCOLS, f"Invalid value: {endpoint!r}", param="endpoint")
    require(body.get("completion_window") == "24h", "Invalid value", param="completion_window")
    require(isinstance(file, StoredFile), "There is no such file.", param="input_file_id")
    assert isinstance(file, StoredFile)
    require(file.purpose == "batch", "The file has another purpose.", param="input_file_id")
    requests, errors = _read_lines(file.data, str(endpoint))
    batch = Batch(
        id=request.mint("batch_", 24),
        created=request.now,
        requests={} if errors else requests,
        polls=request.conditions.count("batch_polls", 1),
        status="ended" if errors else "open",
        ended=request.now if errors else None,
        fields={
            "kind": "openai",
            "endpoint": endpoint,
            "input": file.id,
            "metadata": body.get("metadata"),
            "errors": errors,
        },
    )
    request.stored[batch.id] = batch
    return batch


def _read_lines(
    data: bytes, endpoint: str
) -> tuple[dict[str, Mapping[str, Any]], list[dict[str, Any]]]:
    """Read the requests of a file, and its errors, each of which fails the whole batch."""
    requests: dict[str, Mapping[str, Any]] = {}
    errors: list[dict[str, Any]] = []
    models: set[object] = set()
    for number, line in enumerate(data.splitlines(), 1):
        try:
            each = json.loads(line)
            name, body = each["custom_id"], each["body"]
            models.add(body.get("model"))
            code = _find_error_code(each, endpoint, requests, models)
        except (AttributeError, LookupError, TypeError, ValueError):
            code, name, body = "invalid_json_line", "", {}
        if code:
            errors.append({"code": code, "line": number, "message": code, "param": None})
        requests[name] = body
    if len(requests) > LINES_LIMIT or not requests:
        code = "too_many_tasks" if requests else "empty_file"
        errors.append({"code": code, "line": None, "message": code, "param": None})
    return requests, errors


def _find_error_code(
    line: Mapping[str, Any],
    endpoint: str,
    earlier: Mapping[str, Mapping[str, Any]],
    models: set[object],
) -> str:
    if line["custom_id"] in earlier:
        return "duplicate_custom_id"
    if line.get("method") != "POST":
        return "invalid_method"
    if line.get("url") != endpoint:
        return "mismatched_endpoint"
    return "mismatched_model" if len(models) > 1 else ""


def _finish(batch: Batch, request: SimulatedRequest) -> None:
    """Write the files of a batch that has just ended."""
    if batch.status != "ended" or "written" in batch.fields:
        return
    lines = list(_write_results(batch, request))
    for field, succeeded in (("output", True), ("error", False)):
        file_lines = [line for line_succeeded, line in lines if line_succeeded is succeeded]
        if file_lines:
            name = f"{batch.id}_{field}.jsonl"
            file = store_file(
                request,
                StoredFile(
                    id=request.mint("file-", 22),
                    created=request.now,
                    name=name,
                    purpose="batch_output",
                    data=join_lines(file_lines),
                ),
            )
            batch.fields[field] = file.id
    batch.fields["written"] = True


def _write_results(
    batch: Batch, request: SimulatedRequest
) -> Iterator[tuple[bool, dict[str, Any]]]:
    """Yield whether a request has succeeded, and its line."""
    for name, (kind, content) in batch.results.items():
        line = {"id": request.mint("batch_req_", 20), "custom_id": name}
        if kind == "succeeded":
            answer = {"status_code": 200, "request_id": request.mint("req_", 24), "body": content}
            yield True, {**line, "response": answer, "error": None}
        elif kind == "errored":
            status, body, identity = content
            answer = {"status_code": status, "request_id": identity, "body": body}
            yield False, {**line, "response": answer, "error": None}
        elif kind == "expired":
            yield False, {**line, "response": None, "error": _EXPIRED}
        # Requests cancelled before their start are in neither file.


def _determine_status(batch: Batch) -> str:
    if batch.fields["errors"]:
        return "failed"
    if batch.status != "ended":
        return {"open": "in_progress", "canceling": "cancelling"}[batch.status]
    if "canceled" in batch.fields:
        return "cancelled"
    return "expired" if batch.count("expired") else "completed"


def _describe_batch(batch: Batch) -> dict[str, Any]:
    status, fields, errors = _determine_status(batch), batch.fields, batch.fields["errors"]
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": fields["endpoint"],
        "errors": {"object": "list", "data": errors} if errors else None,
        "input_file_id": fields["input"],
        "completion_window": "24h",
        "status": status,
        "output_file_id": fields.get("output"),
        "error_file_id": fields.get("error"),
        "created_at": batch.created,
        "expires_at": batch.created + _DAY_SECONDS,
        "cancelling_at": fields.get("canceled"),
        **({f"{status}_at": batch.ended} if batch.ended is not None else {}),
        "request_counts": {
            "total": len(batch.requests),
            "completed": batch.count("succeeded"),
            "failed": batch.count("errored") + batch.count("expired"),
        },
        "metadata": fields["metadata"],
    }


def _answer_call(purpose: str) -> AnswerItem:
    def answer(protocol: SimulatedProtocol, item: SimulatedRequest) -> dict[str, Any]:
        content: Any = CALLS[purpose](item)
        return dict(content)

    return answer


def answer_batches(
    purpose: str, request: SimulatedRequest, answer_item: AnswerItem
) -> Mapping[str, Any]:
    """Answer a request about batches. Raises SimulatedRefusal."""
    if purpose == "batches":
        return _describe_batch(_create(request))
    if purpose == "batch_list":
        page, has_more = list_batches(request, "openai")
        return {
            "object": "list",
            "data": [_describe_batch(each) for each in page],
            "has_more": has_more,
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }
    batch = find_batch(request, "openai")
    if purpose != "batch_cancel":
        endpoint = batch.fields["endpoint"]
        answer = _answer_call(_CALLS[endpoint]) if endpoint in _CALLS else answer_item
        batch.advance(_PROTOCOLS[endpoint], request, answer)
        _finish(batch, request)
    elif batch.status == "open":
        batch.status, batch.fields["canceled"] = "canceling", request.now
    return _describe_batch(batch)
