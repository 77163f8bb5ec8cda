"""Batches of requests, answered later: Anthropic's Message Batches, and OpenAI's over files.

A batch advances at each poll: at the n-th one it has ended. Then its requests are answered, by the
same faces that answer them one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.testing.simulator.complaints import SimulatedRefusal, require
from vibe_llms.testing.simulator.faces import SimulatedFace, SimulatedRequest

Answering = Callable[[SimulatedFace, SimulatedRequest], dict[str, Any]]
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
        polls: Number of polls until it ends.
        status: ``open``, ``canceling`` or ``ended``.
        results: By custom ids, each with its kind and its content: ``succeeded``, ``errored``,
            ``canceled`` or ``expired``.
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

    def advance(self, face: SimulatedFace, setting: SimulatedRequest, answering: Answering) -> None:
        """Advance by one poll."""
        if self.status == "ended":
            return
        self.polls -= 1
        if self.polls > 0 and self.status == "open":
            return
        chosen = list(self.requests)
        conditions = setting.conditions
        expiring = conditions.count("batch_expires", 1) if "batch_expires" in conditions else 0
        failing = conditions.count("batch_errors", 1) if "batch_errors" in conditions else 0
        for place, name in enumerate(chosen):
            if self.status == "canceling":
                self.results[name] = ("canceled", None)
            elif place >= len(chosen) - expiring:
                self.results[name] = ("expired", None)
            else:
                own = attrs.evolve(
                    setting, body=self.requests[name], identity=setting.mint("req_", 24)
                )
                self.results[name] = _answer_one(face, own, answering, fails=place < failing)
        self.status, self.ended = "ended", setting.now

    def count(self, kind: str) -> int:
        """Return how many requests ended with this kind."""
        return sum(each == kind for each, _ in self.results.values())


def _answer_one(
    face: SimulatedFace, setting: SimulatedRequest, answering: Answering, *, fails: bool
) -> tuple[str, Any]:
    try:
        if fails:
            raise SimulatedRefusal(500, "server", "Internal server error")
        require(not setting.body.get("stream"), "Requests of a batch are not streamed.")
        return ("succeeded", answering(face, setting))
    except SimulatedRefusal as complaint:
        body = face.complain(complaint, setting)
        return ("errored", (face.map_status(complaint), body, setting.identity))


def find_batch(setting: SimulatedRequest, kind: str) -> Batch:
    """Return the batch of the path. Raises SimulatedRefusal."""
    found = setting.stored.get(setting.names.get("batch", ""))
    if not isinstance(found, Batch) or found.fields["kind"] != kind:
        raise SimulatedRefusal(404, "missing", "There is no such batch.")
    return found


def list_batches(setting: SimulatedRequest, kind: str) -> tuple[list[Batch], bool]:
    """Return a page of batches, newest first, and whether there are more."""
    found = [
        each
        for each in reversed(list(setting.stored.values()))
        if isinstance(each, Batch) and each.fields["kind"] == kind
    ]
    after = setting.query.get("after_id") or setting.query.get("after")
    if after is not None:
        ids = [each.id for each in found]
        require(after in ids, "There is no such cursor.")
        found = found[ids.index(after) + 1 :]
    limit = int(setting.query.get("limit", "20"))
    return found[:limit], len(found) > limit


# --- Anthropic -----------------------------------------------------------------------------


def create_messages(setting: SimulatedRequest) -> Batch:
    """Create a batch of messages. Raises SimulatedRefusal."""
    requests = setting.body.get("requests")
    require(isinstance(requests, list) and requests, "requests: Field required")
    assert isinstance(requests, list)
    require(len(requests) <= MESSAGES_LIMIT, "requests: List should have at most 100000 items")
    taken: dict[str, Mapping[str, Any]] = {}
    for place, each in enumerate(requests):
        require(isinstance(each, Mapping), f"requests.{place}: Input should be an object")
        name, params = each.get("custom_id"), each.get("params")
        require(
            isinstance(name, str) and _NAME.match(name),
            f"requests.{place}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'",
        )
        require(isinstance(params, Mapping), f"requests.{place}.params: Field required")
        require(name not in taken, f"requests.{place}.custom_id: must be unique")
        taken[name] = params
    batch = Batch(
        id=setting.mint("msgbatch_01", 22),
        created=setting.now,
        requests=taken,
        polls=setting.conditions.count("batch_polls", 1),
        fields={"kind": "messages"},
    )
    setting.stored[batch.id] = batch
    return batch


def _tell_moment(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def tell_messages(batch: Batch, setting: SimulatedRequest) -> dict[str, Any]:
    """Return the status of a batch of messages. The counts change only when all has ended."""
    has_ended = batch.status == "ended"
    kinds = ("succeeded", "errored", "canceled", "expired")
    host = setting.headers.get("host", "")
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": {"open": "in_progress"}.get(batch.status, batch.status),
        "request_counts": {
            "processing": 0 if has_ended else len(batch.requests),
            **{kind: batch.count(kind) for kind in kinds},
        },
        "created_at": _tell_moment(batch.created),
        "expires_at": _tell_moment(batch.created + _DAY_SECONDS),
        "ended_at": _tell_moment(batch.ended),
        "archived_at": None,
        "cancel_initiated_at": _tell_moment(batch.fields.get("canceled")),
        "results_url": f"http://{host}/v1/messages/batches/{batch.id}/results"
        if has_ended
        else None,
    }


def _write_message_results(batch: Batch) -> Iterable[dict[str, Any]]:
    # In another order than requested, because no order is promised.
    for name, (kind, said) in reversed(batch.results.items()):
        result: dict[str, Any] = {"type": kind}
        if kind == "succeeded":
            message = {**said, "usage": {**said["usage"], "service_tier": "batch"}}
            result["message"] = message
        elif kind == "errored":
            result["error"] = said[1]
        yield {"custom_id": name, "result": result}


def answer_messages(
    purpose: str, face: SimulatedFace, setting: SimulatedRequest, answering: Answering
) -> Mapping[str, Any] | bytes:
    """Answer a request about batches of messages. Raises SimulatedRefusal."""
    match purpose:
        case "batches":
            return tell_messages(create_messages(setting), setting)
        case "batch_list":
            page, has_more = list_batches(setting, "messages")
            ends = {"first_id": page[0].id, "last_id": page[-1].id} if page else {}
            told = [tell_messages(each, setting) for each in page]
            none = {"first_id": None, "last_id": None}
            return {"data": told, "has_more": has_more, **none, **ends}
    batch = find_batch(setting, "messages")
    if purpose == "batch_cancel":
        if batch.status == "open":
            batch.status, batch.fields["canceled"] = "canceling", setting.now
    elif purpose == "batch_results":
        require(batch.status == "ended", "The batch has not ended yet.")
        return join_lines(_write_message_results(batch))
    elif purpose == "batch_forgotten":
        require(batch.status == "ended", "A batch in progress cannot be deleted.")
        del setting.stored[batch.id]
        return {"id": batch.id, "type": "message_batch_deleted"}
    else:
        batch.advance(face, setting, answering)
    return tell_messages(batch, setting)


def join_lines(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return values as lines of JSON."""
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in lines)
