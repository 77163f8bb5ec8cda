"""A client's steps as canisters, for gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.executions import leave_to_its_vendor
from vibe_llms.dialects.extras import collect_extras, keep_native, make_native, write_json
from vibe_llms.dialects.interactions.calling.contents import (
    read_content,
    read_summary,
)
from vibe_llms.dialects.interactions.calling.steps import read_vendor_step
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.tables import JSON_TYPE, MEDIA_KINDS
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.reading import ConversationReader, read_each
from vibe_llms.dialects.serving import refuse_invalid
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    AnyContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation

_NAME: Final = "Interactions"
_CONTENTS: Final = frozenset({"text", *MEDIA_KINDS})
_MESSAGE_FIELDS: Final = frozenset({"type", "content"})
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "arguments"})
_RESULT_FIELDS: Final = frozenset({"type", "call_id", "name", "is_error", "result"})


def normalize_messages(
    native: Mapping[str, Any], cache: ClientPrefixes | None = None
) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``system_instruction`` and ``input``.

    Lossless: other fields become native data of the content or canister.

    Args:
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: A step is invalid.
    """
    reader = _StepsReader()
    system = native.get("system_instruction")
    if system is not None:
        with refuse_invalid("The system_instruction", _NAME, "system_instruction"):
            reader.read_system(system)
    reader = read_each(
        reader,
        list_steps(native.get("input")),
        kind="step",
        field="input",
        protocol=_NAME,
        context=system,
        cache=cache,
    )
    return reader.finish()


def list_steps(value: Any) -> list[Any]:
    """Return the steps of an input, which may be a text, one or several contents, or steps."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [{"type": "user_input", "content": [{"type": "text", "text": value}]}]
    entries = [value] if isinstance(value, Mapping) else value
    if not isinstance(entries, list):
        raise RequestError(path="input", detail="The input is not a text or a list of steps.")
    if entries and all(_is_content(entry) for entry in entries):
        return [{"type": "user_input", "content": entries}]
    return entries


def _is_content(entry: Any) -> bool:
    return isinstance(entry, Mapping) and entry.get("type") in _CONTENTS


@define
class _StepsReader(ConversationReader):
    """Reads steps in order; those of the model share a turn until the next input."""

    _turn_id: str | None = attrs.field(default=None, init=False)

    def read_system(self, system: Any) -> None:
        """Add the request's instructions: a text, or contents."""
        if isinstance(system, str):
            self.add_supervisor([TextualContent(system)], None)
            return
        contents = system.get("parts", [system]) if isinstance(system, Mapping) else system
        self.add_supervisor([_read_any(each) for each in contents], None)

    def read(self, step: Any, index: int) -> None:
        """Add the canisters of one step. Raises RequestError."""
        if isinstance(step, str):
            step = {"type": "user_input", "content": [{"type": "text", "text": step}]}
        kind = step.get("type")
        if not isinstance(kind, str):
            raise RequestError(path=f"input[{index}].type", detail="A step has no type.")
        if kind == "user_input":
            self._turn_id = None
            contents, native = _open_message(step)
            self.add_user(contents, native)
        elif kind == "function_result":
            self._turn_id = None
            self._read_result(step)
        elif _is_content(step):
            self._turn_id = None
            self.add_user([read_content(step)], None)
        else:
            self._turn_id = self._turn_id or produce_identity()
            self._read_answer(kind, step, self._turn_id)

    def _read_answer(self, kind: str, step: Mapping[str, Any], turn_id: str) -> None:
        if kind == "model_output":
            contents, native = _open_message(step)
            self.add_answer(contents, turn_id, native)
        elif kind == "thought":
            self.add_answer([_read_thought(step)], turn_id, None)
        elif kind == "function_call":
            extras = collect_extras(step, _CALL_FIELDS)
            arguments = write_json(step.get("arguments") or {})
            native = keep_native(PROTOCOL, extras)
            self.add_call(step["id"], step["name"], arguments, turn_id, native)
        else:
            item = read_vendor_step(step, f"call_{produce_identity()}", turn_id)
            if isinstance(item, NativeContent):
                self.add_answer([item], turn_id, None)
            else:
                self.add_canister(leave_to_its_vendor(item, item.invocation_id))

    def _read_result(self, step: Mapping[str, Any]) -> None:
        extras = collect_extras(step, _RESULT_FIELDS)
        self.add_result(
            _read_result_contents(step.get("result")),
            step["call_id"],
            step.get("name"),
            keep_native(PROTOCOL, extras),
            is_error=bool(step.get("is_error")),
        )


def _open_message(step: Mapping[str, Any]) -> tuple[list[AnyContent], Any]:
    """Return the contents of a message, and its native data."""
    content = step.get("content") or []
    if isinstance(content, str | Mapping):
        content = [content]
    contents = [_read_any(each) for each in content]
    return contents, keep_native(PROTOCOL, collect_extras(step, _MESSAGE_FIELDS))


def _read_any(content: Any) -> AnyContent:
    if isinstance(content, str):
        return TextualContent(content)
    if "type" not in content and "text" in content:
        content = {"type": "text", **content}
    return read_content(content)


def _read_thought(step: Mapping[str, Any]) -> ReasoningContent:
    text, extras = read_summary(step)
    return ReasoningContent(
        text=text, signature=step.get("signature") or None, native=make_native(PROTOCOL, extras)
    )


def _read_result_contents(result: Any) -> Sequence[AnyContent]:
    if result is None or result in ("", []):
        return []
    if isinstance(result, str):
        return [TextualContent(result)]
    if isinstance(result, list) and all(map(_is_content, result)):
        return [read_content(each) for each in result]
    return [TextualContent(write_json(result), mime_type=JSON_TYPE)]
