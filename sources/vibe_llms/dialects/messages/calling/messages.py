"""Translation of canisters to the messages of a request.

The order of all contents is kept. A turn of the model is one message. The results of the turn and
the user's next contents are the next message. Other boundaries between messages in the client's
request are restored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.cache_hints import add_cache_control
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.history import (
    HistoryRules,
    RepairedHistory,
    belongs,
    locate,
    repair_history,
)
from vibe_llms.dialects.instructions import LATE, Message, accepts_late_instructions
from vibe_llms.dialects.invocations import BROKEN_ARGUMENTS
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.calling.blocks import Block, BlocksWriter
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
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
    StopReason,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import CacheHint, FileContent
from vibe_llms.messages.losses import Translation
from vibe_llms.models.attributes import ModelAttributes

RULES: Final = HistoryRules(id_pattern=r"[a-zA-Z0-9_-]+", alias_prefix="toolu_")
"""The pattern is from the vendor's reference. It rejects any other id with status 400."""

_INTERRUPTING_REASONS: Final = frozenset(
    {
        StopReason.FAILED,
        StopReason.FILTERED,
        StopReason.INTERRUPTED,
        StopReason.LIMIT,
        StopReason.OVERFLOW,
        StopReason.REFUSED,
    }
)
"""Stop reasons with which a turn may end while the vendor is executing a call."""


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
    blocks = BlocksWriter(ledger=ledger, attributes=attributes)
    writer = _MessagesWriter(ledger=ledger, blocks=blocks, canisters=canisters)
    writer.write_all(repair_history(canisters, RULES, ledger))
    if writer.needs_arrangement:
        writer.drop_empty_messages()
        writer.arrange_instructions(is_accepted=accepts_late_instructions(attributes))
    if continuation and not _is_paused(canisters[-1] if canisters else None):
        writer.trim_prefill()
    system = {"system": writer.system} if writer.system else {}
    return Translation({**system, "messages": writer.messages}, ledger.losses)


