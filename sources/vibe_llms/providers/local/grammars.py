"""What an answer is held to: a schema, an invocation, or either an invocation or text.

llama.cpp builds a grammar from it, whatever the model's template knows of tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.plain import JsonObject

END_RULE: Final = "end"
"""The rule of a grammar that stands for the token which ends a turn. Whoever has loaded the model
adds it: without it, a text that is held to a grammar goes on until the window is full, as
llguidance knows one such token and llama.cpp may tell it another than the template's."""
_CLASSES: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\n\\r"}
_FOREIGN_PATTERN: Final = re.compile(r"\\[A-Za-z0-9]|\(\?(?!:)")
_PLAIN_ESCAPES: Final = ("\\n", "\\r", "\\t")


def prepare_schema(schema: Any, losses: list[Loss], path: str = "schema") -> Any:
    """Returns a schema as llama.cpp can follow it; what it cannot is left out and reported.

    It would say so itself, but on standard error.
    """
    if isinstance(schema, Mapping):
        prepared = {}
        for name, value in schema.items():
            if name == "pattern" and isinstance(value, str):
                pattern = _prepare_pattern(value)
                if pattern is None:
                    reason = f"llama.cpp cannot hold an answer to the pattern {value!r}"
                    losses.append(Loss(kind=LossKind.DROPPED, path=f"{path}.{name}", reason=reason))
                else:
                    prepared[name] = pattern
            elif name in ("const", "enum", "default", "examples"):
                prepared[name] = value
            else:
                prepared[name] = prepare_schema(value, losses, f"{path}.{name}")
        return prepared
    if isinstance(schema, list | tuple):
        return [
            prepare_schema(item, losses, f"{path}[{index}]") for index, item in enumerate(schema)
        ]
    return schema


def _prepare_pattern(pattern: str) -> str | None:
    """Writes the usual classes out; returns None for what the grammar has no words for."""
    if not (pattern.startswith("^") and pattern.endswith("$")):
        return None
    pieces = []
    within = False
    for piece in re.findall(r"\\.|.", pattern, re.DOTALL):
        if piece[0] == "\\" and piece[1:] in _CLASSES:
            written = _CLASSES[piece[1:]]
            pieces.append(written if within else f"[{written}]")
            continue
        within = piece == "[" or (within and piece != "]")
        pieces.append(piece)
    written = "".join(pieces)
    foreign = set(_FOREIGN_PATTERN.findall(written)).difference(_PLAIN_ESCAPES)
    return None if foreign else written


def compose_invocation_schema(
    invocables: Sequence[InvocableDescription], losses: list[Loss]
) -> JsonObject:
    """Returns the schema of one invocation of any of these: ``{"name": …, "arguments": …}``."""
    definitions: dict[str, Any] = {}
    alternatives = []
    for index, invocable in enumerate(invocables):
        path = f"invocables[{index}].schema"
        arguments = prepare_schema(invocable.schema, losses, path)
        if b'"$ref"' in msgspec.json.encode(arguments):
            # References count from the root, and the root is now another.
            place = f"arguments{index}"
            definitions[place] = _move_references(arguments, f"#/$defs/{place}")
            arguments = {"$ref": f"#/$defs/{place}"}
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
    """Returns a grammar for an invocation or an answer: text, or what a schema demands.

    A text does not begin with a brace, so that the first character tells them apart.
    """
    lines = [
        "%llguidance {}",
        "start: invocation | answer",
        f"invocation: %json {_write(invocation)}",
    ]
    lines += [_WORDS] if answer is None else [f"answer: %json {_write(answer)}"]
    return "\n".join((*lines, ""))


def compose_words_grammar() -> str:
    """Returns a grammar for a text that is no invocation."""
    return f"%llguidance {{}}\nstart: answer\n{_WORDS}\n"


_WORDS: Final = rf"answer: /[^{{](.|\n)*/ {END_RULE}?"


def _write(schema: JsonObject) -> str:
    return msgspec.json.encode(schema).decode("utf-8")
