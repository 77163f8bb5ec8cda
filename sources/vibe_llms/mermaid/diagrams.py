"""What a flowchart is, once it is read: nodes, edges, subgraphs, classes."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_llms.mermaid.labels import Label
from vibe_llms.mermaid.spans import Span
from vibe_llms.mermaid.statements import Statement
from vibe_llms.values import frozen


@frozen(kw_only=True)
class Node:
    """A node, with all that the statements of the diagram say of it.

    Attributes:
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
    label: Label
    shape: str = ""
    classes: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    link: str = ""
    target: str = ""
    has_callback: bool = False
    uses: tuple[Span, ...] = ()

    @property
    def place(self) -> Span:
        """Where it appears first."""
        return self.uses[0]


@frozen(kw_only=True)
class Edge:
    """An edge between two nodes or subgraphs.

    Attributes:
        id: As written, or as Mermaid makes it up (``L_A_B_0``).
        has_own_id: Whether it was written.
        start: The id of the node or subgraph where it begins.
        type: ``arrow_open`` (no ends), ``arrow_point``, ``arrow_circle``, ``arrow_cross``, or one
            of the last three with ``double_`` before it; ``INVALID`` where the two halves of a
            link with its label inside contradict each other.
        stroke: ``normal``, ``thick``, ``dotted``, ``invisible`` or ``INVALID``.
        length: How many ranks it spans at least, up to 10; nothing where it is invalid.
        label: Nothing where it has none.
        interpolation: Its curve; empty where none was chosen.
        animate: ``true`` or ``false``, or empty.
        animation: ``fast`` or ``slow``, or empty.
        step: When it appears, from 1; nothing where it is there from the beginning.
        place: Where its link stands, which may make several edges.
        start_place: Where the node that it begins at is named for it.
        end_place: Where the node that it ends at is.
    """

    id: str
    has_own_id: bool = False
    start: str
    end: str
    type: str
    stroke: str
    length: int | None
    label: Label | None = None
    classes: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    interpolation: str = ""
    animate: str = ""
    animation: str = ""
    step: int | None = None
    place: Span
    start_place: Span
    end_place: Span


@frozen(kw_only=True)
class Subgraph:
    """A subgraph.

    Attributes:
        members: Ids of the nodes and subgraphs that are directly in it, in Mermaid's order.
        direction: Empty where it has none of its own.
        attributes: What ``@{…}`` has for it, such as ``view``.
        place: From the keyword to ``end``.
        head: The line with id and title.
    """

    id: str
    title: Label
    members: tuple[str, ...]
    direction: str = ""
    classes: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    place: Span
    head: Span


@frozen(kw_only=True)
class StyleClass:
    """What ``classDef`` says of one class.

    Attributes:
        text_styles: Those that Mermaid applies to labels.
    """

    name: str
    styles: tuple[str, ...]
    text_styles: tuple[str, ...]


@frozen(kw_only=True, eq=False)
class Diagram:
    """A flowchart and the text that it was read from.

    Attributes:
        text: As it was written. Printing a diagram is this.
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
        statements: The same as it was written, one after the other.
        title: From the front matter; empty where there is none.
        front_matter: All of it, as plain data.
    """

    text: str
    name: str
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
    statements: tuple[Statement, ...]
    title: str = ""
    front_matter: Mapping[str, object]

    def __str__(self) -> str:
        return self.text
