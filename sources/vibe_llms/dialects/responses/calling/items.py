"""Items of a client's request or of a response, as canisters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.extras import NAMELESS, collect_extras, keep_native, make_native, write_json
from vibe_llms.dialects.openai_caching import take_mark
from vibe_llms.dialects.responses.calling import hosted
from vibe_llms.dialects.responses.calling.parts import read_part
from vibe_llms.dialects.responses.namespaces import QualifiedName, name_call
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    ModelContent,
    Native,
    NativeContent,
    ReasoningContent,
)
from vibe_llms.messages.trusting import make_text

SUPERVISOR_ITEMS: Final = frozenset({"additional_tools", "configuration_update"})
USER_ITEMS: Final = frozenset({"compaction_trigger"})
"""Types of items that become canisters of a supervisor, or of a user."""

NATIVE_ITEMS: Final = (
    SUPERVISOR_ITEMS
    | USER_ITEMS
    | {
        "compaction",
        "item_reference",
        "mcp_list_tools",
    }
)
"""Items without a common counterpart."""

CUSTOM_NOTE: Final = "$custom"
"""Note on a result of a custom tool."""

_NO_NAMES: Final[Mapping[QualifiedName, str]] = {}


def read_item(
    item: Mapping[str, Any],
    owners: Mapping[str, Owner],
    names: Mapping[QualifiedName, str] = _NO_NAMES,
) -> list[AnyCanister]:
    """Return the canisters of an item: one, or two if the item is a call with its result.

    Args:
        owners: Executors of earlier calls, by their ids.
        names: Names in the conversation of tools in namespaces, by qualified name.

    Raises:
        KeyError, TypeError, AttributeError: The item is invalid.
    """
    kind = item.get("type") or "message"
    match kind:
        case "message":
            return [_read_message(item)]
        case "reasoning":
            return [_read_reasoning(item)]
        case "function_call" | "custom_tool_call":
            return [InvocationCanister(**read_call(item, names))]
        case "function_call_output" | "custom_tool_call_output":
            return [ResultCanister(**read_output(item, takes_hints=False))]
    if kind in hosted.CALLS or (kind.endswith("_call") and kind not in NATIVE_ITEMS):
        invocation = hosted.read_call(item)
        result = hosted.read_included_result(item, invocation)
        return [invocation] if result is None else [invocation, result]
    if kind in hosted.OUTPUTS:
        return [hosted.read_tool_output(item, _find_executor(item, owners))]
    return [_read_native(item)]


def _find_executor(item: Mapping[str, Any], owners: Mapping[str, Owner]) -> Owner:
    """Return the executor of the call that an item answers; by its type if the call is unknown."""
    known = owners.get(hosted.identify(item))
    if known is not None:
        return known
    if item["type"] == "tool_search_output":
        return Owner.OURS if item.get("execution") == "client" else Owner.VENDOR
    return Owner.VENDOR if item["type"] == "program_output" else Owner.OURS


def _read_message(item: Mapping[str, Any]) -> AnyCanister:
    role = item.get("role")
    if role in (None, "assistant"):
        contents, native = read_model_message(item)
        # Without contents, native content keeps the item.
        return AssistantCanister(contents, native=native) if contents else _read_native(item)
    if role not in ROLES:
        return _read_native(item)
    inputs, native = read_input_message(item, takes_hints=False)
    return (UserCanister if role == "user" else SupervisorCanister)(inputs, native=native)


ROLES: Final = ("user", "system", "developer")
"""Roles of messages for the model."""

_MESSAGE_FIELDS: Final = frozenset({"role", "content", "type"})
"""Fields of a message that are read."""


def read_input_message(
    item: Mapping[str, Any], *, takes_hints: bool = True
) -> tuple[Sequence[AnyContent], Native | None]:
    """Return the contents of a message for the model, and its native data.

    Args:
        takes_hints: Whether to read marks for prompt caches, which only requests can have.
    """
    contents = _read_input(item.get("content"), takes_hints)
    extras = collect_extras(item, _MESSAGE_FIELDS)
    if item["role"] == "developer":
        extras = {"role": "developer", **extras}
    return contents, keep_native(PROTOCOL, extras)


def read_model_message(item: Mapping[str, Any]) -> tuple[Sequence[ModelContent], Native | None]:
    """Return the contents of the model's message, and its native data."""
    contents = _read_contents(item.get("content"), "output_text")
    extras = collect_extras(item, _MESSAGE_FIELDS)
    if len(contents) > 1 and not item.get("id"):  # otherwise an id would be generated
        extras |= NAMELESS
    return contents, keep_native(PROTOCOL, extras)


