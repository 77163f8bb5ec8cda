"""Grammars for constrained answers: a schema, an invocation, or an invocation or text.

llama.cpp builds a grammar from them; the model's template need not support tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind

END_RULE: Final = "end"
"""The rule of a grammar for the token that ends a turn; added when the model is loaded.

Without it, a constrained text may continue until the window is full: llguidance knows only one such
token, and llama.cpp may pass another token than the template uses.
"""
_CLASSES: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\n\\r"}
_UNSUPPORTED_PATTERN: Final = re.compile(r"\\[A-Za-z0-9]|\(\?(?!:)")
_PLAIN_ESCAPES: Final = ("\\n", "\\r", "\\t")
_COUNTS: Final = frozenset({"minItems", "maxItems", "minLength", "maxLength"})
_HIGHEST_COUNT: Final = 10_000
"""Maximum of counts and expanded references that are enforced: llama.cpp expands them all, which
may take forever."""
_UNSUPPORTED_KEYWORDS: Final = frozenset(
    {
        *("not", "if", "then", "else", "dependentRequired", "dependentSchemas"),
        *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties"),
        *("contains", "minContains", "maxContains", "uniqueItems", "unevaluatedItems"),
    }
)
"""Keywords that llguidance does not support (tested with xllamacpp 2026.10)."""
_KEYWORDS_WITH_NAMES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords whose objects have arbitrary names as keys."""
PROBE: Final = "~#~"
"""A text with which no model begins an answer unless a grammar requires it."""


def prepare_schema(schema: Any, losses: list[Loss], path: str = "schema") -> Any:
    """Return a schema that llama.cpp supports; remove and report unsupported keywords.

    llama.cpp itself would only report them on standard error, and a hostile schema could block it
    forever.
    """
    if _count_expanded(schema) > _HIGHEST_COUNT:
        reason = "its references expand to more than llama.cpp can process"
        losses.append(Loss(kind=LossKind.DROPPED, path=path, reason=reason))
        is_object = isinstance(schema, Mapping) and schema.get("type") == "object"
        return {"type": "object"} if is_object else {}
    return _prepare(schema, losses, path)


def _count_expanded(schema: Any) -> int:
    """Count the parts of a schema with all references expanded, up to the limit."""
    counted: dict[str, int] = {}

    def count(part: Any) -> int:
        if isinstance(part, (list, tuple)):
            return min(_HIGHEST_COUNT + 1, 1 + sum(map(count, part)))
        if not isinstance(part, Mapping):
            return 1
        total = 1 + sum(count(value) for name, value in part.items() if name not in _DEFINITIONS)
        reference = part.get("$ref")
        if isinstance(reference, str):
            if reference not in counted:
                counted[reference] = 1  # a recursive schema becomes one rule of the grammar
                counted[reference] = count(_follow(schema, reference))
            total += counted[reference]
        return min(_HIGHEST_COUNT + 1, total)

    try:
        return count(schema)
    except RecursionError:
        return _HIGHEST_COUNT + 1


def _follow(schema: Any, reference: str) -> Any:
    for step in reference.removeprefix("#").split("/")[1:]:
        # In the other order, `~01` would become a slash (RFC 6901).
        name = step.replace("~1", "/").replace("~0", "~")
        schema = schema.get(name) if isinstance(schema, Mapping) else None
    return schema


_DEFINITIONS: Final = frozenset({"$defs", "definitions"})


def _prepare(schema: Any, losses: list[Loss], path: str, *, are_names: bool = False) -> Any:
    if isinstance(schema, Mapping):
        prepared = {}
        for name, value in schema.items():
            # A property named `not` or `pattern` is not a keyword.
            if are_names:
                prepared[name] = _prepare(value, losses, f"{path}.{name}")
            elif name in _UNSUPPORTED_KEYWORDS or (name in _COUNTS and _is_too_high(value)):
                reason = f"llama.cpp cannot enforce {name!r}"
                losses.append(Loss(kind=LossKind.DROPPED, path=f"{path}.{name}", reason=reason))
            elif name == "pattern" and isinstance(value, str):
                pattern = _prepare_pattern(value)
                if pattern is None:
                    reason = f"llama.cpp cannot enforce the pattern {value!r}"
                    losses.append(Loss(kind=LossKind.DROPPED, path=f"{path}.{name}", reason=reason))
                else:
                    prepared[name] = pattern
            elif name in ("const", "enum", "default", "examples"):  # data, not schemas
                prepared[name] = value
            else:
                are_value_names = name in _KEYWORDS_WITH_NAMES
                prepared[name] = _prepare(
                    value, losses, f"{path}.{name}", are_names=are_value_names
                )
        return prepared
    if isinstance(schema, (list, tuple)):
        return [_prepare(item, losses, f"{path}[{index}]") for index, item in enumerate(schema)]
    return schema


