"""Reader and writer of Mermaid's flowchart language, compatible with Mermaid itself.

:func:`parse_diagram` reads a text: ``cleaning`` and ``lexing`` produce tokens, ``grammar`` produces
statements, ``building`` produces the nodes, edges and subgraphs. Every value knows its place in the
text, which stays with the diagram: ``str`` of a diagram is its original text.
:func:`compose_diagram` makes a diagram of values, and the functions of ``editing`` change one; both
write with ``printing``, and both parse their result before they return it. May import the errors
and suggestions. Must not interpret a diagram, draw it, or run anything that it names.
"""

from __future__ import annotations

from vibe_llms.mermaid.composing import compose_diagram as compose_diagram
from vibe_llms.mermaid.diagrams import Diagram as Diagram
from vibe_llms.mermaid.diagrams import Edge as Edge
from vibe_llms.mermaid.diagrams import Node as Node
from vibe_llms.mermaid.diagrams import StyleClass as StyleClass
from vibe_llms.mermaid.diagrams import Subgraph as Subgraph
from vibe_llms.mermaid.editing import add_classes as add_classes
from vibe_llms.mermaid.editing import add_edge as add_edge
from vibe_llms.mermaid.editing import add_node as add_node
from vibe_llms.mermaid.editing import remove_edge as remove_edge
from vibe_llms.mermaid.editing import remove_node as remove_node
from vibe_llms.mermaid.editing import rename_node as rename_node
from vibe_llms.mermaid.editing import set_edge_label as set_edge_label
from vibe_llms.mermaid.editing import set_label as set_label
from vibe_llms.mermaid.editing import set_shape as set_shape
from vibe_llms.mermaid.labels import Label as Label
from vibe_llms.mermaid.labels import LabelKind as LabelKind
from vibe_llms.mermaid.parsing import parse_diagram as parse_diagram
from vibe_llms.mermaid.spans import Span as Span
