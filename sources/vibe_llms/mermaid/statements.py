"""What a diagram says, statement by statement, as it was written."""

from __future__ import annotations

from typing import TypeAlias

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.mermaid.labels import Label
from vibe_llms.mermaid.spans import Span


@frozen(kw_only=True)
class Attributes:
    """What stands in ``@{…}``; ``text`` as Mermaid hands it to its reader of YAML."""

    text: str
    place: Span


@frozen(kw_only=True)
class NodeUse:
    """A node where a statement names it, with what the statement says of it there.

    Attributes:
        id: As Mermaid reads it.
        place: All of it, with label, class and attributes.
        id_place: The id alone.
        shape: What the brackets mean; empty where there are none.
        label: What stands between the brackets.
        brackets: These, with what is between them; nothing where there are none.
        properties: A field and its value, of ``[|field:value|label]``.
        class_name: What follows three colons; empty where nothing does.
        attributes: What stands in ``@{…}``.
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
    """What joins two groups of nodes: one edge for each pair.

    Attributes:
        place: All of it, with id and label.
        id: What stands before ``@``; nothing where there is none.
        type: The ends, as Mermaid calls them: ``arrow_point``, ``double_arrow_cross`` …
        stroke: ``normal``, ``thick``, ``dotted`` or ``invisible``.
        length: How many ranks it spans at least; nothing where its two ends contradict each other.
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
    """A subgraph, with what is in it.

    Attributes:
        place: From the keyword to its ``end``.
        head: The line with id and title.
        id: Nothing where Mermaid makes one up: of a title with spaces, without brackets.
        title: What stands in the brackets, or the id where there are none.
    """

    place: Span
    head: Span
    id: str | None
    title: Label
    statements: tuple[Statement, ...]


@frozen(kw_only=True)
class DirectionStatement:
    """The direction of a subgraph, or without effect outside of one."""

    place: Span
    direction: str


@frozen(kw_only=True)
class ClassDefinition:
    """``classDef``: the styles that a class has."""

    place: Span
    names: tuple[str, ...]
    styles: tuple[str, ...]


@frozen(kw_only=True)
class ClassAssignment:
    """``class``: gives a class to nodes, edges and subgraphs that are known by then."""

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
        positions: As written; none where it is about all edges (``default``).
        positions_place: Where these stand.
        interpolation: The curve; nothing where the statement does not say.
        styles: Nothing where the statement is about the curve alone.
    """

    place: Span
    positions: tuple[str, ...]
    positions_place: Span
    interpolation: str | None
    styles: tuple[str, ...] | None


@frozen(kw_only=True)
class ClickStatement:
    """``click``: kept, and never acted on.

    Attributes:
        callback: The function that a browser would call; nothing where it is a link.
        arguments: Of that function, as written.
        link: An address; nothing where it is a function.
        target: In which window the link opens, such as ``_blank``.
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
    """``accTitle`` or ``accDescr``: what the picture is about, for those who cannot see it."""

    place: Span
    is_title: bool
    text: str


@frozen(kw_only=True)
class Stray:
    """A semicolon where no statement is."""

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
    | Stray
)
