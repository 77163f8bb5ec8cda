"""Parts of diagrams as a program may make them, with labels that are hard to write."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st

from vibe_llms.mermaid import Edge, Label, LabelKind, Node, Subgraph
from vibe_llms.mermaid.shapes import BRACKETS, NAMES

IDS = tuple("ABCDEFG")
_WORDS = """
# quot; 35; " ` <br/> < > & % %% { } [ ] ( ) / \\ | ~~~ @ end ; : :: ::: - -- --> = x o v
style direction C4Container subgraph click graph \ufb02\u00b0 \u00b6\u00df \x00 _ é 🙂
""".split()  # noqa: SIM905
PIECES = [*_WORDS, *" \n\r\t\u2028\x85\xa0", "direction TB", 'a="b"', "a:#b"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=8)
LABELS = st.builds(Label, TEXTS, st.sampled_from(LabelKind))
_CLASSES = st.lists(st.sampled_from(["hot", "cold"]), max_size=2).map(tuple)

SHAPES = st.sampled_from([*BRACKETS, *sorted(NAMES)])
NODES = st.builds(
    Node,
    id=st.just("A"),
    label=LABELS,
    shape=SHAPES,
    classes=_CLASSES,
    styles=st.sampled_from([(), ("fill:#f96", "stroke-width:4px")]),
)
EDGES = st.builds(
    Edge,
    start=st.sampled_from(IDS),
    end=st.sampled_from(IDS),
    type=st.sampled_from(
        ["arrow_open", "arrow_point", "arrow_circle", "double_arrow_point", "double_arrow_cross"]
    ),
    stroke=st.sampled_from(["normal", "thick", "dotted"]),
    length=st.integers(1, 10),
    label=st.none() | LABELS,
    classes=_CLASSES,
    interpolation=st.sampled_from(["", "basis"]),
    step=st.none() | st.integers(1, 9),
)


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[Node], list[Edge], list[Subgraph]]:
    """Draws nodes, edges between them, and subgraphs around some of them."""
    count = draw(st.integers(1, len(IDS)))
    nodes = [attrs.evolve(draw(NODES | st.just(Node(id="A"))), id=id_) for id_ in IDS[:count]]
    edges = [
        edge
        for edge in draw(st.lists(EDGES, max_size=6))
        if edge.start in IDS[:count] and edge.end in IDS[:count]
    ]
    if edges and draw(st.booleans()):
        edges[0] = attrs.evolve(edges[0], id="e1", has_own_id=True, animate="true")
    free, subgraphs = list(IDS[:count]), []
    for number in range(draw(st.integers(0, 3))):
        members = draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        title = draw(LABELS | st.just(Label(f"s{number}", LabelKind.TEXT)))
        direction = draw(st.sampled_from(["", "LR", "BT"]))
        group = Subgraph(id=f"s{number}", title=title, members=tuple(members), direction=direction)
        subgraphs.append(group)
        free = [each for each in free if each not in members] + [group.id]
    return nodes, edges, subgraphs
