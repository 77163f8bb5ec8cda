"""Batches of requests, answered later: Anthropic's Message Batches, and OpenAI's over files.

A batch advances when it is polled; the condition ``batch_polls`` sets the poll at which the batch
ends. Its requests are then answered by the protocols that also answer single requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.testing.simulator.protocols import SimulatedProtocol, SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require

AnswerItem = Callable[[SimulatedProtocol, SimulatedRequest], dict[str, Any]]
"""Answers one request of a batch as a whole. Raises SimulatedRefusal."""

MESSAGES_LIMIT: Final = 100_000
"""Requests in one batch of messages. Source:
https://platform.claude.com/docs/en/api/messages/batches/create, read 2026-11-24."""

LINES_LIMIT: Final = 50_000
"""Lines in one file of OpenAI's. Source: ``BatchCreateParams`` of openai 3.54.0."""

_DAY_SECONDS: Final = 86_400
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


@define(kw_only=True)
class Batch:
    """A batch, as the vendor stores it.

    Attributes:
        requests: The requests, by custom ids.
        id: The id of the batch.
        created: When it was created, in seconds since the epoch.
        polls: Number of polls until it ends.
        status: ``open``, ``canceling`` or ``ended``.
        results: The results by custom ids. Each result is a pair of a kind (``succeeded``,
            ``errored``, ``canceled`` or ``expired``) and a content.
        ended: When it ended, in seconds since the epoch.
        fields: Fields specific to one vendor.
    """

    id: str
    created: int
    requests: dict[str, Mapping[str, Any]]
    polls: int
    status: str = "open"
    ended: int | None = None
    results: dict[str, tuple[str, Any]] = attrs.field(factory=dict)
    fields: dict[str, Any] = attrs.field(factory=dict)

    def advance(
        self, protocol: SimulatedProtocol, request: SimulatedRequest, answer_item: AnswerItem
    ) -> None:
        """Advance by one poll."""
        if self.status == "ended":
            return
        self.polls -= 1
        if self.polls > 0 and self.status == "open":
            return
        conditions = request.conditions
        expiring = conditions.count("batch_expires", 1) if "batch_expires" in conditions else 0
        failing = conditions.count("batch_errors", 1) if "batch_errors" in conditions else 0
        for index, (name, body) in enumerate(self.requests.items()):
            if self.status == "canceling":
                self.results[name] = ("canceled", None)
            elif index >= len(self.requests) - expiring:
                self.results[name] = ("expired", None)
            else:
                item = attrs.evolve(request, body=body, identity=request.mint("req_", 24))
                self.results[name] = _answer_one(protocol, item, answer_item, fails=index < failing)
        self.status, self.ended = "ended", request.now

    def count(self, kind: str) -> int:
        """Return how many requests ended with this kind."""
        return sum(each == kind for each, _ in self.results.values())


def _answer_one(
    protocol: SimulatedProtocol, request: SimulatedRequest, answer_item: AnswerItem, *, fails: bool
) -> tuple[str, Any]:
    try:
        if fails:
            raise SimulatedRefusal(500, "server", "Internal server error")
        require(not request.body.get("stream"), "Requests of a batch are not streamed.")
        return ("succeeded", answer_item(protocol, request))
    except SimulatedRefusal as refusal:
        body = protocol.write_error(refusal, request)
        return ("errored", (protocol.map_status(refusal), body, request.identity))


def find_batch(request: SimulatedRequest, kind: str) -> Batch:
    """Return the batch of the path. Raises SimulatedRefusal."""
    batch = request.stored.get(request.names.get("batch", ""))
    if not isinstance(batch, Batch) or batch.fields["kind"] != kind:
        raise SimulatedRefusal(404, "missing", "There is no such batch.")
    return batch


def list_batches(request: SimulatedRequest, kind: str) -> tuple[list[Batch], bool]:
    """Return a page of batches, newest first, and whether there are more."""
    batches = [
        each
        for each in reversed(list(request.stored.values()))
        if isinstance(each, Batch) and each.fields["kind"] == kind
    ]
    cursors = ("after_id", "after", "pageToken")
    after = next(filter(None, map(request.query.get, cursors)), None)
    if after is not None:
        ids = [each.id for each in batches]
        require(after in ids, "There is no such cursor.")
        batches = batches[ids.index(after) + 1 :]
    limit = int(request.query.get("limit") or request.query.get("pageSize") or "20")
    return batches[:limit], len(batches) > limit


