"""Reading of a client's messages to canisters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from vibe_llms.dialects.bedrock.calling.caching import CACHE_POINT, read_cache_point
from vibe_llms.dialects.bedrock.calling.content_blocks import normalize_block
from vibe_llms.dialects.bedrock.calling.executions import (
    is_execution,
    normalize_invocation,
    normalize_result,
    read_name,
    write_arguments,
)
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.extras import collect_extras, keep_native
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.reading import ConversationReader, read_each
from vibe_llms.dialects.serving import refuse_invalid
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    ResultCanister,
)
from vibe_llms.messages.contents import AnyContent, CacheHint, Native
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.trusting import make_text

_NAME: Final = "Amazon Bedrock's Converse"
_MESSAGE_FIELDS: Final = frozenset({"role", "content"})
_RESULT_FIELDS: Final = frozenset({"toolUseId", "content"})
_CALL_FIELDS: Final = frozenset({"toolUseId", "name", "input"})
"""Fields of a message, a result and a call that are read; others are native data."""


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
            reader.add_supervisor(tuple(map(_read_block, system)), None)
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
    _names: dict[str, str] = attrs.field(factory=dict)
    _last_role: str = ""

    def read(self, message: Mapping[str, Any], index: int) -> None:
        """Add the canisters of one message. Raises RequestError."""
        role, content = message["role"], message["content"]
        extras = collect_extras(message, _MESSAGE_FIELDS)
        if role == self._last_role:
            extras["role"] = role  # otherwise the two messages would be sent back as one
        self._last_role = role
        match role:
            case "user":
                self._read_user(content, extras)
            case "assistant":
                self._read_turn(content, extras)
            case "system":
                # Otherwise it might be sent back as the request's ``system``.
                extras["role"] = "system"
                self.add_supervisor(tuple(map(_read_block, content)), keep_native(PROTOCOL, extras))
            case role:
                path = f"messages[{index}]"
                raise RequestError(path=path, detail=f"Unknown role {role!r}.")

    def _read_user(self, content: Any, extras: dict[str, Any]) -> None:
        native = extras
        contents: list[AnyContent] = []
        for block, hint in _pair_hints(content):
            if "toolResult" not in block:
                contents.append(_read_block(block))
                contents += () if hint is None else (hint,)
                continue
            if contents:
                self.add_user(contents, keep_native(PROTOCOL, native))
                contents, native = [], {}
            self._read_result(block["toolResult"], hint, native)
            native = {}
        if contents or not content:
            self.add_user(contents, keep_native(PROTOCOL, native))

    def _read_result(
        self, result: Mapping[str, Any], hint: CacheHint | None, message_extras: dict[str, Any]
    ) -> None:
        extras = collect_extras(result, _RESULT_FIELDS)
        is_error = extras.get("status") == "error"
        if is_error:
            del extras["status"]
        if message_extras:
            extras["message"] = message_extras
        identity = result["toolUseId"]
        contents = tuple(map(_read_block, result.get("content") or ()))
        self.add_result(
            contents if hint is None else (*contents, hint),
            identity,
            self._names.get(identity),
            keep_native(PROTOCOL, extras),
            is_error=is_error,
        )

    def _read_turn(self, content: Any, extras: dict[str, Any]) -> None:
        turn_id = produce_identity()
        native: Native | None = keep_native(PROTOCOL, extras)
        contents: list[AnyContent] = []
        for block, hint in _pair_hints(content):
            call = block.get("toolUse")
            is_ours = call is not None and not is_execution(call)
            canister = None if is_ours else self._read_execution(block)
            if canister is None and not is_ours:
                contents.append(_read_block(block))
                contents += () if hint is None else (hint,)
                continue
            if contents or native is not None:
                self.add_answer(contents, turn_id, native)
                contents, native = [], None
            if canister is None:
                self._read_call(call, turn_id, hint)
                continue
            self.add_canister(attrs.evolve(canister, turn_id=turn_id))
            contents += () if hint is None else (hint,)
        if contents or native is not None or not content:
            self.add_answer(contents, turn_id, native)

    def _read_call(self, call: Mapping[str, Any], turn_id: str, hint: CacheHint | None) -> None:
        identity, name = call["toolUseId"], call["name"]
        self._names[identity] = name
        native = keep_native(PROTOCOL, collect_extras(call, _CALL_FIELDS))
        arguments = write_arguments(call.get("input"))
        self.add_call(identity, name, arguments, turn_id, native, hint=hint)

    def _read_execution(
        self, block: Mapping[str, Any]
    ) -> InvocationCanister | ResultCanister | None:
        """Return a call that the service executed itself, or its result; ``None`` for others."""
        if "toolUse" in block:
            self._names[block["toolUse"]["toolUseId"]] = read_name(block["toolUse"])
            return normalize_invocation(block)
        return normalize_result(block, self._names) if "toolResult" in block else None


def _pair_hints(content: Any) -> Iterator[tuple[Any, CacheHint | None]]:
    """Yield each block with the hint of the cache point after it; further ones are blocks."""
    previous: Any = None
    for block in content:
        hint = read_cache_point(block) if previous is not None and CACHE_POINT in block else None
        if hint is not None:
            yield previous, hint
            previous = None
            continue
        if previous is not None:
            yield previous, None
        previous = block
    if previous is not None:
        yield previous, None


def _read_block(block: Mapping[str, Any]) -> AnyContent:
    """Return the content of a block; most are plain texts."""
    if len(block) == 1 and block.get("text").__class__ is str:
        return make_text(block["text"])
    return read_cache_point(block) or normalize_block(block)
