"""Invocations of ``[/tool …/]`` nodes: the name of a tool, and its arguments.

A label such as ``[/"calculate expression={{response:P0}} digits=2 unit='square metres'"/]`` is the
tool's name and then ``key=value``, with white space between. A value in single quotes is a text,
in which ``''`` stands for one quote; without quotes it ends at white space, and ``true``,
``false``, ``null`` and numbers are what they are in JSON. A value that is one pair of double
braces and nothing else keeps its type, so that a variable may hold a list; between other words,
braces become text. (Mermaid wants double quotes around a label with braces.)

The response of a model is a text, and so is a variable of the command line. A tool that takes a
number or a list receives the JSON value of such a text, and a tool that takes a text receives a
number as it was written (``adapt_arguments``). Nothing else is converted: the tool refuses other
values of a wrong type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs

from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.interpolation import (
    Reference,
    Template,
    TemplateScope,
    read_template,
    render_template,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue

_NAME: Final = re.compile(r"\s*([\w.:-]+)(?=\s|$)")
_SPACE: Final = re.compile(r"\s*")
_KEY: Final = re.compile(r"([^\W\d][\w-]*)=")
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'(?=\s|$)")
_BARE: Final = re.compile(r"(?:\{\{[^}\n]*\}\}|[^\s'])+(?=\s|$)")
_SCALAR: Final = re.compile(r"true|false|null|-?(?:0|[1-9]\d{0,17})(?:\.\d{1,18})?", re.ASCII)
_FORM: Final = "Write the tool's name, then key=value: calculate digits=2 unit='square metres'."


@frozen(kw_only=True)
class InvocationTemplate:
    """Invocation of a node.

    Attributes:
        tool: Name of the tool; empty if it cannot be read.
        arguments: Arguments by name: a value, or a template that is rendered at each visit.
        sources: Source texts of numbers, ``true`` and ``false``, by the names of their arguments.
        references: References that must be known before the invocation, with places in the label.
        faults: Syntax errors, with places in the label.
    """

    tool: str
    arguments: Mapping[str, JsonValue | Template] = attrs.field(factory=dict)
    sources: Mapping[str, str] = attrs.field(factory=dict)
    references: tuple[Reference, ...] = ()
    faults: tuple[FlowFault, ...] = ()


def read_invocation(label: str) -> InvocationTemplate:
    """Parse a label; never fails, but returns syntax errors as faults."""
    name = _NAME.match(label)
    if name is None:
        message = f"The name of the tool is missing. {_FORM}"
        return InvocationTemplate(tool="", faults=(_fault(label, 0, message),))
    arguments: dict[str, JsonValue | Template] = {}
    sources: dict[str, str] = {}
    references: list[Reference] = []
    faults: list[FlowFault] = []
    position = _skip(label, name.end())
    while position < len(label):
        key = _KEY.match(label, position)
        value = key and (_QUOTED.match(label, key.end()) or _BARE.match(label, key.end()))
        if key is None or value is None:
            faults.append(_fault(label, position, f"Invalid argument. {_FORM}"))
            break
        if key[1] in arguments:
            message = f"The argument {key[1]!r} is given twice; remove one."
            faults.append(_fault(label, position, message))
        arguments[key[1]] = parsed = _read_value(label, value)
        if isinstance(parsed, (int, float)):
            sources[key[1]] = value[0]
        if isinstance(parsed, Template):
            references += parsed.references
            faults += parsed.faults
        position = _skip(label, value.end())
    return InvocationTemplate(
        tool=name[1],
        arguments=arguments,
        sources=sources,
        references=tuple(references),
        faults=tuple(faults),
    )


def render_arguments(invocation: InvocationTemplate, scope: TemplateScope) -> JsonObject:
    """Render the arguments: replace references with their values.

    Raises:
        RequestError: A reference is unknown; see :func:`.render_template`.
    """
    return {
        name: _render(value, scope) if isinstance(value, Template) else value
        for name, value in invocation.arguments.items()
    }


def adapt_arguments(
    invocation: InvocationTemplate, arguments: JsonObject, schema: JsonObject
) -> JsonObject:
    """Return the arguments converted to the types in a tool's schema, as far as possible.

    Args:
        arguments: Rendered arguments.
        schema: Schema of the tool's arguments.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return arguments
    return {
        name: _adapt(value, _survey_types(properties.get(name)), invocation.sources.get(name))
        for name, value in arguments.items()
    }


def _adapt(value: JsonValue, types: frozenset[str], sources: str | None) -> JsonValue:
    if not types or types & _find_types(value):
        return value
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            parsed: JsonValue = json.loads(value)
            if types & _find_types(parsed):
                return parsed
    elif isinstance(value, (int, float)) and "string" in types:
        return json.dumps(value) if sources is None else sources
    return value


def _survey_types(schema: JsonValue) -> frozenset[str]:
    """Return the types that a schema admits; empty if it does not list them directly."""
    if not isinstance(schema, Mapping):
        return frozenset()
    if isinstance(choices := schema.get("anyOf"), Sequence):
        found = [_survey_types(each) for each in choices]
        return frozenset().union(*found) if all(found) else frozenset()
    types = schema.get("type")
    if isinstance(types, str):
        return frozenset({types})
    return frozenset(map(str, types)) if isinstance(types, Sequence) else frozenset()


def _find_types(value: JsonValue) -> frozenset[str]:
    match value:
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"integer", "number"} if value.is_integer() else {"number"})
        case str():
            return frozenset({"string"})
        case None:
            return frozenset({"null"})
        case Mapping():
            return frozenset({"object"})
    return frozenset({"array"})


def _render(template: Template, scope: TemplateScope) -> JsonValue:
    match template.parts:
        # A single variable keeps its type: a list arrives as a list.
        case (Reference(source="variable", name=name),) if name in scope.variables:
            return scope.variables[name]
        case (Reference(source="loop"),):
            return int(render_template(template, scope))
    return render_template(template, scope)


def _read_value(label: str, found: re.Match[str]) -> JsonValue | Template:
    if found.re is _BARE and _SCALAR.fullmatch(found[0]):
        scalar: JsonValue = json.loads(found[0])
        return scalar
    is_quoted = found.re is _QUOTED
    start = found.start() + 1 if is_quoted else found.start()
    # Quoted values have a group without the quotes; bare ones have none, and match as a whole.
    template = read_template(found[found.re.groups].replace("''", "'"))
    if not template.references and not template.faults:
        return "".join(part for part in template.parts if isinstance(part, str))
    return _move(template, label, start)


def _move(template: Template, label: str, start: int) -> Template:
    """Return a template with places relative to its label."""
    line = label.count("\n", 0, start)
    column = start - (label.rfind("\n", 0, start) + 1)

    def shift(each: Reference) -> Reference:
        offset = column if each.line == 1 else 0
        return attrs.evolve(each, line=each.line + line, column=each.column + offset)

    parts = (shift(part) if isinstance(part, Reference) else part for part in template.parts)
    faults = (
        attrs.evolve(
            each, line=each.line + line, column=each.column + (column if each.line == 1 else 0)
        )
        for each in template.faults
    )
    return Template(parts=tuple(parts), faults=tuple(faults))


def _skip(label: str, position: int) -> int:
    found = _SPACE.match(label, position)
    return found.end() if found else position


def _fault(label: str, position: int, message: str) -> FlowFault:
    line = label.count("\n", 0, position) + 1
    column = position - label.rfind("\n", 0, position)
    return FlowFault(line=line, column=column, message=message, rule=TaskRule.TOOL)
