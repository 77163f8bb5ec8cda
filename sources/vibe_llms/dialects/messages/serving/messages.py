"""Reading of a client's messages to canisters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.cache_hints import CACHE_CONTROL, take_cache_control
from vibe_llms.dialects.executions import leave_to_its_vendor
from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.messages.calling.content_blocks import normalize_block
from vibe_llms.dialects.messages.calling.executions import (
    is_invocation,
    is_result,
    normalize_invocation,
    normalize_result,
    read_name,
    write_arguments,
)
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.reading import ConversationReader, read_each
from vibe_llms.dialects.serving import refuse_invalid
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import AnyContent, CacheHint, Native
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.trusting import make_text

_NAME: Final = "Anthropic Messages"
_MESSAGE_FIELDS: Final = frozenset({"role", "content"})
_RESULT_FIELDS: Final = frozenset({"type", "tool_use_id", "content", "is_error"})
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "input"})
"""Fields of a message, a result and a call that are read; others are native data."""

_TEXT_ROLES: Final = ("user", "assistant")
_ANSWER_ROLES: Final = ("assistant",)


def normalize_messages(
    native: Mapping[str, Any], cache: ClientPrefixes | None = None
) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``system`` and ``messages``.

    Args:
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: A message is invalid.
    """
    reader = _MessagesReader()
    if system := native.get("system"):
        with refuse_invalid("The message at system", _NAME, "system"):
            reader.read_system(system)
    reader = read_each(
        reader,
        native.get("messages") or (),
        kind="message",
        field="messages",
        protocol=_NAME,
        context=system,
        cache=cache,
    )
    return reader.finish()


@define
class _MessagesReader(ConversationReader):
    text_roles: tuple[str, ...] = attrs.field(default=_TEXT_ROLES, init=False)
    _names: dict[str, str] = attrs.field(factory=dict)

    def read_system(self, content: Any) -> None:
        """Add the instructions of the request."""
        self.add_supervisor(_read_contents(content), None)

    def read(self, message: Mapping[str, Any], index: int) -> None:
        """Add the canisters of one message. Raises RequestError."""
        role = message["role"]
        content: Any = message.get("content")
        extras = collect_extras(message, _MESSAGE_FIELDS)
        match role:
            case "user":
                if self._follows_result():
                    extras["role"] = "user"  # otherwise the two messages would be sent back as one
                self._read_user(content, extras)
            case "assistant":
                self._read_turn(content, extras)
            case "system":
                # Otherwise it might be sent back as the request's ``system``.
                extras["role"] = "system"
                self.add_supervisor(_read_contents(content), keep_native(PROTOCOL, extras))
            case role:
                path = f"messages[{index}]"
                raise RequestError(path=path, detail=f"Unknown role {role!r}.")
        self.text_roles = _ANSWER_ROLES if self._follows_result() else _TEXT_ROLES

    def _follows_result(self) -> bool:
        """Return whether the last canister is a result, after which a user's text is marked."""
        last = self.canisters[-1] if self.canisters else None
        return type(last) is ResultCanister and last.owner is Owner.OURS

    def _read_user(self, content: Any, extras: dict[str, Any]) -> None:
        native = extras
        if isinstance(content, str):
            self.add_user((make_text(content),), keep_native(PROTOCOL, native))
            return
        contents: list[AnyContent] = []
        for block in content or ():
            if block["type"] != "tool_result":
                contents += _read_block(block)
                continue
            if contents:
                self.add_user(contents, keep_native(PROTOCOL, native))
                contents, native = [], {}
            self._read_result(block, native)
            native = {}
        if contents or not content:
            self.add_user(contents, keep_native(PROTOCOL, native))

    def _read_result(self, block: Mapping[str, Any], message_extras: dict[str, Any]) -> None:
        hint: CacheHint | None = None
        if CACHE_CONTROL in block:
            block, hint = take_cache_control(block)
        extras = collect_extras(block, _RESULT_FIELDS)
        if message_extras:
            extras["message"] = message_extras
        identity = block["tool_use_id"]
        self.add_result(
            _read_result_contents(block.get("content"), hint),
            identity,
            self._names.get(identity),
            keep_native(PROTOCOL, extras),
            is_error=block.get("is_error") is True,
        )

    def _read_turn(self, content: Any, extras: dict[str, Any]) -> None:
        turn_id = produce_identity()
        native: Native | None = keep_native(PROTOCOL, extras)
        if isinstance(content, str):
            self.add_answer((make_text(content),), turn_id, native)
            return
        contents: list[AnyContent] = []
        for block in content or ():
            is_call = block["type"] == "tool_use"
            canister = None if is_call else self._read_execution(block)
            if canister is None and not is_call:
                contents += _read_block(block)
                continue
            if contents or native is not None:
                self.add_answer(contents, turn_id, native)
                contents, native = [], None
            if canister is None:
                self._read_call(block, turn_id)
            else:
                identity = block.get("id") or block.get("tool_use_id")
                own = leave_to_its_vendor(canister, identity)
                self.add_canister(attrs.evolve(own, turn_id=turn_id))
        if contents or native is not None or not content:
            self.add_answer(contents, turn_id, native)

    def _read_call(self, block: Mapping[str, Any], turn_id: str) -> None:
        identity, name = block["id"], block["name"]
        self._names[identity] = name
        hint = None
        if CACHE_CONTROL in block:
            block, hint = take_cache_control(block)
        native = keep_native(PROTOCOL, collect_extras(block, _CALL_FIELDS))
        arguments = write_arguments(block.get("input"))
        self.add_call(identity, name, arguments, turn_id, native, hint=hint)

    def _read_execution(
        self, block: Mapping[str, Any]
    ) -> InvocationCanister | ResultCanister | None:
        """Return a call that the vendor executed itself, or its result; ``None`` for others."""
        if block["type"] == "text":
            return None
        if is_invocation(block):
            self._names[block["id"]] = read_name(block)
            return normalize_invocation(block)
        return normalize_result(block, self._names) if is_result(block) else None


def _read_result_contents(content: Any, hint: CacheHint | None) -> Sequence[AnyContent]:
    """Return the contents of a result and its own hint.

    A hint at the end is that of the whole result, so that a mark on its last block stays native.
    """
    if hint is None and (content.__class__ is str or not content):
        return (make_text(content),) if content else ()
    if content.__class__ is str:
        return (make_text(content), hint) if hint else (make_text(content),)
    contents = [*_read_contents(content[:-1]), *map(normalize_block, content[-1:])]
    return contents if hint is None else [*contents, hint]


def _read_contents(content: Any) -> Sequence[AnyContent]:
    """Return the contents of instructions or a result: a text, or a list of blocks."""
    if isinstance(content, str):
        return (make_text(content),)
    return list(itertools.chain.from_iterable(map(_read_block, content or ())))


def _read_block(block: Mapping[str, Any]) -> Sequence[AnyContent]:
    """Return the content of a block, and its cache hint; most are plain texts without one."""
    if len(block) == 2 and block.get("type") == "text" and block.get("text").__class__ is str:
        return (make_text(block["text"]),)
    if CACHE_CONTROL not in block:
        return (normalize_block(block),)
    block, hint = take_cache_control(block)
    content = normalize_block(block)
    return (content,) if hint is None else (content, hint)
