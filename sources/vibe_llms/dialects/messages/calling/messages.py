"""Canisters as the messages of a request.

The order of all contents is kept. A turn of the model is one message; its results and the user's
next contents are the next message. Other boundaries between a client's messages are restored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.history import HistoryRules, belongs, locate, repair_history
from vibe_llms.dialects.instructions import LATE, Message, accepts_late_instructions
from vibe_llms.dialects.invocations import BROKEN_ARGUMENTS
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.calling.blocks import Block, BlocksWriter
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.messages.tables import SHARED
from vibe_llms.dialects.plain import OURS, is_plain_call, read_arguments, read_plain
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
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import FileContent
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes

RULES: Final = HistoryRules(id_pattern=r"[a-zA-Z0-9_-]+", alias_prefix="toolu_")
"""The pattern is the vendor's own; it rejects any other id with status 400."""

_CUT: Final = frozenset(
    {
        StopReason.FAILED,
        StopReason.FILTERED,
        StopReason.INTERRUPTED,
        StopReason.LIMIT,
        StopReason.OVERFLOW,
        StopReason.REFUSED,
    }
)
"""Reasons why a turn may end during the vendor's execution of a call."""


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
        continuation: Let the model continue its own last turn.

    Raises:
        CapabilityError: The model is known not to support a content.
        RequestError: The bytes of a medium are missing.
    """
    del quirks  # no vendor of this dialect has quirks
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    blocks = BlocksWriter(ledger=ledger, attributes=attributes)
    writer = _MessagesWriter(ledger=ledger, blocks=blocks, canisters=canisters)
    for canister, position in repair_history(canisters, RULES, ledger).pair():
        if not writer.write_plain(canister, position):
            writer.write(canister, locate(position))
    if writer.is_unusual:
        writer.drop_empty()
        writer.arrange_instructions(is_taken=accepts_late_instructions(attributes))
    if continuation and not _is_paused(canisters[-1] if canisters else None):
        writer.trim()
    system = {"system": writer.system} if writer.system else {}
    return Translation({**system, "messages": writer.messages}, ledger.losses)


@define(kw_only=True)
class _MessagesWriter:
    """Writes messages, each with the place of its first canister.

    Attributes:
        canisters: The whole conversation.
        places: For each message, the position or the path of its first canister.
        is_unusual: Whether a message may be empty, or is one of instructions.
        placed: The paths of instructions that a client of this protocol placed itself.
    """

    ledger: Ledger
    blocks: BlocksWriter
    canisters: Sequence[AnyCanister]
    system: list[Block] = attrs.field(factory=list)
    messages: list[dict[str, Any]] = attrs.field(factory=list)
    places: list[int | str] = attrs.field(factory=list)
    is_unusual: bool = False
    placed: set[str] = attrs.field(factory=set)
    _last: AnyCanister | None = None
    _executed: frozenset[str] | None = None

    def write_plain(self, canister: AnyCanister, position: int) -> bool:
        """Write a canister of one plain text, or a plain call; return false for any other."""
        last, role, goes_on = self._last, "assistant", False
        block: Block | None
        if type(canister) is UserCanister:
            text = read_plain(canister.content, canister.native)
            if not text or text.isspace():
                return False
            role, goes_on = "user", _is_our_result(last)
            block = {"type": "text", "text": text}
        elif type(canister) is AssistantCanister:
            text = read_plain(canister.content, canister.native)
            if not text:
                return False
            goes_on = last is not None and belongs(last, canister)
            block = {"type": "text", "text": text}
        elif type(canister) is InvocationCanister:
            block = write_plain_invocation(canister)
            goes_on = last is not None and belongs(last, canister)
        elif type(canister) is ResultCanister:
            role, goes_on = "user", _is_our_result(last)
            block = write_plain_result(canister)
        else:
            block = None
        if block is None:
            return False
        if goes_on:
            self.messages[-1]["content"].append(block)
        else:
            self.messages.append({"role": role, "content": [block]})
            self.places.append(position)
        self._last = canister
        return True

    def write(self, canister: AnyCanister, path: str) -> None:
        """Write any canister."""
        match canister:
            case SupervisorCanister():
                self._write_supervisor(canister, path)
            case UserCanister():
                self._write_user(canister, path)
            case DocumentCanister():
                extras, shared = self._open(canister, path)
                content = _write_document(canister, path, self.blocks)
                self._add("user", path, self._mark_end(content, shared, path), extras)
            case ResultCanister(owner=Owner.OURS):
                self._write_result(canister, path)
            case AssistantCanister():
                extras, shared = self._open(canister, path)
                content = self.blocks.write(canister.content, path, canister)
                content = self._mark_end(content, shared, path)
                self._add("assistant", path, content, extras, self._goes_on(canister))
            case InvocationCanister(owner=Owner.OURS):
                content = [write_invocation(canister, path, self.ledger)]
                self._add("assistant", path, content, {}, self._goes_on(canister))
            case InvocationCanister() if self._is_cut(canister):
                self.ledger.drop(
                    path, "a call that the vendor had begun to execute was interrupted"
                )
                return
            case _:
                content = write_execution(canister, path, self.ledger)
                self._add("assistant", path, content, {}, self._goes_on(canister))
        self._last = canister

    def drop_empty(self) -> None:
        """Remove empty messages, which are rejected."""
        kept = []
        for message, path in self._locate():
            if message["content"] or message.keys() - {"role", "content"}:
                kept.append((message, path))
            else:
                self.ledger.drop(path, "the vendor rejects a message without content")
        self._replace(kept)

    def _locate(self) -> list[Message]:
        """Return the messages with the paths of their canisters."""
        paths = (locate(each) if isinstance(each, int) else each for each in self.places)
        return list(zip(self.messages, paths, strict=True))

    def _replace(self, messages: Sequence[Message]) -> None:
        self.messages = [message for message, _ in messages]
        self.places = [path for _, path in messages]

    def arrange_instructions(self, *, is_taken: bool) -> None:
        """Write as the user's what the vendor takes no system message for.

        One stands behind the user, and before the model or at the end; neighbours are joined:
        https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages.
        A client of this protocol has chosen the place itself.

        Args:
            is_taken: Whether the model takes any.
        """
        settled: list[Message] = []
        following = self._find_following()
        for (message, path), next_role in zip(self._locate(), following, strict=True):
            before = settled[-1][0]["role"] if settled else "assistant"
            if not _is_plain_system(message) or (is_taken and path in self.placed):
                settled.append((message, path))
            elif before == "system" and _is_plain_system(settled[-1][0]):
                settled[-1][0]["content"] += message["content"]
            elif is_taken and before == "user" and next_role != "user":
                settled.append((message, path))
            else:
                self.ledger.coerce(path, LATE)
                settled.append(({**message, "role": "user"}, path))
        self._replace(settled)

    def _find_following(self) -> list[str]:
        """Return for each message the role of the next one that is not only instructions."""
        roles, role = [], ""
        for message in reversed(self.messages):
            roles.append(role)
            role = role if _is_plain_system(message) else message["role"]
        return roles[::-1]

    def trim(self) -> None:
        """Remove trailing blanks from a prefill, which the vendor rejects."""
        message = self.messages[-1] if self.messages else {}
        if message.get("role") != "assistant" or not message["content"]:
            return
        block = message["content"][-1]
        if block.get("type") == "text" and block["text"] != block["text"].rstrip():
            block["text"] = block["text"].rstrip()
            _, path = self._locate()[-1]
            self.ledger.coerce(
                path, "trailing blanks were removed: the vendor rejects them in the begun answer"
            )

    def _is_cut(self, canister: InvocationCanister) -> bool:
        """Return whether a call of the vendor will never have a result.

        A call in a paused turn, or in one that waits for our results, is still running.
        """
        origin = canister.origin
        is_over = origin is not None and origin.stop_reason in _CUT
        if not is_over:
            return False
        if self._executed is None:  # only a later result shows whether a call was interrupted
            self._executed = frozenset(
                each.invocation_id
                for each in self.canisters
                if isinstance(each, ResultCanister) and each.owner is Owner.VENDOR
            )
        return canister.invocation_id not in self._executed

    def _goes_on(self, canister: AnyCanister) -> bool:
        return self._last is not None and belongs(self._last, canister)

    def _add(
        self,
        role: str,
        path: str,
        content: list[Block],
        extras: dict[str, Any],
        goes_on: bool = False,
    ) -> None:
        if goes_on:
            message = self.messages[-1]
            message["content"] += content
            message.update(extras)
        else:
            self.messages.append({"role": role, "content": content, **extras})
            self.places.append(path)
            self.is_unusual |= role == "system" or not content

    def _open(self, canister: AnyCanister, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the extras of a message, and fields of any protocol, which are put on its end.

        A message of this protocol has no such field.
        """
        native = canister.native
        extras = self.ledger.read_sendable(native, path, canister, shared=SHARED)
        if native is None or native.protocol == PROTOCOL:
            return extras, {}
        return extras, {name: extras.pop(name) for name in SHARED if name in extras}

    def _mark_end(self, content: list[Block], shared: dict[str, Any], path: str) -> list[Block]:
        """Return the blocks; the last one has the fields about their message."""
        if shared and not content:
            reason = f"{', '.join(shared)}: no content can carry it"
            self.ledger.drop(f"{path}.native", reason)
        return [*content[:-1], *({**shared, **block} for block in content[-1:])]

    def _write_supervisor(self, canister: SupervisorCanister, path: str) -> None:
        extras, shared = self._open(canister, path)
        content = self.blocks.write_texts(canister.content, path, canister)
        content = self._mark_end(content, shared, path)
        if not self.messages and not extras:
            self.system += content
        else:
            self._add("system", path, content, extras)
            if "role" in extras:
                self.placed.add(path)

    def _write_user(self, canister: UserCanister, path: str) -> None:
        follows = _is_our_result(self._last)
        extras, shared = self._open(canister, path)
        content = self.blocks.write(canister.content, path, canister)
        content = self._mark_end(content, shared, path)
        # If a client's message began here, its role was kept.
        self._add("user", path, content, extras, follows and "role" not in extras)

    def _write_result(self, canister: ResultCanister, path: str) -> None:
        extras = self.ledger.read_sendable(canister.native, path, canister, shared=SHARED)
        wrapper = extras.pop("message", {})
        block: Block = {"type": "tool_result", "tool_use_id": canister.invocation_id}
        if content := self.blocks.write(canister.content, path, canister):
            block["content"] = content
        if canister.is_error:
            block["is_error"] = True
        goes_on = _is_our_result(self._last) and "role" not in wrapper
        self._add("user", path, [merge(block, extras)], wrapper, goes_on)


