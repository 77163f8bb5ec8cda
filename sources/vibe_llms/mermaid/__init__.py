"""The flowchart language of Mermaid, as Mermaid itself reads it, and back.

:func:`parse_diagram` reads a text: ``cleaning`` and ``lexing`` make tokens of it, ``grammar`` makes
statements of these, ``building`` makes the nodes, edges and subgraphs of those. Every value knows
its place in the text. May import the errors and suggestions. It refuses to know what a diagram
means, to draw it, and to run anything that it names.
"""

from __future__ import annotations

from vibe_llms.mermaid.diagrams import Diagram as Diagram
from vibe_llms.mermaid.diagrams import Edge as Edge
from vibe_llms.mermaid.diagrams import Node as Node
from vibe_llms.mermaid.diagrams import StyleClass as StyleClass
from vibe_llms.mermaid.diagrams import Subgraph as Subgraph
from vibe_llms.mermaid.editing import add_classes as add_classes
from vibe_llms.mermaid.labels import Label as Label
from vibe_llms.mermaid.labels import LabelKind as LabelKind
from vibe_llms.mermaid.reading import parse_diagram as parse_diagram
from vibe_llms.mermaid.spans import Span as Span
