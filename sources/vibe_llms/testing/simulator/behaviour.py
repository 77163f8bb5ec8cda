"""Answers of a simulated model without a script: deterministic, decided by the request.

The model echoes the user's text, and obeys some words in the text: ``call NAME``, ``use tools``,
``think``, ``cite``, ``search``, ``calculate``, ``refuse``, ``draw``, ``speak``.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping
from typing import TypeGuard

import attrs

from vibe_llms.testing.simulator.prompts import OfferedTool, SimulatedPrompt, count_tokens
from vibe_llms.testing.simulator.scripts import (
    Cite,
    Compute,
    Draw,
    Invoke,
    Part,
    Refuse,
    Say,
    ScriptedAnswer,
    Search,
    Speak,
    Think,
)

DEPTH = 12
"""Depth at which values of recursive schemas end: arrays are empty, and unions take null."""


def fabricate(schema: object, root: object = None, *, depth: int = 0) -> object:
    """Make a value that fits a schema.

    Args:
        schema: JSON Schema, or Gemini's dialect of it with types in capitals.
        root: The whole schema, in which references are resolved; `schema` itself if None.
        depth: The current depth.

    Returns:
        A value of plain data. Patterns and formats other than dates are ignored.
    """
    if not isinstance(schema, Mapping):
        return "text"
    root = schema if root is None else root
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return fabricate(_follow(root, reference), root, depth=depth + 1)
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    for union in ("anyOf", "oneOf"):
        members = schema.get(union)
        if isinstance(members, list) and members:
            # For "X or null", as optional fields are written, null ends an endless recursion.
            member = members[-1] if depth > DEPTH else members[0]
            return fabricate(member, root, depth=depth + 1)
    merged = schema.get("allOf")
    if isinstance(merged, list) and merged:
        return fabricate(_merge(schema, merged, root), root, depth=depth + 1)
    return _fabricate_type(schema, root, depth)


def _fabricate_type(schema: Mapping[str, object], root: object, depth: int) -> object:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    match str(kind).lower():
        case "object":
            return _fabricate_object(schema, root, depth)
        case "array":
            return _fabricate_array(schema, root, depth)
        case "integer" | "number":
            return _fabricate_number(schema)
        case "boolean":
            return True
        case "null":
            return None
        case "string":
            return _fabricate_text(schema)
    if "properties" in schema:
        return _fabricate_object(schema, root, depth)
    return "text"


def _fabricate_object(schema: Mapping[str, object], root: object, depth: int) -> object:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    required = schema.get("required")
    names = list(properties)
    if depth > 2:
        names = [name for name in names if isinstance(required, list) and name in required]
    return {name: fabricate(properties[name], root, depth=depth + 1) for name in names}


def _fabricate_array(schema: Mapping[str, object], root: object, depth: int) -> object:
    count = schema.get("minItems")
    if not isinstance(count, int):
        count = 0 if depth > DEPTH else 1
    return [fabricate(schema.get("items", {}), root, depth=depth + 1) for _ in range(count)]


def _fabricate_number(schema: Mapping[str, object]) -> float:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    if _is_number(low):
        # In draft 4 of JSON Schema, exclusiveMinimum is a boolean that excludes the minimum.
        return low + 1 if above is True else low
    if _is_number(above):
        return above + 1
    for bound in (high, below):
        if _is_number(bound):
            return min(7, bound - 1)
    return 7


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fabricate_text(schema: Mapping[str, object]) -> str:
    fixed = {"date": "2026-11-22", "date-time": "2026-11-22T12:00:00Z", "time": "12:00:00Z"}
    text = fixed.get(str(schema.get("format")), "text")
    min_length, max_length = schema.get("minLength"), schema.get("maxLength")
    if isinstance(min_length, int):
        text = text.ljust(min_length, "x")
    return text[:max_length] if isinstance(max_length, int) else text


def _follow(root: object, reference: str) -> object:
    value: object = root
    for name in reference.lstrip("#").strip("/").split("/"):
        if name and isinstance(value, Mapping):
            value = value.get(name.replace("~1", "/").replace("~0", "~"), {})
    return value


def _merge(schema: Mapping[str, object], members: list[object], root: object) -> object:
    properties: dict[str, object] = {}
    required: list[object] = []
    own_keywords: dict[str, object] = {key: item for key, item in schema.items() if key != "allOf"}
    merged = own_keywords
    for member in [*members, own_keywords]:
        if isinstance(member, Mapping) and isinstance(member.get("$ref"), str):
            resolved = _follow(root, member["$ref"])
        else:
            resolved = member
        if isinstance(resolved, Mapping):
            properties.update(resolved.get("properties") or {})
            required.extend(resolved.get("required") or [])
            merged = {**resolved, **merged}
    if properties:
        merged |= {"type": "object", "properties": properties, "required": required}
    return merged


SOURCES = (
    Cite(url="https://example.com/one", title="The first source", quote="One is the first."),
    Cite(url="https://example.com/two", title="The second source", quote="Two follows."),
)
CALCULATION = Compute("print(6 * 7)", "42\n")
REASONING = "The user asks something. I consider it, and then I answer."


def respond(prompt: SimulatedPrompt) -> ScriptedAnswer:
    """Decide on the model's answer.

    Args:
        prompt: The content of the request.

    Returns:
        An answer within the limits of the request: stop texts, maximum tokens, tool choice and
        schema.
    """
    parts: list[Part] = []
    if prompt.wants_reasoning or _mentions(prompt.text, "think"):
        parts.append(Think(REASONING))
    if _mentions(prompt.text, "refuse") and not prompt.tool_results:
        return ScriptedAnswer(parts=(*parts, Refuse("I will not help with that.")))
    calls = _choose_invocations(prompt)
    if calls:
        return ScriptedAnswer(parts=(*parts, *calls))
    parts.extend(_answer(prompt))
    return confine(ScriptedAnswer(parts=tuple(parts)), prompt)


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text, re.IGNORECASE) is not None


def _choose_invocations(prompt: SimulatedPrompt) -> list[Part]:
    if prompt.tool_choice == "-" or not prompt.tools:
        return []
    # A model that has just received results calls no more tools, unless one is required by name.
    if prompt.tool_results and prompt.tool_choice in (None, "*"):
        return []
    chosen = [tool for tool in prompt.tools if prompt.tool_choice == tool.name]
    if not chosen and prompt.tool_choice in (None, "*"):
        chosen = [tool for tool in prompt.tools if _mentions(prompt.text, f"call {tool.name}")]
        if not chosen and _mentions(prompt.text, "use tools"):
            chosen = list(prompt.tools)
        if not chosen and prompt.tool_choice == "*":
            chosen = [prompt.tools[0]]
    if not prompt.allows_parallel_calls:
        chosen = chosen[:1]
    return [_invoke(tool) for tool in chosen]


def _invoke(tool: OfferedTool) -> Part:
    if tool.custom:
        return Invoke(tool.name, "some free text", custom=True)
    arguments = fabricate(tool.schema or {"type": "object"})
    return Invoke(tool.name, arguments if isinstance(arguments, dict) else {})


def _answer(prompt: SimulatedPrompt) -> list[Part]:
    if prompt.schema is not None:
        return [Say(json.dumps(fabricate(prompt.schema or {"type": "object"}), ensure_ascii=False))]
    if prompt.tool_results:
        results = [f"{result.name} said: {result.text}" for result in prompt.tool_results]
        return [Say("; ".join(results))]
    if prompt.allows_pictures and _mentions(prompt.text, "draw"):
        return [Say("Here it is."), Draw(produce_png(2, 3))]
    if prompt.attachments:
        seen = ", ".join(attachment.describe() for attachment in prompt.attachments)
        return [Say(f"I see {seen}.")]
    if prompt.allows_search and _mentions(prompt.text, "search"):
        return [Search(prompt.text, SOURCES), Say("The web says so.", SOURCES[:1])]
    if prompt.allows_code and _mentions(prompt.text, "calculate"):
        return [CALCULATION, Say("It is 42.")]
    if _mentions(prompt.text, "cite"):
        return [Say("Here is what "), Say("the sources say.", SOURCES)]
    if prompt.allows_audio:
        return [Speak(produce_wav(800), prompt.text or "Hello.")]
    return [Say(prompt.text or "Hello.")]


def confine(turn: ScriptedAnswer, prompt: SimulatedPrompt) -> ScriptedAnswer:
    """Cut an answer at the request's stop texts and at its maximum tokens."""
    parts = list(turn.parts)
    if not parts or not isinstance(parts[-1], Say):
        return turn
    last = parts[-1]
    stops = [text for text in prompt.stop_texts if text and text in last.text]
    if stops:
        position, first_stop = min((last.text.find(text), text) for text in stops)
        parts[-1] = attrs.evolve(last, text=last.text[:position])
        return attrs.evolve(
            turn, parts=tuple(parts), stop="stop_sequence", stop_sequence=first_stop
        )
    if prompt.max_tokens is not None and count_tokens(last.text) > prompt.max_tokens:
        # A token here is four bytes; a partial character at the cut is removed.
        data = last.text.encode("utf-8", "replace")[: 4 * prompt.max_tokens]
        parts[-1] = attrs.evolve(last, text=data.decode("utf-8", "ignore"))
        return attrs.evolve(turn, parts=tuple(parts), stop="length")
    return turn


def produce_png(width: int, height: int) -> bytes:
    """Return the bytes of a small picture in one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\x00" + b"\x20\x80\xc0" * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def produce_wav(samples: int) -> bytes:
    """Return the bytes of a short silence, 8 kHz, mono, 8 bits."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    data = struct.pack("<4sI", b"data", samples) + b"\x80" * samples
    return struct.pack("<4sI", b"RIFF", 4 + len(form) + len(data)) + b"WAVE" + form + data