@define(kw_only=True)
class _MessagesWriter:
    """Writes the messages of a conversation.

    Attributes:
        canisters: The whole conversation.
        system: The blocks of the instructions at the beginning.
        messages: The messages so far.
        locations: For each message, the position or the path of its first canister.
        needs_arrangement: Whether a message may be empty, or has instructions.
        own_positions: The paths of instructions whose position a client of this protocol chose.
    """

    ledger: Ledger
    blocks: BlocksWriter
    canisters: Sequence[AnyCanister]
    system: list[Block] = attrs.field(factory=list)
    messages: list[dict[str, Any]] = attrs.field(factory=list)
    locations: list[int | str] = attrs.field(factory=list)
    needs_arrangement: bool = False
    own_positions: set[str] = attrs.field(factory=set)
    _last: AnyCanister | None = None
    _executed: frozenset[str] | None = None

    def write_all(self, history: RepairedHistory) -> None:
        """Write a conversation; plain texts, calls and results here, which is the fastest."""
        messages, locations = self.messages, self.locations
        canister: Any
        last: AnyCanister | None = None
        may_continue = False  # whether the last canister may be of the model
        for canister, position, text in history.read():
            kind = type(canister)
            role, continues = "user", False
            block: Block | None = None
            if kind is UserCanister:
                if text and not text.isspace():
                    block = {"type": "text", "text": text}
                    continues = type(last) is ResultCanister and last.owner is OURS
            elif kind is ResultCanister:
                block = write_plain_result(canister, text)
                continues = type(last) is ResultCanister and last.owner is OURS
            elif kind is AssistantCanister or kind is InvocationCanister:
                role = "assistant"
                if kind is InvocationCanister:
                    block = write_plain_invocation(canister)
                elif text:
                    block = {"type": "text", "text": text}
                if may_continue and last is not None:
                    continues = belongs(last, canister)
            if block is None:
                self._last = last
                self.write(canister, locate(position))
                last, may_continue = self._last, True
                continue
            if continues:
                messages[-1]["content"].append(block)
            else:
                messages.append({"role": role, "content": [block]})
                locations.append(position)
            last, may_continue = canister, role == "assistant"

    def write(self, canister: AnyCanister, path: str) -> None:
        """Write any canister."""
        match canister:
            case SupervisorCanister():
                self._write_supervisor(canister, path)
            case UserCanister():
                self._write_user(canister, path)
            case DocumentCanister():
                content = _write_document(canister, path, self.blocks)
                self._add("user", path, content, self._read_extras(canister, path))
            case ResultCanister(owner=Owner.OURS):
                self._write_result(canister, path)
            case AssistantCanister():
                extras = self._read_extras(canister, path)
                content = self.blocks.write(canister.content, path, canister)
                self._add("assistant", path, content, extras, self._continues(canister))
            case InvocationCanister(owner=Owner.OURS):
                content = [write_invocation(canister, path, self.ledger)]
                self._add("assistant", path, content, {}, self._continues(canister))
            case InvocationCanister() if self._was_interrupted(canister):
                self.ledger.drop(
                    path, "a call that the vendor had begun to execute was interrupted"
                )
                return
            case _:
                content = write_execution(canister, path, self.ledger)
                self._add("assistant", path, content, {}, self._continues(canister))
        self._last = canister

    def drop_empty_messages(self) -> None:
        """Remove empty messages, which the vendor rejects."""
        remaining = []
        for message, path in self._pair_paths():
            if message["content"] or message.keys() - {"role", "content"}:
                remaining.append((message, path))
            else:
                self.ledger.drop(path, "the vendor rejects a message without content")
        self._replace(remaining)

    def _pair_paths(self) -> list[Message]:
        """Return the messages with the paths of their canisters."""
        paths = (locate(each) if isinstance(each, int) else each for each in self.locations)
        return list(zip(self.messages, paths, strict=True))

    def _replace(self, messages: Sequence[Message]) -> None:
        self.messages = [message for message, _ in messages]
        self.locations = [path for _, path in messages]

    def arrange_instructions(self, *, is_accepted: bool) -> None:
        """Convert system messages that the vendor would reject to user messages.

        A system message must follow a user message, and precede a message of the model or the end.
        Adjacent ones are joined:
        https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages.
        Positions that a client of this protocol chose are kept.

        Args:
            is_accepted: Whether the model accepts system messages within a conversation.
        """
        arranged: list[Message] = []
        next_roles = self._find_next_roles()
        for (message, path), next_role in zip(self._pair_paths(), next_roles, strict=True):
            previous_role = arranged[-1][0]["role"] if arranged else "assistant"
            if not _is_plain_system(message) or (is_accepted and path in self.own_positions):
                arranged.append((message, path))
            elif previous_role == "system" and _is_plain_system(arranged[-1][0]):
                arranged[-1][0]["content"] += message["content"]
            elif is_accepted and previous_role == "user" and next_role != "user":
                arranged.append((message, path))
            else:
                self.ledger.coerce(path, LATE)
                arranged.append(({**message, "role": "user"}, path))
        self._replace(arranged)

    def _find_next_roles(self) -> list[str]:
        """Return, for each message, the role of the next message that is not only instructions."""
        roles, role = [], ""
        for message in reversed(self.messages):
            roles.append(role)
            role = role if _is_plain_system(message) else message["role"]
        return roles[::-1]

    def trim_prefill(self) -> None:
        """Remove trailing blanks from a prefill, which the vendor rejects."""
        message = self.messages[-1] if self.messages else {}
        if message.get("role") != "assistant" or not message["content"]:
            return
        block = message["content"][-1]
        if block.get("type") == "text" and block["text"] != block["text"].rstrip():
            block["text"] = block["text"].rstrip()
            _, path = self._pair_paths()[-1]
            self.ledger.coerce(
                path, "trailing blanks were removed: the vendor rejects them in the begun answer"
            )

    def _was_interrupted(self, canister: InvocationCanister) -> bool:
        """Return whether the vendor's execution of a call was interrupted, without a result.

        In a paused turn, or one that waits for our results, the call is still running.
        """
        origin = canister.origin
        is_over = origin is not None and origin.stop_reason in _INTERRUPTING_REASONS
        if not is_over:
            return False
        if self._executed is None:  # needed, as a result may come later
            self._executed = frozenset(
                each.invocation_id
                for each in self.canisters
                if isinstance(each, ResultCanister) and each.owner is Owner.VENDOR
            )
        return canister.invocation_id not in self._executed

    def _continues(self, canister: AnyCanister) -> bool:
        return self._last is not None and belongs(self._last, canister)

    def _add(
        self,
        role: str,
        path: str,
        content: list[Block],
        extras: dict[str, Any],
        continues: bool = False,
    ) -> None:
        if continues:
            message = self.messages[-1]
            message["content"] += content
            message.update(extras)
        else:
            self.messages.append({"role": role, "content": content, **extras})
            self.locations.append(path)
            if role == "system" or not content:
                self.needs_arrangement = True

    def _read_extras(self, canister: AnyCanister, path: str) -> dict[str, Any]:
        return self.ledger.read_sendable(canister.native, path, canister)

    def _write_supervisor(self, canister: SupervisorCanister, path: str) -> None:
        extras = self._read_extras(canister, path)
        content = self.blocks.write_texts(canister.content, path, canister)
        if not self.messages and not extras:
            self.system += content
        else:
            self._add("system", path, content, extras)
            if "role" in extras:
                self.own_positions.add(path)

    def _write_user(self, canister: UserCanister, path: str) -> None:
        follows_result = _is_our_result(self._last)
        extras = self._read_extras(canister, path)
        content = self.blocks.write(canister.content, path, canister)
        # If a client's message began with this canister, the role is in the extras.
        self._add("user", path, content, extras, follows_result and "role" not in extras)

    def _write_result(self, canister: ResultCanister, path: str) -> None:
        extras = self._read_extras(canister, path)
        message_extras = extras.pop("message", {})
        block: Block = {"type": "tool_result", "tool_use_id": canister.invocation_id}
        contents = canister.content
        hint = contents[-1] if contents else None
        if isinstance(hint, CacheHint):  # it marks the whole result
            contents = contents[:-1]
        if content := self.blocks.write(contents, path, canister):
            block["content"] = content
        if canister.is_error:
            block["is_error"] = True
        if isinstance(hint, CacheHint):
            block = add_cache_control(block, hint, f"{path}.content[{len(contents)}]", self.ledger)
        continues = _is_our_result(self._last) and "role" not in message_extras
        self._add("user", path, [merge(block, extras)], message_extras, continues)


