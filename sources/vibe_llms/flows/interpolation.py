"""Templates: parse references in double braces, and render them.

A template is parsed once, into texts and references with their places. Rendering only looks up
references: no code is evaluated, and inserted values are not searched for braces, so that a model's
response cannot insert further values. ``\\{{`` stands for ``{{`` itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypeVar

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.suggestions import end_among

Source: TypeAlias = Literal["variable", "registry", "response", "loop"]

T = TypeVar("T")

LOOP_NAMES: Final = ("index", "count")
ADDRESS: Final = "source_url"
"""Default field of an entry."""

_BRACES: Final = re.compile(r"\\\{\{|\{\{")
_NAME: Final = r"[^\W\d][\w-]*"
_REFERENCE: Final = re.compile(
    rf"(?:(?P<kind>registry|response):(?P<name>[\w-]+)(?:\.(?P<field>{_NAME}))?"
    rf"|loop\.(?P<loop>\w+)|(?P<variable>{_NAME}))"
)
_REMEDY: Final = (
    "Write {{variable}}, {{registry:name}}, {{registry:name.field}}, {{response:node}}, "
    "{{loop.index}} or {{loop.count}}; \\{{ writes the braces themselves"
)


@frozen(kw_only=True)
class Reference:
    """Reference in double braces.

    Attributes:
        source: Source of its value.
        name: Name of the variable or entry, or id of the node; for a loop ``index`` or ``count``.
        field: Field of the entry; ``source_url`` by default.
        line: Line in the template where it begins, from 1.
        column: Column in that line, from 1.
    """

    source: Source
    name: str
    field: str = ""
    line: int
    column: int

    def __str__(self) -> str:
        field = f".{self.field}" if self.field not in ("", ADDRESS) else ""
        words = {"variable": self.name, "loop": f"loop.{self.name}"}
        return f"{{{{{words.get(self.source, f'{self.source}:{self.name}{field}')}}}}}"


@frozen(kw_only=True)
class Template:
    """Parsed template: literal texts, and references between them.

    Attributes:
        faults: Syntax errors; with any of these the template is not rendered.
    """

    parts: tuple[str | Reference, ...]
    faults: tuple[FlowFault, ...] = ()

    @property
    def references(self) -> tuple[Reference, ...]:
        """References that rendering looks up."""
        return tuple(part for part in self.parts if isinstance(part, Reference))


@frozen(kw_only=True)
class TemplateScope:
    """Values that references look up.

    Attributes:
        variables: Variables of the run; values other than texts are written as JSON.
        registry: Fields of each entry, by its name.
        responses: Last response of each node.
        loop: Round of the innermost loop, from 0, and the maximum number of rounds.
    """

    variables: Mapping[str, JsonValue] = attrs.field(factory=dict)
    registry: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    responses: Mapping[str, str] = attrs.field(factory=dict)
    loop: tuple[int, int] | None = None


def read_template(text: str) -> Template:
    """Parse a template; never fails, but returns syntax errors as faults."""
    parts: list[str | Reference] = []
    faults: list[FlowFault] = []
    literal: list[str] = []
    lines = _LineCounter(text)
    position = 0
    for start, end in _survey_braces(text):
        literal.append(text[position:start])
        position = end
        inner = text[start:end]
        if inner.startswith("\\"):
            literal.append("{{")
            continue
        line, column = lines.find(start)
        found = _read_reference(inner, line, column)
        if isinstance(found, FlowFault):
            faults.append(found)
        else:
            parts += [*_join(literal), found]
            literal = []
    literal.append(text[position:])
    return Template(parts=(*parts, *_join(literal)), faults=tuple(faults))


def render_template(template: Template, scope: TemplateScope) -> str:
    """Replace references with their values.

    Raises:
        RequestError: A reference is unknown; names its place and the nearest known word.
    """
    for fault in template.faults:
        raise _refuse(fault.line, fault.column, fault.message)
    return "".join(
        part if isinstance(part, str) else _look_up(part, scope) for part in template.parts
    )


class _LineCounter:
    """Incremental line counter, which scans a long template only once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._start, self._seen = 1, 0, 0

    def find(self, position: int) -> tuple[int, int]:
        self._line += self._text.count("\n", self._seen, position)
        self._start = max(self._start, self._text.rfind("\n", self._seen, position) + 1)
        self._seen = position
        return self._line, position - self._start + 1


def _survey_braces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where double braces begin and end; unclosed ones end with their line."""
    position = 0
    while found := _BRACES.search(text, position):
        start, position = found.span()
        if found[0] == "{{":
            line_end = text.find("\n", position)
            line_end = len(text) if line_end < 0 else line_end
            closed = text.find("}}", position, line_end)
            position = line_end if closed < 0 else closed + 2
        yield start, position


def _read_reference(inner: str, line: int, column: int) -> Reference | FlowFault:
    if not inner.endswith("}}") or len(inner) < 4:  # two pairs of braces
        message = f"These braces are not closed on the same line. {_REMEDY}."
        return _fault(line, column, message)
    words = inner[2:-2].strip()
    found = _REFERENCE.fullmatch(words)
    if found is None:
        message = f"Unknown placeholder {words[:40]!r}. {_REMEDY}."
        return _fault(line, column, message)
    if (name := found["loop"]) is not None:
        if name not in LOOP_NAMES:
            message = f"Unknown field {name!r} of a loop{end_among(name, LOOP_NAMES)}"
            return _fault(line, column, message)
        return Reference(source="loop", name=name, line=line, column=column)
    if (name := found["variable"]) is not None:
        return Reference(source="variable", name=name, line=line, column=column)
    source: Source = "registry" if found["kind"] == "registry" else "response"
    if source == "response" and found["field"]:
        message = f"A response has no fields: write {{{{response:{found['name']}}}}}."
        return _fault(line, column, message)
    default_field = ADDRESS if source == "registry" else ""
    field = found["field"] or default_field
    return Reference(source=source, name=found["name"], field=field, line=line, column=column)


def _fault(line: int, column: int, message: str) -> FlowFault:
    return FlowFault(line=line, column=column, message=message, rule=TaskRule.TEMPLATE)


def _look_up(reference: Reference, scope: TemplateScope) -> str:
    match reference.source:
        case "variable":
            value = _find(scope.variables, reference, "variable")
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        case "response":
            return _find(scope.responses, reference, "response of a node")
        case "registry":
            fields = _find(scope.registry, reference, "entry of the registry")
            if reference.field in fields:
                return fields[reference.field]
            known = end_among(reference.field, fields)
            message = f"The entry {reference.name!r} has no field {reference.field!r}{known}"
            raise _refuse(reference.line, reference.column, message)
        case "loop":
            if scope.loop is None:
                message = f"{reference} is only available inside a loop."
                raise _refuse(reference.line, reference.column, message)
            return str(scope.loop[LOOP_NAMES.index(reference.name)])


def _find(known: Mapping[str, T], reference: Reference, what: str) -> T:
    if reference.name in known:
        return known[reference.name]
    message = f"Unknown {what} {reference.name!r}{end_among(reference.name, known)}"
    raise _refuse(reference.line, reference.column, message)


def _refuse(line: int, column: int, message: str) -> RequestError:
    return RequestError(path=f"template:{line}:{column}", detail=message)


def _join(pieces: Sequence[str]) -> list[str]:
    text = "".join(pieces)
    return [text] if text else []
