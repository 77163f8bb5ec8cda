"""Statements of a diagram, in the form in which they are written."""

from __future__ import annotations

from typing import TypeAlias

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.mermaid.labels import Label
from vibe_llms.mermaid.spans import Span


@frozen(kw_only=True)
class Attributes:
    """Content of ``@{…}``; ``text`` as Mermaid passes it to its YAML parser."""

    text: str
    place: Span


@frozen(kw_only=True)
class NodeUse:
    """A node in a statement, with the properties given there.

    Attributes:
        id: Id of the node, as Mermaid reads it.
        place: Place of the whole use, with label, class and attributes.
        id_place: Place of the id alone.
        shape: Shape that the brackets mean; empty without brackets.
        label: The text between the brackets.
        brackets: The brackets with their content; ``None`` without any.
        properties: A field and its value, of ``[|field:value|label]``.
        class_name: The name after three colons; empty without one.
        attributes: The content of ``@{…}``.
    """

    id: str
    place: Span
    id_place: Span
    shape: str = ""
    label: Label | None = None
    brackets: Span | None = None
    properties: tuple[tuple[str, str], ...] = ()
    class_name: str = ""
    attributes: Attributes | None = None


@frozen(kw_only=True)
class Link:
    """Link between two groups of nodes: one edge for each pair.

    Attributes:
        place: Place of the whole link, with id and label.
        id: The name before ``@``; ``None`` without one.
        type: The ends, in Mermaid's terms: ``arrow_point``, ``double_arrow_cross`` …
        stroke: ``normal``, ``thick``, ``dotted`` or ``invisible``.
        length: Minimum number of ranks; ``None`` if its two ends contradict each other.
    """

    place: Span
    id: str | None = None
    type: str
    stroke: str
    length: int | None
    label: Label | None = None


@frozen(kw_only=True)
class NodeStatement:
    """Groups of nodes (``A & B``) and the links between them: one fewer than groups."""

    place: Span
    groups: tuple[tuple[NodeUse, ...], ...]
    links: tuple[Link, ...]


@frozen(kw_only=True)
class SubgraphStatement:
    """A subgraph, with its content.

    Attributes:
        place: Place in the text, from the keyword to its ``end``.
        head: The line with id and title.
        id: ``None`` if Mermaid generates one: for a title with spaces, without brackets.
        title: The text in the brackets, or the id without brackets.
    """

    place: Span
    head: Span
    id: str | None
    title: Label
    statements: tuple[Statement, ...]


@frozen(kw_only=True)
class DirectionStatement:
    """Direction of a subgraph; without effect outside of one."""

    place: Span
    direction: str


@frozen(kw_only=True)
class ClassDefinition:
    """``classDef``: the styles of a class."""

    place: Span
    names: tuple[str, ...]
    styles: tuple[str, ...]


@frozen(kw_only=True)
class ClassAssignment:
    """``class``: assigns a class to the nodes, edges and subgraphs that are known by then."""

    place: Span
    ids: tuple[str, ...]
    ids_place: Span
    class_name: str


@frozen(kw_only=True)
class StyleStatement:
    """``style``: styles for one node."""

    place: Span
    id: str
    id_place: Span
    styles: tuple[str, ...]


@frozen(kw_only=True)
class LinkStyleStatement:
    """``linkStyle``: styles for edges, by their numbers.

    Attributes:
        positions: Positions of the edges, as written; empty if it applies to all edges
            (``default``).
        positions_place: Place of the positions in the text.
        interpolation: The curve; ``None`` if the statement has none.
        styles: ``None`` if the statement has only a curve.
    """

    place: Span
    positions: tuple[str, ...]
    positions_place: Span
    interpolation: str | None
    styles: tuple[str, ...] | None


@frozen(kw_only=True)
class ClickStatement:
    """``click``: stored, but never executed.

    Attributes:
        callback: The function that a browser would call; ``None`` for a link.
        arguments: Arguments of that function, as written.
        link: An address; ``None`` for a function.
        target: The window of the link, such as ``_blank``.
    """

    place: Span
    ids: tuple[str, ...]
    ids_place: Span
    callback: str | None = None
    arguments: str | None = None
    link: str | None = None
    tooltip: str | None = None
    target: str | None = None


@frozen(kw_only=True)
class AccessibilityStatement:
    """``accTitle`` or ``accDescr``: a description of the picture for screen readers."""

    place: Span
    is_title: bool
    text: str


@frozen(kw_only=True)
class StraySemicolon:
    """A semicolon without a statement."""

    place: Span


Statement: TypeAlias = (
    NodeStatement
    | SubgraphStatement
    | DirectionStatement
    | ClassDefinition
    | ClassAssignment
    | StyleStatement
    | LinkStyleStatement
    | ClickStatement
    | AccessibilityStatement
    | StraySemicolon
)