def _is_too_high(count: object) -> bool:
    return isinstance(count, (int, float)) and count > _HIGHEST_COUNT


def _prepare_pattern(pattern: str) -> str | None:
    """Expand the usual character classes; return ``None`` if the rest is not supported."""
    if not (pattern.startswith("^") and pattern.endswith("$")):
        return None
    pieces = []
    within = False
    for piece in re.findall(r"\\.|.", pattern, re.DOTALL):
        if piece[0] == "\\" and piece[1:] in _CLASSES:
            prepared = _CLASSES[piece[1:]]
            # Inside brackets, a class needs no further brackets.
            pieces.append(prepared if within else f"[{prepared}]")
            continue
        within = piece == "[" or (within and piece != "]")
        pieces.append(piece)
    prepared = "".join(pieces)
    unsupported = set(_UNSUPPORTED_PATTERN.findall(prepared)).difference(_PLAIN_ESCAPES)
    return None if unsupported else prepared


def compose_invocation_schema(
    invocables: Sequence[InvocableDescription], losses: list[Loss]
) -> JsonObject:
    """Return the schema of one invocation of any of these: ``{"name": …, "arguments": …}``."""
    definitions: dict[str, Any] = {}
    alternatives = []
    for index, invocable in enumerate(invocables):
        path = f"invocables[{index}].schema"
        arguments = prepare_schema(invocable.schema, losses, path)
        if b'"$ref"' in msgspec.json.encode(arguments):
            # References are relative to the root of a schema, so move the schema to a definition.
            definition = f"arguments{index}"
            definitions[definition] = _move_references(arguments, f"#/$defs/{definition}")
            arguments = {"$ref": f"#/$defs/{definition}"}
        alternatives.append(
            {
                "type": "object",
                "properties": {"name": {"const": invocable.name}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    schema: dict[str, Any] = {"oneOf": alternatives}
    return {**schema, "$defs": definitions} if definitions else schema


def _move_references(schema: Any, root: str) -> Any:
    if isinstance(schema, Mapping):
        return {
            name: f"{root}{value[1:]}"
            if name == "$ref" and isinstance(value, str) and value.startswith("#")
            else _move_references(value, root)
            for name, value in schema.items()
        }
    if isinstance(schema, list):
        return [_move_references(item, root) for item in schema]
    return schema


def compose_choice_grammar(invocation: JsonObject, answer: JsonObject | None) -> str:
    """Return a grammar for an invocation or an answer: text, or data that conform to a schema.

    A text does not begin with a brace, so that the first character tells them apart.
    """
    lines = [
        "%llguidance {}",
        "start: invocation | answer",
        f"invocation: %json {_write(invocation)}",
    ]
    lines += [_TEXT_RULE] if answer is None else [f"answer: %json {_write(answer)}"]
    return "\n".join((*lines, ""))


def compose_probe(grammar: str) -> str:
    """Return a grammar that requires the probe at the beginning, if the given grammar is valid."""
    return grammar.replace("start: ", f'start: "{PROBE}" wanted?\nwanted: ', 1)


def compose_text_grammar() -> str:
    """Return a grammar for a text that is not an invocation."""
    return f"%llguidance {{}}\nstart: answer\n{_TEXT_RULE}\n"


_TEXT_RULE: Final = rf"answer: /[^{{](.|\n)*/ {END_RULE}?"


def _write(schema: JsonObject) -> str:
    # Unsupported keywords are already reported as losses.
    lenient = {"x-guidance": {"lenient": True}}
    return msgspec.json.encode({**lenient, **schema}).decode("utf-8")
