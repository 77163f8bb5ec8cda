"""An altered diagram keeps what was written."""

from __future__ import annotations

import pytest

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.mermaid import add_classes, parse_diagram

TEXT = "graph TD\n %% comment\n  A -->|x| B\n  subgraph s;C;end"


def test_classes_are_added_behind_what_was_written() -> None:
    """Nodes and subgraphs get the class, and the text before it is untouched."""
    altered = add_classes(
        parse_diagram(TEXT), {"done": "fill:#9f6"}, {"done": ["A", "s"], "no": []}
    )

    assert str(altered).startswith(TEXT)
    assert altered.classes["done"].styles == ("fill:#9f6",)
    assert altered.nodes["A"].classes == ("done",)
    assert altered.nodes["B"].classes == ()
    assert altered.subgraphs[0].classes == ("done",)
    assert [edge.id for edge in altered.edges] == ["L_A_B_0"]


def test_a_style_that_mermaid_does_not_read_is_refused() -> None:
    """A diagram never becomes one that cannot be drawn."""
    with pytest.raises(ConfigurationError):
        add_classes(parse_diagram(TEXT), {"done": "fill:rgb(1,2,3)"}, {})
