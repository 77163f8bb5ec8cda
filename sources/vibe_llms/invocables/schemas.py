"""Description of a function for a model, and binding of arguments to parameters."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable
from typing import Any, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.argument_faults import Misfit
from vibe_llms.invocables.bindings import Binder, Bound
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.parameters import Parameter, list_parameters, refuse_function
from vibe_llms.invocables.plain_shapes import Convert, convert_at
from vibe_llms.invocables.schema_derivation import Deriver

_HEADINGS: Final = ("Args:", "Arguments:", "Parameters:")
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


@frozen
class Docstring:
    """Docstring as its text without the section on arguments, and the description of each."""

    text: str
    arguments: dict[str, str]


def read_docstring(function: Callable[..., Any]) -> Docstring:
    """Read the docstring of a function, or of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        method = type(function).__call__ if callable(function) else None
        text = getattr(method, "__doc__", None) or type(function).__doc__
    else:
        text = function.__doc__
    return parse_docstring(text or "")


def parse_docstring(text: str) -> Docstring:
    """Parse a docstring."""
    lines = inspect.cleandoc(text).splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip() in _HEADINGS), None)
    if start is None:
        return Docstring("\n".join(lines).strip(), {})
    indent = _measure_indent(lines[start])
    end = next(
        (
            i
            for i in range(start + 1, len(lines))
            if lines[i].strip() and _measure_indent(lines[i]) <= indent
        ),
        len(lines),
    )
    rest = "\n".join([*lines[:start], *lines[end:]])
    return Docstring(re.sub(r"\n{3,}", "\n\n", rest).strip(), _read_entries(lines[start + 1 : end]))


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _read_entries(lines: list[str]) -> dict[str, str]:
    """Read the descriptions of arguments.

    The least indented lines start a description with the name; the other lines continue it.
    """
    filled = [line for line in lines if line.strip()]
    depth = min(map(_measure_indent, filled), default=0)
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in filled:
        entry = _ENTRY.fullmatch(line.strip()) if _measure_indent(line) == depth else None
        if entry is not None:
            current = entries.setdefault(entry[1], [])
            current.append(entry[2])
        else:
            current.append(line.strip())
    return {name: " ".join(parts).strip() for name, parts in entries.items()}


@frozen(kw_only=True)
class FunctionForm:
    """A function's description for a model, and the binding of the model's arguments."""

    schema: JsonObject
    description: str
    bind: Binder


def derive_form(function: Callable[..., Any], *, name: str = "") -> FunctionForm:
    """Derive a function's description for a model from its annotations and docstring.

    A parameter without a default is required. A parameter of the type :class:`InvocationContext` is
    not part of the schema. ``**others`` accepts further arguments of its type.

    Args:
        name: The name of the invocable, for errors.

    Raises:
        RequestError: A parameter is not annotated, or its type has no counterpart in JSON.
    """
    name = name or getattr(function, "__name__", type(function).__name__)
    docstring, deriver = read_docstring(function), Deriver()
    properties: dict[str, Any] = {}
    required: list[str] = []
    others: Any = False
    converts: dict[str, Convert] = {}
    parameters = list_parameters(function, name)
    for parameter in parameters:
        if parameter.is_context:
            continue
        _ensure_derivable(parameter, name)
        shape = deriver.derive(parameter.hint, f"{name}.{parameter.name}")
        converts[parameter.name] = shape.convert
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            others = shape.schema or True
            continue
        schema = dict(shape.schema)
        description = docstring.arguments.get(parameter.name)
        if description:
            schema["description"] = description
        if parameter.is_required:
            required.append(parameter.name)
        elif _is_plain(parameter.default):
            schema["default"] = parameter.default
        properties[parameter.name] = schema
    object_schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        object_schema["required"] = required
    object_schema["additionalProperties"] = others
    if deriver.definitions:
        object_schema["$defs"] = deriver.definitions
    bind = functools.partial(_bind, parameters, converts)
    return FunctionForm(schema=object_schema, description=docstring.text, bind=bind)


def produce_binder(function: Callable[..., Any], *, name: str = "") -> tuple[Binder, str]:
    """Create the binder of a function with a given schema, which passes arguments unchanged.

    Returns:
        The binder, and the description in the docstring.
    """
    parameters = tuple(
        parameter
        for parameter in list_parameters(function, name or getattr(function, "__name__", ""))
        if parameter.kind is not inspect.Parameter.VAR_POSITIONAL
    )
    return functools.partial(_bind, parameters, {}), read_docstring(function).text


def _ensure_derivable(parameter: Parameter, name: str) -> None:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        problem = f"*{parameter.name} has no counterpart in JSON"
        raise refuse_function(name, problem, "Take a list.")
    if parameter.hint is inspect.Parameter.empty:
        problem = f"its parameter {parameter.name} has no annotation"
        raise refuse_function(name, problem, "Annotate it; Any accepts every value.")


def _is_plain(value: Any) -> bool:
    """Return whether a default is a JSON value."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if value.__class__ is float:
        return math.isfinite(value)
    return value is None or value.__class__ in (bool, int, str)


def _bind(
    parameters: tuple[Parameter, ...],
    converts: dict[str, Convert],
    arguments: JsonObject,
    context: InvocationContext,
) -> Bound:
    """Bind each parameter to its argument, converted to the annotated type. Raises Misfit."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    unbound_arguments = dict(arguments)
    others: Parameter | None = None
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            others = parameter
            continue
        value = _choose_value(parameter, converts.get(parameter.name), arguments, context)
        if not parameter.is_context:
            unbound_arguments.pop(parameter.name, None)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    for name, value in unbound_arguments.items():
        # This also refuses the name of the context parameter, which a model must not set.
        if others is None or name in named:
            raise Misfit("is not known", f".{name}")
        convert = converts.get(others.name)
        named[name] = convert_at(convert, value, f".{name}") if convert else value
    return Bound(tuple(positional), named)


def _choose_value(
    parameter: Parameter,
    convert: Convert | None,
    arguments: JsonObject,
    context: InvocationContext,
) -> Any:
    if parameter.is_context:
        return context
    if parameter.name in arguments:
        value = arguments[parameter.name]
        return convert_at(convert, value, f".{parameter.name}") if convert else value
    if parameter.is_required:
        raise Misfit("is required", f".{parameter.name}")
    return parameter.default