# --- Anthropic -----------------------------------------------------------------------------


def create_batch(request: SimulatedRequest) -> Batch:
    """Create a batch of messages. Raises SimulatedRefusal."""
    requests = request.body.get("requests")
    require(isinstance(requests, list) and requests, "requests: Field required")
    assert isinstance(requests, list)
    require(len(requests) <= MESSAGES_LIMIT, "requests: List should have at most 100000 items")
    requests_by_id: dict[str, Mapping[str, Any]] = {}
    for index, each in enumerate(requests):
        require(isinstance(each, Mapping), f"requests.{index}: Input should be an object")
        name, params = each.get("custom_id"), each.get("params")
        require(
            isinstance(name, str) and _NAME.match(name),
            f"requests.{index}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'",
        )
        require(isinstance(params, Mapping), f"requests.{index}.params: Field required")
        require(name not in requests_by_id, f"requests.{index}.custom_id: must be unique")
        requests_by_id[name] = params
    batch = Batch(
        id=request.mint("msgbatch_01", 22),
        created=request.now,
        requests=requests_by_id,
        polls=request.conditions.count("batch_polls", 1),
        fields={"kind": "messages"},
    )
    request.stored[batch.id] = batch
    return batch


def _write_time(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def describe_batch(batch: Batch, request: SimulatedRequest) -> dict[str, Any]:
    """Describe a batch of messages; the counts change only when all requests have ended."""
    has_ended = batch.status == "ended"
    kinds = ("succeeded", "errored", "canceled", "expired")
    host = request.headers.get("host", "")
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": {"open": "in_progress"}.get(batch.status, batch.status),
        "request_counts": {
            "processing": 0 if has_ended else len(batch.requests),
            **{kind: batch.count(kind) for kind in kinds},
        },
        "created_at": _write_time(batch.created),
        "expires_at": _write_time(batch.created + _DAY_SECONDS),
        "ended_at": _write_time(batch.ended),
        "archived_at": None,
        "cancel_initiated_at": _write_time(batch.fields.get("canceled")),
        "results_url": f"http://{host}/v1/messages/batches/{batch.id}/results"
        if has_ended
        else None,
    }


def _write_message_results(batch: Batch) -> Iterable[dict[str, Any]]:
    # The vendor promises no order, so the simulator reverses it.
    for name, (kind, content) in reversed(batch.results.items()):
        result: dict[str, Any] = {"type": kind}
        if kind == "succeeded":
            usage = {**content["usage"], "service_tier": "batch"}
            result["message"] = {**content, "usage": usage}
        elif kind == "errored":
            _, result["error"], _ = content  # the status, the error and the id of the request
        yield {"custom_id": name, "result": result}


def answer_messages(
    purpose: str, protocol: SimulatedProtocol, request: SimulatedRequest, answer_item: AnswerItem
) -> Mapping[str, Any] | bytes:
    """Answer a request about batches of messages. Raises SimulatedRefusal."""
    match purpose:
        case "batches":
            return describe_batch(create_batch(request), request)
        case "batch_list":
            page, has_more = list_batches(request, "messages")
            return {
                "data": [describe_batch(each, request) for each in page],
                "has_more": has_more,
                "first_id": page[0].id if page else None,
                "last_id": page[-1].id if page else None,
            }
    batch = find_batch(request, "messages")
    if purpose == "batch_cancel":
        if batch.status == "open":
            batch.status, batch.fields["canceled"] = "canceling", request.now
    elif purpose == "batch_results":
        require(batch.status == "ended", "The batch has not ended yet.")
        return join_lines(_write_message_results(batch))
    elif purpose == "batch_delete":
        require(batch.status == "ended", "A batch in progress cannot be deleted.")
        del request.stored[batch.id]
        return {"id": batch.id, "type": "message_batch_deleted"}
    else:
        batch.advance(protocol, request, answer_item)
    return describe_batch(batch, request)


def join_lines(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return values as lines of JSON."""
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in lines)
