"""How a whole response was written, where the same can be written in several ways.

A field that is null, empty or not there at all, and the places of calls, say nothing that has a
common word. They end beside the response, so that it can be written as it was; a request never
holds them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.chat_completions.calls import find_kind
from vibe_llms.dialects.chat_completions.residues import mark_absent

ANSWER: Final = "$answer"
"""Where a residue says which of the choices is the answer, if not the first."""
_EMPTY: Final[tuple[object, ...]] = (None, "", [], {}, False)


def spell_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is unusual about the fields around the choices."""
    empty = {name: body[name] for name in ("id", "model") if _is_empty(body, name)}
    if _is_empty(body, "usage") or not isinstance(body.get("usage", {}), Mapping):
        empty["usage"] = body["usage"]
    if body.get("object", "chat.completion") != "chat.completion":
        empty["object"] = body["object"]
    return empty


def find_answer(choices: Sequence[Mapping[str, Any]]) -> int | None:
    """Returns the place of the choice that is the answer: the first of the lowest number."""
    said = [choice.get("index") for choice in choices]
    numbers = [place if number is None else float(number) for place, number in enumerate(said)]
    return min(range(len(choices)), key=lambda place: numbers[place], default=None)


def spell_choices(body: Mapping[str, Any], answer: int | None) -> dict[str, Any]:
    """Returns where the answer stands among the choices, or how there is none."""
    if answer is None:
        return {"choices": body["choices"]} if "choices" in body else {}
    return {ANSWER: answer} if answer else {}


def spell_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is unusual about the place of a choice, and about why it ended."""
    empty = {"index": choice["index"]} if choice.get("index", 0) != 0 else {}
    if choice.get("message", "") is None:
        empty["message"] = None
    if choice.get("finish_reason") == "":
        empty["finish_reason"] = ""
    return empty | mark_absent(choice, "index", "finish_reason")


def spell_message(message: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Returns what is unusual about a message.

    Args:
        known: The fields that have common words.
    """
    rest: dict[str, Any] = {}
    for name, value in message.items():
        if name == "role":
            rest |= {} if value == "assistant" else {name: value}
        elif value or name not in known:
            continue
        elif name == "content":
            has_else = any(message.get(other) for other in known if other not in _SILENT)
            if value != (None if has_else else ""):
                rest[name] = value
        else:
            rest[name] = value
    calls = enumerate(message.get("tool_calls") or ())
    spelt = {str(index): _spell_call(each) for index, each in calls}
    if any(spelt.values()):
        rest["tool_calls"] = {place: call for place, call in spelt.items() if call}
    for name, fields in _INNER.items():
        value = message.get(name)
        if value and isinstance(value, Mapping):
            inner = {k: v for k, v in value.items() if v is None and k in fields}
            inner |= mark_absent(value, *fields)
            rest |= {name: inner} if inner else {}
    return rest | mark_absent(message, "role", "content")


_SILENT: Final = ("annotations", "content", "role")
_INNER: Final = {
    "audio": ("id", "data", "transcript", "expires_at"),
    "function_call": ("arguments",),
}
"""From a field of a message to the fields that it always has when we write it."""


def _spell_call(call: Mapping[str, Any]) -> dict[str, Any]:
    kind = find_kind(call)
    word = "arguments" if kind == "function" else "input"
    inner = call.get(kind)
    if not isinstance(inner, Mapping):
        return {}
    rest = {"index": call["index"]} if "index" in call else {}
    if call.get("type", kind) is None:
        rest["type"] = None
    rest |= mark_absent(call, "type")
    others = {name: value for name, value in inner.items() if name not in ("name", word)}
    spelt = others if all(value in _EMPTY for value in others.values()) else {}
    spelt |= mark_absent(inner, word)
    if inner.get(word, "") is None:
        spelt[word] = None
    return rest | ({kind: spelt} if spelt else {})


def _is_empty(fields: Mapping[str, Any], name: str) -> bool:
    return name in fields and not fields[name]
