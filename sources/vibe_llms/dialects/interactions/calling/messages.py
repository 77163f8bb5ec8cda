"""Canisters as the steps of a request.

Each canister is one or more steps of its own: a message, a thought, a call or a result. The
instructions at the beginning become ``system_instruction``. Later instructions are sent as the
user's text, because the protocol has no step for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import msgspec

from vibe_llms.dialects.cache_hints import omit_hints
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.history import HistoryEntry, HistoryRules, locate, repair_history
from vibe_llms.dialects.instructions import LATE
from vibe_llms.dialects.interactions.calling.contents import CONTENT, StepContentsWriter
from vibe_llms.dialects.interactions.calling.results import write_result
from vibe_llms.dialects.interactions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.invocations import write_object
from vibe_llms.dialects.ledger import Ledger, reading_natives
from vibe_llms.dialects.plain import OURS, read_arguments
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import CacheHint, NativeContent, ReasoningContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.texts import BOUNDARY
from vibe_llms.models.attributes import ModelAttributes


def nativize_canisters(
    canisters: Sequence[AnyCanister],
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
) -> Translation[JsonObject]:
    """Return ``{"input": […]}``, with ``system_instruction`` if there are instructions.

    Args:
        provider: The request's provider: signatures of others are withheld.

    Raises:
        CapabilityError: The model is known not to support a content.
        RequestError: The bytes of a medium are missing.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=provider, siblings=quirks.siblings)
    canisters = omit_hints(canisters, ledger)
    writer = StepsWriter(contents=StepContentsWriter(attributes=attributes, ledger=ledger))
    for canister, position, text in repair_history(canisters, HistoryRules(), ledger).read():
        if not writer.write_plain(canister, text):
            path = locate(position)
            with reading_natives(canister, path):
                writer.write(HistoryEntry(canister, path))
    native: dict[str, Any] = {}
    if writer.instructions:
        native["system_instruction"] = BOUNDARY.join(writer.instructions)
    native["input"] = writer.steps
    return Translation(native, ledger.losses)