def write_plain_invocation(canister: InvocationCanister) -> Block | None:
    """Return the block of a plain invocation of ours; ``None`` for any other."""
    if not is_plain_call(canister):
        return None
    arguments = read_arguments(canister)
    if arguments is None:
        return None
    identity, name = canister.invocation_id, canister.name
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def write_plain_result(canister: ResultCanister) -> Block | None:
    """Return the block of a result of one visible text; ``None`` for any other."""
    text = read_plain(canister.content, canister.native)
    if not text or text.isspace() or canister.owner is not OURS:
        return None
    content = [{"type": "text", "text": text}]
    block: Block = {
        "type": "tool_result",
        "tool_use_id": canister.invocation_id,
        "content": content,
    }
    if canister.is_error:
        block["is_error"] = True
    return block


def write_invocation(canister: InvocationCanister, path: str, ledger: Ledger) -> Block:
    """Return the block of our invocation."""
    if canister.content:
        ledger.drop(f"{path}.content", "an invocation can contain only its arguments")
    block = {
        "type": "tool_use",
        "id": canister.invocation_id,
        "name": canister.name,
        "input": _read_arguments(canister, path, ledger),
    }
    return merge(block, ledger.read_sendable(canister.native, path, canister, shared=SHARED))


def _read_arguments(canister: InvocationCanister, path: str, ledger: Ledger) -> Any:
    """Return the arguments as an object, which this dialect requires."""
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
    """Return the block of a call or result of the vendor, if it is this one."""
    is_own = ledger.admits_execution(canister, path)
    return [ledger.read_sendable(canister.native, path, canister)] if is_own else []


