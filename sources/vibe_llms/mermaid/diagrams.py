"""A parsed flowchart: nodes, edges, subgraphs, classes.

Two values are equal if they have the same content: their places in the text are not compared. So a
program can create these values without places.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.mermaid.labels import Label, LabelKind
from vibe_llms.mermaid.spans import NOWHERE, Span
from vibe_llms.mermaid.statements import Statement


@frozen(kw_only=True)
class Node:
    """A node, with its properties from all statements of the diagram.

    Attributes:
        id: Name of the node in statements.
        label: Text of the node; the id if no statement has a label for it.
        shape: Mermaid's name of the shape: such as ``square`` or ``diamond`` for brackets, or any
            name in ``@{ shape: … }``; empty if no statement has a shape, which is drawn as a
            square.
        classes: Names of classes, in the order of their assignments.
        styles: Styles in ``style`` statements.
        properties: Fields and values of ``[|field:value|label]``.
        attributes: Other attributes in ``@{…}`` that Mermaid knows: ``icon``, ``form``, ``pos``,
            ``img``, ``constraint``, ``w``, ``h``.
        link: The address that a click opens; empty without one.
        target: The window of the link.
        has_callback: True if a click calls a function.
        uses: Places of its name in statements; it appears at the first one.
    """

    id: str
    label: Label = attrs.field()
    shape: str = ""
    classes: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = attrs.field(default=(), eq=frozenset)
    attributes: tuple[tuple[str, str], ...] = attrs.field(default=(), eq=frozenset)
    link: str = ""
    target: str = ""
    has_callback: bool = False
    uses: tuple[Span, ...] = attrs.field(default=(), eq=False)

    @label.default
    def _show_id(self) -> Label:
        return Label(self.id, LabelKind.TEXT)

    @property
    def place(self) -> Span:
        """First place of the node in the text."""
        return self.uses[0] if self.uses else NOWHERE


@frozen(kw_only=True)
class Edge:
    """An edge between two nodes or subgraphs.

    Attributes:
        id: Its id in the text, or the one that Mermaid generates (``L_A_B_0``).
        has_own_id: Whether the id is in the text.
        start: Id of the node or subgraph at its start.
        end: Id of the node or subgraph at its end.
        type: ``arrow_open`` (no ends), ``arrow_point``, ``arrow_circle``, ``arrow_cross``, or one
            of the last three with ``double_`` before it; ``INVALID`` if the two halves of a link
            with its label inside contradict each other.
        stroke: ``normal``, ``thick``, ``dotted``, ``invisible`` or ``INVALID``.
        length: Minimum number of ranks, up to 10; ``None`` if it is invalid.
        label: ``None`` without one.
        classes: Names of classes, in the order of their assignments.
        styles: From ``linkStyle`` statements.
        interpolation: Curve of the edge; empty if none was chosen.
        animate: ``true`` or ``false``, or empty.
        animation: ``fast`` or ``slow``, or empty.
        step: When it appears, from 1; ``None`` if it is visible from the beginning.
        place: Place of its link, which may create several edges.
        start_place: Place of its start node's name in the link.
        end_place: Place of its end node's name.
    """

    id: str = ""
    has_own_id: bool = attrs.field(
        default=attrs.Factory(lambda self: bool(self.id), takes_self=True)
    )
    start: str
    end: str
    type: str = "arrow_point"
    stroke: str = "normal"
    length: int | None = 1
    label: Label | None = None
    classes: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    interpolation: str = ""
    animate: str = ""
    animation: str = ""
    step: int | None = None
    place: Span = attrs.field(default=NOWHERE, eq=False)
    start_place: Span = attrs.field(default=NOWHERE, eq=False)
    end_place: Span = attrs.field(default=NOWHERE, eq=False)


@frozen(kw_only=True)
class Subgraph:
    """A subgraph.

    Attributes:
        id: Its id in the text, or the one that Mermaid generates for a title of several words
            (``subGraph0``).
        title: Title of the subgraph; without a title, the id.
        members: Ids of the nodes and subgraphs directly in it, in Mermaid's order.
        direction: Empty without one of its own.
        classes: Names of classes, in the order of their assignments.
        attributes: Attributes in ``@{…}``, such as ``view``.
        place: Place in the text, from the keyword to ``end``.
        head: The line with id and title.
    """

    id: str
    title: Label = attrs.field()
    members: tuple[str, ...] = attrs.field(default=(), eq=frozenset)
    direction: str = ""
    classes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = attrs.field(default=(), eq=frozenset)
    place: Span = attrs.field(default=NOWHERE, eq=False)
    head: Span = attrs.field(default=NOWHERE, eq=False)

    @title.default
    def _show_id(self) -> Label:
        return Label(self.id, LabelKind.TEXT)


@frozen(kw_only=True)
class StyleClass:
    """A style class: the content of its ``classDef``.

    Attributes:
        name: Name of the class, as nodes refer to it.
        styles: Each as ``fill:#f96``.
        text_styles: The styles that Mermaid applies to labels.
    """

    name: str
    styles: tuple[str, ...]
    text_styles: tuple[str, ...] = ()


@frozen(kw_only=True)
class Diagram:
    """A flowchart with its original text, which is also its printed form.

    Two diagrams are equal if they have the same graph and looks, even with different texts.

    Attributes:
        text: The original, with its comments and layout.
        name: Name of the text in errors.
        direction: ``TB``, ``BT``, ``RL``, ``LR`` or ``BR``.
        nodes: Nodes by id, in the order of their appearance. A subgraph that an edge names is a
            node here, too, as in Mermaid; look at ``subgraphs`` first.
        edges: Edges in the order in which ``linkStyle`` counts them, from 0.
        subgraphs: Subgraphs, inner ones before outer ones. As in Mermaid, subgraphs with the same
            id are merged: title, direction and place are those of the first that ends.
        classes: Style classes by name.
        tooltips: Tooltips by the id of the node.
        default_styles: From ``linkStyle default``.
        default_interpolation: The curve from ``linkStyle default``; empty without one.
        accessible_title: From ``accTitle``, for screen readers.
        accessible_description: From ``accDescr``.
        statements: The original statements, in order.
        title: Title in the front matter; may be empty.
        front_matter: The whole front matter as plain data.
    """

    text: str = attrs.field(eq=False)
    name: str = attrs.field(eq=False)
    direction: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    subgraphs: tuple[Subgraph, ...]
    classes: Mapping[str, StyleClass]
    tooltips: Mapping[str, str]
    default_styles: tuple[str, ...] = ()
    default_interpolation: str = ""
    accessible_title: str = ""
    accessible_description: str = ""
    statements: tuple[Statement, ...] = attrs.field(eq=False)
    title: str = ""
    front_matter: Mapping[str, object]

    def __str__(self) -> str:
        return self.text