@define(kw_only=True)
class StepsWriter:
    """Collects canisters into steps.

    Attributes:
        contents: Writes the contents of steps.
        steps: The steps so far.
        instructions: The instructions at the beginning.
        keeps_thoughts: Whether the thoughts of other vendors are written, too, as in answers.
    """

    contents: StepContentsWriter
    steps: list[dict[str, Any]] = attrs.field(factory=list)
    instructions: list[str] = attrs.field(factory=list)
    keeps_thoughts: bool = False

    def write_plain(self, canister: AnyCanister, text: str | None) -> bool:
        """Write a canister of one plain text, or a plain call; return false for any other.

        Args:
            text: The text, if it is plain.
        """
        if type(canister) is InvocationCanister:
            arguments = read_arguments(canister)
            if arguments is None:
                return False
            self.steps.append(_write_call(canister, arguments))
            return True
        if not text:
            return False
        if type(canister) is UserCanister:
            kind = "user_input"
        elif type(canister) is AssistantCanister:
            kind = "model_output"
        elif type(canister) is ResultCanister and canister.owner is OURS:
            self.steps.append(_write_plain_result(canister, text))
            return True
        else:
            return False
        self.steps.append({"type": kind, "content": [{"type": "text", "text": text}]})
        return True

    def write(self, entry: HistoryEntry) -> None:
        """Write one canister of a repaired conversation. Raises RequestError."""
        canister, path = entry.canister, entry.path
        ledger = self.contents.ledger
        if getattr(canister, "owner", None) is Owner.VENDOR:
            if ledger.admits_execution(canister, path):
                self.steps.append(ledger.read_sendable(canister.native, path, canister))
            return
        extras = ledger.read_sendable(canister.native, path, canister)
        match canister:
            case InvocationCanister():
                self._report_contents(canister, path)
                arguments = msgspec.json.decode(write_object(canister, path, ledger))
                self.steps.append(merge(_write_call(canister, arguments), extras))
            case ResultCanister():
                step = write_result(canister, path, self.contents)
                self.steps.append(merge(step, extras))
            case SupervisorCanister() if not self.steps:
                self._write_instructions(canister, extras, path)
            case AssistantCanister():
                self._write_answer(canister, extras, path)
            case _:
                if isinstance(canister, SupervisorCanister):
                    ledger.coerce(path, LATE)
                self._write_input(canister, extras, path)

    def _report_contents(self, canister: InvocationCanister, path: str) -> None:
        """Record the contents of a call, which this protocol does not have."""
        ledger = self.contents.ledger
        for index, content in enumerate(canister.content):
            place = f"{path}.content[{index}]"
            if isinstance(content, CacheHint):
                ledger.omit_hint(place)
            else:
                ledger.drop(place, "an invocation can contain only its arguments")

    def _write_instructions(
        self, canister: SupervisorCanister, extras: dict[str, Any], path: str
    ) -> None:
        ledger = self.contents.ledger
        for content, place in survey_contents(canister, path, ledger):
            written = self.contents.write(content, place, canister)
            if written is None:
                continue
            if written.get("type") != "text":
                ledger.drop(place, "instructions are a text in this protocol")
                continue
            if self.instructions:
                reason = "the instructions are sent as one text, separated by empty lines"
                ledger.coerce(place, reason)
            for name in written.keys() - {"type", "text"}:
                ledger.drop(f"{place}.native", f"{name}: instructions have no such field")
            self.instructions.append(written["text"])
        for name in extras:
            ledger.drop(f"{path}.native", f"{name}: instructions have no such field")

    def _write_input(self, canister: AnyCanister, extras: dict[str, Any], path: str) -> None:
        contents = [
            written
            for content, place in survey_contents(canister, path, self.contents.ledger)
            if (written := self.contents.write(content, place, canister)) is not None
        ]
        if contents:
            self.steps.append(merge({"type": "user_input", "content": contents}, extras))

    def _write_answer(self, canister: AssistantCanister, extras: dict[str, Any], path: str) -> None:
        """Write the contents of an answer: thoughts are steps, other contents share a step.

        The extras belong to the first step of other contents, or to a step of their own.
        """
        output: list[dict[str, Any]] = []
        for index, content in enumerate(canister.content):
            place = f"{path}.content[{index}]"
            step: dict[str, Any] | None = None
            if isinstance(content, ReasoningContent):
                step = self._write_thought(content, place, canister)
            elif isinstance(content, NativeContent) and not _is_within_step(content):
                step = self.contents.write_native(content, place, canister)
            else:
                written = self.contents.write(content, place, canister)
                output += [] if written is None else [written]
                continue
            if step is not None:
                if output:
                    self.steps.append(merge({"type": "model_output", "content": output}, extras))
                    output, extras = [], {}
                self.steps.append(step)
        if output:
            self.steps.append(merge({"type": "model_output", "content": output}, extras))
        elif extras:  # a step that has only an error
            self.steps.append(merge({"type": "model_output"}, extras))

    def _write_thought(
        self, content: ReasoningContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        ledger, step = self.contents.ledger, {"type": "thought"}
        text = content.text or BOUNDARY.join(content.summary)
        thought: dict[str, Any] = dict(step)
        if text:
            thought["summary"] = [{"type": "text", "text": text}]
        if ledger.admits(content.native, canister):
            if len(content.summary) > 1 or (content.text and content.summary):
                ledger.coerce(f"{path}.summary", "a thought has one summary in this protocol")
            if content.signature:
                thought["signature"] = content.signature
            return merge(thought, ledger.read_sendable(content.native, path, canister))
        if not self.keeps_thoughts:
            ledger.withhold(path, "the vendor cannot use reasoning of another model")
            return None
        ledger.read_sendable(content.native, path, canister)
        if is_wrapped(content.signature):
            thought["signature"] = content.signature
        elif content.signature:
            ledger.withhold(f"{path}.signature", "the signature belongs to another vendor")
        return thought if len(thought) > 1 else None


def _is_within_step(content: NativeContent) -> bool:
    return f'"{CONTENT}"' in content.native.data


def _write_call(canister: InvocationCanister, arguments: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": canister.invocation_id,
        "name": canister.name,
        "arguments": arguments,
    }


def _write_plain_result(canister: ResultCanister, text: str) -> dict[str, Any]:
    step: dict[str, Any] = {"type": "function_result", "call_id": canister.invocation_id}
    if canister.name:
        step["name"] = canister.name
    if canister.is_error:
        step["is_error"] = True
    return {**step, "result": text}
