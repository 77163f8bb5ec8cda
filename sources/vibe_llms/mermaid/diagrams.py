"""What a flowchart is, once it is read: nodes, edges, subgraphs, classes.

Two values are equal if they say the same, wherever it stands: places take no part in it. So a
program can make these, too, and needs no places for them.
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
    """A node, with all that the statements of the diagram say of it.

    Attributes:
        id: What statements name it by.
        label: What is written on it; its id where no statement has a label for it.
        shape: As Mermaid calls it: ``square`` and ``diamond`` for brackets, any of its shapes'
            names for ``@{ shape: … }``; empty where no statement has one, which is drawn as a
            square.
        classes: Names of classes, in the order of their assignments.
        styles: Those that ``style`` gives it.
        properties: Of ``[|field:value|label]``.
        attributes: What else ``@{…}`` has that Mermaid knows: ``icon``, ``form``, ``pos``,
            ``img``, ``constraint``, ``w``, ``h``.
        link: The address that a click opens; empty where it opens none.
        target: In which window.
        has_callback: Whether a click calls a function.
        uses: Where statements name it; the first one is where it appears.
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
        """Where it appears first."""
        return self.uses[0] if self.uses else NOWHERE


@frozen(kw_only=True)
class Edge:
    """An edge between two nodes or subgraphs.

    Attributes:
        id: As written, or as Mermaid makes it up (``L_A_B_0``).
        has_own_id: Whether it was written.
        start: The id of the node or subgraph where it begins.
        end: The id of the one where it ends.
        type: ``arrow_open`` (no ends), ``arrow_point``, ``arrow_circle``, ``arrow_cross``, or one
            of the last three with ``double_`` before it; ``INVALID`` where the two halves of a
            link with its label inside contradict each other.
        stroke: ``normal``, ``thick``, ``dotted``, ``invisible`` or ``INVALID``.
        length: How many ranks it spans at least, up to 10; nothing where it is invalid.
        label: Nothing where it has none.
        classes: Names of classes, in the order of their assignments.
        styles: Those that ``linkStyle`` gives it.
        interpolation: Its curve; empty where none was chosen.
        animate: ``true`` or ``false``, or empty.
        animation: ``fast`` or ``slow``, or empty.
        step: When it appears, from 1; nothing where it is there from the beginning.
        place: Where its link stands, which may make several edges.
        start_place: Where the node that it begins at is named for it.
        end_place: Where the node that it ends at is.
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
        id: As written, or as Mermaid makes it up for a title of several words (``subGraph0``).
        title: What is written above it; its id where it has none.
        members: Ids of the nodes and subgraphs that are directly in it, in Mermaid's order.
        direction: Empty where it has none of its own.
        classes: Names of classes, in the order of their assignments.
        attributes: What ``@{…}`` has for it, such as ``view``.
        place: From the keyword to ``end``.
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
    """What ``classDef`` says of one class.

    Attributes:
        name: What nodes have it by.
        styles: Each as ``fill:#f96``.
        text_styles: Those that Mermaid applies to labels.
    """

    name: str
    styles: tuple[str, ...]
    text_styles: tuple[str, ...] = ()


@frozen(kw_only=True)
class Diagram:
    """A flowchart and the text that it was read from, which is also how it is printed.

    Two diagrams are equal if they have the same graph and looks, whatever their texts are.

    Attributes:
        text: As it was written, with its comments and layout.
        name: Another word for where the text is from, for errors.
        direction: ``TB``, ``BT``, ``RL``, ``LR`` or ``BR``.
        nodes: By id, in the order of their appearance. What an edge calls a subgraph by is a node
            here, too, as in Mermaid; look at ``subgraphs`` first.
        edges: In the order that ``linkStyle`` counts them in, from 0.
        subgraphs: Inner ones before outer ones. Those with the same id are one, as in Mermaid, with
            the title, direction and place of the first that ends.
        classes: By name.
        tooltips: By the id of the node.
        default_styles: Those of ``linkStyle default``.
        default_interpolation: The curve of ``linkStyle default``; empty where it has none.
        accessible_title: What ``accTitle`` says, for those who cannot see the picture.
        accessible_description: What ``accDescr`` says.
        statements: The same as it was written, one after the other.
        title: From the front matter; empty where there is none.
        front_matter: All of it, as plain data.
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