def _read_contents(content: Any, text_type: str) -> Sequence[ModelContent]:
    if isinstance(content, str):
        return (make_text(content),)
    if content is None:
        return ()
    return [read_part(part, text_type) for part in content]


def _read_input(content: Any, takes_hints: bool) -> Sequence[AnyContent]:
    """Return the contents of a message for the model or of a result."""
    if isinstance(content, str) or not takes_hints:
        return _read_contents(content, "input_text")
    contents: list[AnyContent] = []
    for part in content or ():
        part, hint = take_mark(part)
        contents.append(read_part(part, "input_text"))
        if hint is not None:
            contents.append(hint)
    return contents


def _read_reasoning(item: Mapping[str, Any]) -> AnyCanister:
    """Decode reasoning; empty fields are kept, as they may be signed."""
    summary, content = item.get("summary") or (), item.get("content") or ()
    if not (_are_texts(summary, "summary_text") and _are_texts(content, "reasoning_text")):
        return _read_native(item)
    # Parts with other fields than their text are kept, too.
    are_plain = {"summary": _are_plain(summary), "content": _are_plain(content)}
    known = (name for name in _REASONING_FIELDS if item.get(name) and are_plain.get(name, True))
    extras = collect_extras(item, ("type", *known))
    texts = [part["text"] for part in content]
    if len(texts) > 1 and are_plain["content"]:
        extras["$lengths"] = [len(text) for text in texts]  # to split them again
    reasoning = ReasoningContent(
        text="".join(texts),
        summary=tuple(part["text"] for part in summary),
        signature=item.get("encrypted_content") or None,
        native=make_native(PROTOCOL, extras),
    )
    return AssistantCanister((reasoning,))


_REASONING_FIELDS: Final = ("summary", "content", "encrypted_content")


def _are_texts(parts: Any, kind: str) -> bool:
    return all(
        isinstance(part, Mapping) and part.get("type") == kind and isinstance(part.get("text"), str)
        for part in parts
    )


def _are_plain(parts: Any) -> bool:
    return all(part.keys() == {"type", "text"} for part in parts)


_CALL_FIELDS: Final = {
    kind: frozenset({"type", field, "name", "call_id"})
    for kind, field in (("function_call", "arguments"), ("custom_tool_call", "input"))
}
_RESULT_FIELDS: Final = frozenset({"call_id", "output", "type"})
"""Fields of a call, by its type, and of a result that are read."""


def read_call(item: Mapping[str, Any], names: Mapping[QualifiedName, str]) -> dict[str, Any]:
    """Return the fields of the canister of a function's call."""
    is_custom = item["type"] == "custom_tool_call"
    field = "input" if is_custom else "arguments"
    arguments = item.get(field)
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else write_json(arguments)
    call_id = item.get("call_id")
    name, note = name_call(item, names)
    known = _CALL_FIELDS[item["type"]] if call_id else _CALL_FIELDS[item["type"]] - {"call_id"}
    extras = collect_extras(item, known | {"namespace"} if note else known)
    return {
        "invocation_id": str(call_id or item.get("id") or ""),
        "name": name,
        "arguments": arguments,
        "form": "text" if is_custom else "json",
        "native": keep_native(PROTOCOL, extras | note),
    }


def read_output(item: Mapping[str, Any], *, takes_hints: bool = True) -> dict[str, Any]:
    """Return the fields of the canister of a function's result.

    Args:
        takes_hints: See :func:`read_input_message`.
    """
    output, name = item.get("output"), item.get("name")
    contents = () if output == "" else _read_input(output, takes_hints)
    extras = collect_extras(item, _RESULT_FIELDS)
    if item["type"] == "custom_tool_call_output":
        extras[CUSTOM_NOTE] = True
    return {
        "content": contents,
        "invocation_id": str(item.get("call_id") or ""),
        "name": name if isinstance(name, str) else None,
        "native": keep_native(PROTOCOL, extras),
    }


def _read_native(item: Mapping[str, Any]) -> AnyCanister:
    kind = str(item.get("type") or "message")
    text = item.get("text")
    content = NativeContent(
        kind=kind,
        native=make_native(PROTOCOL, item),
        text=text if isinstance(text, str) else "",
    )
    native = mark_item()
    if kind in SUPERVISOR_ITEMS:
        return SupervisorCanister((content,), native=native)
    if kind in USER_ITEMS:
        return UserCanister((content,), native=native)
    return AssistantCanister((content,), native=native)


def mark_item() -> Native:
    """Return the note on a canister whose native content is an item, not a part."""
    return make_native(PROTOCOL, {"$item": True})
