"""Tasks, messages and artifacts of A2A 1.0 for the steps of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from vibe_llms.daemons.agents.faces.approvals import ask_approval, describe_approval
from vibe_llms.daemons.agents.faces.media import describe_media, write_citation, write_link
from vibe_llms.daemons.agents.faces.serving import describe_failure
from vibe_llms.daemons.agents.faces.steps import (
    ApprovalGiven,
    CallEnded,
    Noted,
    PartEnded,
    PartGrown,
    PartsWithdrawn,
    Settled,
    ShownCall,
    Step,
)
from vibe_llms.dialects.payloads import encode_bytes
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    AnyContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import RESTS
from vibe_llms.runs.waiting import Waiting

NAMESPACE: Final = "vibe"
"""Key of our fields in metadata."""

WORKING: Final = "TASK_STATE_WORKING"
STATES: Final[Mapping[str, str]] = {
    "queued": "TASK_STATE_SUBMITTED",
    "working": WORKING,
    "due": WORKING,
    "broken_off": WORKING,
    "waiting": "TASK_STATE_INPUT_REQUIRED",
    "stopped": "TASK_STATE_CANCELED",
}
"""States of tasks by those of runs that have not ended."""

_STREAMED: Final = frozenset({"text", "refusal"})


@frozen(kw_only=True)
class TaskName:
    """Id of a task: the conversation, and the number of the event that requested the run.

    A conversation may have several tasks, one after the other.

    Attributes:
        conversation: Id of the conversation, which is the task's context.
        sequence: Number of the event.
    """

    conversation: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.conversation}.{self.sequence}"

    @property
    def places(self) -> dict[str, JsonValue]:
        """The ids in messages and events of the task."""
        return {"taskId": str(self), "contextId": self.conversation}


def read_task_name(text: str) -> TaskName | None:
    """Read the id of a task; ``None`` if it is invalid."""
    conversation, _, number = text.rpartition(".")
    if not conversation or not (number.isascii() and number.isdigit() and len(number) < 16):
        return None
    return TaskName(conversation=conversation, sequence=int(number))


def describe_state(summary: RunSummary, waiting: Sequence[Waiting] = ()) -> str:
    """Return the state of a task."""
    if summary.state == "waiting" and not waiting:
        return WORKING  # for a vendor's batch
    if summary.state != "ended":
        return STATES[summary.state]
    if summary.reason == "refused":
        return "TASK_STATE_REJECTED"
    return "TASK_STATE_FAILED" if summary.tone == "failed" else "TASK_STATE_COMPLETED"


def is_terminal(summary: RunSummary) -> bool:
    """Return whether the task of a run is over."""
    return summary.state in RESTS


def write_status(
    name: TaskName, summary: RunSummary, waiting: Sequence[Waiting] = ()
) -> JsonObject:
    """Return the status of a task."""
    state = describe_state(summary, waiting)
    status: dict[str, JsonValue] = {"state": state, "timestamp": _write_time(summary.updated)}
    parts: list[JsonValue] = []
    if waiting:
        questions = " ".join(map(ask_approval, waiting))
        parts.append({"text": f"{questions} Answer allow or deny."})
        parts.append({"data": {"approvals": [describe_approval(each) for each in waiting]}})
    elif (summary.state in RESTS and summary.detail) or state == "TASK_STATE_FAILED":
        parts.append({"text": summary.detail or summary.label})
    if parts:
        identity = f"{name}.status.{summary.sequence}"
        status["message"] = write_message(name, identity, parts)
    return status


def write_message(
    name: TaskName, identity: str, parts: Sequence[JsonValue], *, role: str = "ROLE_AGENT"
) -> JsonObject:
    """Return a message of a task."""
    return {"messageId": identity, "role": role, "parts": list(parts), **name.places}


def write_user_message(name: TaskName, canister: AnyCanister) -> JsonObject:
    """Return a message of the user."""
    parts = [_write_part(each) for each in canister.content]
    return write_message(name, canister.id, parts, role="ROLE_USER")


@define(eq=False)
class TaskFold:
    """Fold of a run's steps into a task.

    Attributes:
        name: Id of the task.
        history: Messages of the task.
        artifacts: Parts of answers, by their ids.
        losses: Losses of the request.
    """

    name: TaskName
    history: list[JsonObject] = attrs.field(factory=list)
    artifacts: dict[str, JsonObject] = attrs.field(factory=dict)
    losses: Sequence[str] = ()

    def feed(self, step: Step) -> None:
        """Take the next step into account."""
        match step:
            case PartEnded() if step.kind in _STREAMED or isinstance(step.content, MEDIA_CLASSES):
                self.artifacts[step.id] = _write_artifact(step)
            case PartEnded() | CallEnded():
                if message := _write_step(self.name, step):
                    self.history.append(message)

    def write(
        self,
        summary: RunSummary,
        waiting: Sequence[Waiting] = (),
        *,
        history_length: int | None = None,
        includes_artifacts: bool = True,
    ) -> JsonObject:
        """Return the task."""
        facts: dict[str, JsonValue] = {
            "state": summary.label,
            "tokens": summary.tokens,
            "model": summary.model,
        }
        if summary.cents is not None:
            facts["cents"] = summary.cents
        if self.losses:
            facts["losses"] = list(self.losses)
        kept = self.history
        if history_length is not None:
            kept = kept[max(0, len(kept) - history_length) :] if history_length else []
        return {
            "id": str(self.name),
            "contextId": self.name.conversation,
            "status": write_status(self.name, summary, waiting),
            "artifacts": [*self.artifacts.values()] if includes_artifacts else [],
            "history": list(kept),
            "metadata": {NAMESPACE: facts},
        }


@define(eq=False)
class TaskWriter:
    """Writer of the event stream of a task.

    Args:
        request_id: Id of the JSON-RPC request.
        name: Id of the task.
    """

    _request_id: JsonValue
    _name: TaskName
    _begun: set[str] = attrs.field(factory=set)

    def wrap(self, **result: JsonValue) -> JsonObject:
        """Return an event of the stream."""
        return {"jsonrpc": "2.0", "id": self._request_id, "result": result}

    def write(self, step: Step) -> Iterator[JsonObject]:
        """Yield the events for a step."""
        match step:
            case PartGrown() if step.kind in _STREAMED:
                yield self._write_artifact(step.id, [{"text": step.text}])
            case PartEnded() if step.kind in _STREAMED:
                metadata = _write_artifact(step).get("metadata")
                last: list[JsonValue] = [{"text": ""}]
                yield self._write_artifact(step.id, last, metadata=metadata, is_last=True)
            case PartEnded() if isinstance(step.content, MEDIA_CLASSES):
                parts: list[JsonValue] = [_write_part(step.content)]
                yield self._write_artifact(step.id, parts, is_last=True)
            case PartEnded() | CallEnded():
                if message := _write_step(self._name, step):
                    yield self._write_progress(message=message)
            case PartsWithdrawn():
                self._begun.clear()  # the artifacts are replaced
                yield self._write_progress({"type": "answer.withdrawn"})
            case ApprovalGiven():
                yield self._write_progress(
                    {
                        "type": "approval.answered",
                        "id": step.approval_id,
                        "isAllowed": step.is_allowed,
                        "reason": step.reason,
                    }
                )
            case Noted():
                yield self._write_progress({"type": step.word, "event": dict(step.event)})
            case Settled():
                status = write_status(self._name, step.summary, step.waiting)
                yield self.wrap(statusUpdate={**self._name.places, "status": status})

    def fail(self, error: ConverseError) -> Iterator[JsonObject]:
        """Yield the event for an error that ends the stream."""
        body: JsonObject = {"code": -32603, "message": describe_failure(error)}
        yield {"jsonrpc": "2.0", "id": self._request_id, "error": body}

    def _write_artifact(
        self,
        part_id: str,
        parts: Sequence[JsonValue],
        *,
        metadata: JsonValue = None,
        is_last: bool = False,
    ) -> JsonObject:
        artifact: dict[str, JsonValue] = {"artifactId": part_id, "parts": list(parts)}
        if metadata is not None:
            artifact["metadata"] = metadata
        update: JsonObject = {
            **self._name.places,
            "artifact": artifact,
            "append": part_id in self._begun,
            "lastChunk": is_last,
        }
        self._begun.add(part_id)
        return self.wrap(artifactUpdate=update)

    def _write_progress(
        self, fact: JsonObject | None = None, *, message: JsonObject | None = None
    ) -> JsonObject:
        status: dict[str, JsonValue] = {"state": WORKING}
        if message is not None:
            status["message"] = message
        update: dict[str, JsonValue] = {**self._name.places, "status": status}
        if fact is not None:
            update["metadata"] = {NAMESPACE: fact}
        return self.wrap(statusUpdate=update)


def _write_step(name: TaskName, step: PartEnded | CallEnded) -> JsonObject | None:
    """Return the message for a step that is not an artifact: reasoning, a call or its result."""
    if isinstance(step, CallEnded):
        result: JsonObject = {
            "result": {
                "callId": step.call.id,
                "name": step.call.name,
                "isError": step.result.is_error,
                "isDenied": step.is_denied,
            }
        }
        contents = [_write_part(each) for each in step.result.content]
        return write_message(name, f"{step.call.id}.result", [{"data": result}, *contents])
    if isinstance(step.call, ShownCall):
        call: JsonObject = {
            "call": {"id": step.id, "name": step.call.name, "arguments": step.call.arguments}
        }
        return write_message(name, step.id, [{"data": call}])
    return (
        None if step.content is None else write_message(name, step.id, [_write_part(step.content)])
    )


def _write_artifact(step: PartEnded) -> JsonObject:
    content = step.content
    assert content is not None
    artifact: dict[str, JsonValue] = {"artifactId": step.id, "parts": [_write_part(content)]}
    facts: dict[str, JsonValue] = {}
    if isinstance(content, RefusalContent):
        facts["kind"] = "refusal"
    if isinstance(content, TextualContent) and content.citations:
        facts["citations"] = [write_citation(each) for each in content.citations]
    if facts:
        artifact["metadata"] = {NAMESPACE: facts}
    return artifact


def _write_part(content: AnyContent) -> JsonObject:
    match content:
        case TextualContent():
            return {"text": content.text}
        case RefusalContent():
            return {"text": content.text, "metadata": {NAMESPACE: {"kind": "refusal"}}}
        case ReasoningContent():
            text = content.text or "".join(content.summary)
            return {"text": text, "metadata": {NAMESPACE: {"kind": "reasoning"}}}
        case NativeContent():
            return {"text": content.text, "metadata": {NAMESPACE: {"kind": content.kind}}}
    if isinstance(content, MEDIA_CLASSES):
        fields: dict[str, JsonValue] = {"mediaType": content.mime_type}
        if content.name:
            fields["filename"] = content.name
        if content.data is not None:
            return {"raw": encode_bytes(content.data), **fields}
        if url := write_link(content):
            return {"url": url, **fields}
        return {"text": describe_media(content)}
    return {"text": ""}


def _write_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
