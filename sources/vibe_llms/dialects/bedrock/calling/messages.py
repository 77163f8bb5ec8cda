"""Translation of canisters to the messages of a request.

The order of all contents is kept. The roles of messages alternate, as the vendor requires: what
follows in the same role joins the message before it. Boundaries between messages of one role that a
client of this protocol chose are restored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.bedrock.calling.blocks import Block, BlocksWriter
from vibe_llms.dialects.bedrock.calling.caching import CACHE_POINT, write_cache_point
from vibe_llms.dialects.bedrock.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.history import HistoryRules, belongs, locate, repair_history
from vibe_llms.dialects.instructions import LATE
from vibe_llms.dialects.invocations import BROKEN_ARGUMENTS
from vibe_llms.dialects.ledger import Ledger, reading_natives
from vibe_llms.dialects.plain import OURS, read_arguments
from vibe_llms.exceptions import ParseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import Capability, ModelAttributes

RULES: Final = HistoryRules(id_pattern=r"[a-zA-Z0-9_.:-]{1,64}", alias_prefix="tooluse_")
"""The pattern is that of the vendor's description of its service."""

_BOUNDARY: Final = "role"
"""Extra of a message that a client began although the one before had the same role."""


def nativize_canisters(
    canisters: Sequence[AnyCanister],
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
    continuation: bool = False,
) -> Translation[JsonObject]:
    """Return ``system`` and ``messages``.

    Args:
        provider: The request's provider; signatures of others are withheld.
        continuation: Whether the model continues its last turn.

    Raises:
        CapabilityError: The model is known not to support a content.
        RequestError: The bytes of a medium are missing.
    """
    del quirks  # no vendor of this dialect has quirks
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    takes_late = attributes.access_capability("supports_late_supervisor") is Capability.YES
    writer = _MessagesWriter(
        ledger=ledger,
        blocks=BlocksWriter(ledger=ledger, attributes=attributes),
        takes_late_instructions=takes_late,
    )
    for canister, position, text in repair_history(canisters, RULES, ledger).read():
        if not writer.write_plain(canister, position, text):
            path = locate(position)
            with reading_natives(canister, path):
                writer.write(canister, path)
    if continuation:
        writer.trim_prefill(locate(len(canisters) - 1))
    system = {"system": writer.system} if writer.system else {}
    return Translation({**system, "messages": writer.messages}, ledger.losses)


@define(kw_only=True)
class _MessagesWriter:
    """Writes the messages of a conversation.

    Attributes:
        takes_late_instructions: Whether the model accepts messages of the role ``system``.
        system: The blocks of the instructions at the beginning.
        messages: The messages so far.
    """

    ledger: Ledger
    blocks: BlocksWriter
    takes_late_instructions: bool
    system: list[Block] = attrs.field(factory=list)
    messages: list[dict[str, Any]] = attrs.field(factory=list)
    _last: AnyCanister | None = None

    def write_plain(self, canister: AnyCanister, position: int, text: str | None) -> bool:
        """Write a plain text, call or result; return false for any other canister.

        Args:
            position: Index of the canister.
            text: The text, if it is plain.
        """
        role = "assistant"
        block: Block | None
        if type(canister) is UserCanister or type(canister) is AssistantCanister:
            if not text or text.isspace():
                return False
            role = "user" if type(canister) is UserCanister else role
            block = {"text": text}
        elif type(canister) is InvocationCanister:
            block = write_plain_invocation(canister)
        elif type(canister) is ResultCanister:
            role, block = "user", write_plain_result(canister, text)
        else:
            block = None
        if block is None:
            return False
        messages = self.messages
        if messages and messages[-1]["role"] == role:
            self._report_joint(canister, locate(position))
            messages[-1]["content"].append(block)
        else:
            messages.append({"role": role, "content": [block]})
        self._last = canister
        return True

    def write(self, canister: AnyCanister, path: str) -> None:
        """Write any canister."""
        match canister:
            case SupervisorCanister():
                self._write_supervisor(canister, path)
            case UserCanister():
                extras = self.ledger.read_sendable(canister.native, path, canister)
                content = self.blocks.write(canister.content, path, canister)
                self._add("user", canister, path, content, extras)
            case DocumentCanister():
                extras = self.ledger.read_sendable(canister.native, path, canister)
                content = []
                for each, content_path in survey_contents(canister, path, self.ledger):
                    content += self.blocks.write_content(each, content_path, canister)
                self._add("user", canister, path, content, extras)
            case ResultCanister(owner=Owner.OURS):
                self._write_result(canister, path)
            case AssistantCanister():
                extras = self.ledger.read_sendable(canister.native, path, canister)
                content = self.blocks.write(canister.content, path, canister)
                self._add("assistant", canister, path, content, extras)
            case InvocationCanister(owner=Owner.OURS):
                content = write_invocation(canister, path, self.ledger)
                self._add("assistant", canister, path, content, {})
            case _:
                content = write_execution(canister, path, self.ledger)
                self._add("assistant", canister, path, content, {})
        self._last = canister

    def trim_prefill(self, path: str) -> None:
        """Remove trailing blanks from a prefill, which the vendor rejects."""
        message = self.messages[-1] if self.messages else {}
        if message.get("role") != "assistant" or not message["content"]:
            return
        block = message["content"][-1]
        if "text" in block and block["text"] != block["text"].rstrip():
            message["content"][-1] = {**block, "text": block["text"].rstrip()}
            self.ledger.coerce(
                path, "trailing blanks were removed: the vendor rejects them in the begun answer"
            )

    def _add(
        self,
        role: str,
        canister: AnyCanister,
        path: str,
        content: list[Block],
        extras: dict[str, Any],
    ) -> None:
        keeps_boundary = extras.pop(_BOUNDARY, None) is not None
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == role and not keeps_boundary:
            if content:
                self._report_joint(canister, path)
            last["content"] += content
            last.update(extras)
        elif content or extras:
            self.messages.append({"role": role, "content": content, **extras})

    def _report_joint(self, canister: AnyCanister, path: str) -> None:
        """Record that two turns of the same role became one message."""
        last = self._last
        if last is None or belongs(last, canister) or _answers(last) or _answers(canister):
            return
        reason = "joined to the message before it, as roles must alternate"
        self.ledger.coerce(path, reason, is_routine=True)

    def _write_supervisor(self, canister: SupervisorCanister, path: str) -> None:
        extras = self.ledger.read_sendable(canister.native, path, canister)
        content = self.blocks.write_texts(canister.content, path, canister)
        if not self.messages and _BOUNDARY not in extras:
            self.system += content
            if extras:
                self.ledger.drop(f"{path}.native", "instructions at the beginning have no fields")
        elif self.takes_late_instructions or _BOUNDARY in extras:
            self._add("system", canister, path, content, extras)
        else:
            self.ledger.coerce(path, LATE)
            self._add("user", canister, path, content, extras)

    def _write_result(self, canister: ResultCanister, path: str) -> None:
        extras = self.ledger.read_sendable(canister.native, path, canister)
        message_extras = extras.pop("message", {})
        # A result cannot contain a cache point, but one may follow it.
        blocks = self.blocks.write(canister.content, path, canister)
        points = [block for block in blocks if CACHE_POINT in block]
        result: Block = {"toolUseId": canister.invocation_id}
        result["content"] = [block for block in blocks if CACHE_POINT not in block]
        if canister.is_error:
            result["status"] = "error"
        content = [{"toolResult": merge(result, extras)}, *points[-1:]]
        self._add("user", canister, path, content, message_extras)