def write_plain_invocation(canister: InvocationCanister) -> Block | None:
    """Return the block of a plain call of our invocable; ``None`` for any other call."""
    arguments = read_arguments(canister)
    if arguments is None:
        return None
    identity, name = canister.invocation_id, canister.name
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def write_plain_result(canister: ResultCanister, text: str | None) -> Block | None:
    """Return the block of a result with one visible text; ``None`` for any other result."""
    if not text or text.isspace() or canister.owner is not OURS:
        return None
    content = [{"type": "text", "text": text}]
    identity = canister.invocation_id
    block: Block = {"type": "tool_result", "tool_use_id": identity, "content": content}
    if canister.is_error:
        block["is_error"] = True
    return block


def write_invocation(canister: InvocationCanister, path: str, ledger: Ledger) -> Block:
    """Return the block of a call of our invocable."""
    block: Block = {
        "type": "tool_use",
        "id": canister.invocation_id,
        "name": canister.name,
        "input": _read_arguments(canister, path, ledger),
    }
    for place, content in enumerate(canister.content):
        content_path = f"{path}.content[{place}]"
        if type(content) is CacheHint:
            block = add_cache_control(block, content, content_path, ledger)
        else:
            ledger.drop(content_path, "an invocation can contain only its arguments")
    return merge(block, ledger.read_sendable(canister.native, path, canister))


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


def _write_document(canister: DocumentCanister, path: str, blocks: BlocksWriter) -> list[Block]:
    """Return the blocks of a document: one with all texts and images, then one for each file."""
    title = {"title": canister.title} if canister.title else {}
    framed: list[Block] = []
    file_blocks: list[Block] = []
    hints: list[tuple[CacheHint, str]] = []
    for index, content in enumerate(canister.content):
        content_path = f"{path}.content[{index}]"
        if type(content) is CacheHint:  # all of them mark the end of the document
            hints.append((content, content_path))
            continue
        block = blocks.write_content(content, content_path, canister)
        if block is None:
            continue
        if isinstance(content, FileContent):
            file_blocks.append({**title, **block})
        elif block["type"] in ("text", "image"):
            framed.append(block)
        else:
            file_blocks.append(block)
    written = file_blocks
    if framed:
        source: Block = {"type": "content", "content": framed}
        if len(framed) == 1 and framed[0].keys() == {"type", "text"}:
            source = {"type": "text", "media_type": "text/plain", "data": framed[0]["text"]}
        written = [{"type": "document", "source": source, **title}, *file_blocks]
    for hint, content_path in hints:
        blocks.mark_last(written, hint, content_path)
    return written


def _is_our_result(canister: AnyCanister | None) -> bool:
    return type(canister) is ResultCanister and canister.owner is OURS


def _is_paused(last: AnyCanister | None) -> bool:
    """Return whether the vendor has paused the last turn, which it then needs unchanged."""
    origin = last.origin if last is not None else None
    return origin is not None and origin.stop_reason is StopReason.PAUSED


def _is_plain_system(message: Mapping[str, Any]) -> bool:
    """Return whether a message has only instructions without native fields."""
    return message["role"] == "system" and message.keys() <= {"role", "content"}