def _write_document(canister: DocumentCanister, path: str, blocks: BlocksWriter) -> list[Block]:
    """Return the blocks of a document: one with its texts and images, then those of its files."""
    title = {} if canister.title is None else {"title": canister.title}
    written: list[Block] = []
    others: list[Block] = []
    for index, content in enumerate(canister.content):
        block = blocks.write_content(content, f"{path}.content[{index}]", canister)
        if block is None:
            continue
        if isinstance(content, FileContent):
            others.append({**title, **block})
        elif block["type"] in ("text", "image"):
            written.append(block)
        else:
            others.append(block)
    if not written:
        return others
    source: Block = {"type": "content", "content": written}
    if len(written) == 1 and written[0].keys() == {"type", "text"}:
        source = {"type": "text", "media_type": "text/plain", "data": written[0]["text"]}
    return [{"type": "document", "source": source, **title}, *others]


def _is_our_result(canister: AnyCanister | None) -> bool:
    return type(canister) is ResultCanister and canister.owner is OURS


def _is_paused(last: AnyCanister | None) -> bool:
    """Return whether the vendor paused a turn, and needs it back unchanged."""
    origin = last.origin if last is not None else None
    return origin is not None and origin.stop_reason is StopReason.PAUSED


def _is_plain_system(message: Mapping[str, Any]) -> bool:
    """Return whether a message has only instructions without native fields."""
    return message["role"] == "system" and message.keys() <= {"role", "content"}