def _answers(canister: AnyCanister) -> bool:
    """Return whether a canister is a result, which shares a message with the next input."""
    return type(canister) is ResultCanister


def write_plain_invocation(canister: InvocationCanister) -> Block | None:
    """Return the block of a plain call of our invocable; ``None`` for any other call."""
    arguments = read_arguments(canister)
    if arguments is None:
        return None
    call = {"toolUseId": canister.invocation_id, "name": canister.name, "input": arguments}
    return {"toolUse": call}


def write_plain_result(canister: ResultCanister, text: str | None) -> Block | None:
    """Return the block of a result with one visible text; ``None`` for any other result."""
    if not text or text.isspace() or canister.owner is not OURS:
        return None
    result: Block = {"toolUseId": canister.invocation_id, "content": [{"text": text}]}
    if canister.is_error:
        result["status"] = "error"
    return {"toolResult": result}


def write_invocation(canister: InvocationCanister, path: str, ledger: Ledger) -> list[Block]:
    """Return the block of a call of our invocable, perhaps with a cache point."""
    points = []
    for index, content in enumerate(canister.content):
        if isinstance(content, CacheHint):
            points = [write_cache_point(content, f"{path}.content[{index}]", ledger)]
        else:
            reason = "an invocation can contain only its arguments"
            ledger.drop(f"{path}.content[{index}]", reason)
    call = {
        "toolUseId": canister.invocation_id,
        "name": canister.name,
        "input": _read_arguments(canister, path, ledger),
    }
    extras = ledger.read_sendable(canister.native, path, canister)
    return [{"toolUse": merge(call, extras)}, *points]


def _read_arguments(canister: InvocationCanister, path: str, ledger: Ledger) -> Any:
    """Return the arguments as an object, which this protocol requires."""
    path = f"{path}.arguments"
    if canister.form == "text":
        ledger.coerce(path, "free text is sent as an object with the field input")
        return {"input": canister.arguments}
    try:
        return canister.parse_arguments()
    except ParseError as error:
        ledger.coerce(
            path, f"{error.detail}; they are sent as text in the field {BROKEN_ARGUMENTS}"
        )
    return {BROKEN_ARGUMENTS: canister.arguments}


def write_execution(canister: AnyCanister, path: str, ledger: Ledger) -> list[Block]:
    """Return the block of a call that this vendor executed, or of its result."""
    is_own = ledger.admits_execution(canister, path)
    return [ledger.read_sendable(canister.native, path, canister)] if is_own else []
