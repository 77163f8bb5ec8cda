"""Diagrams with any number of nodes, in the shapes that large diagrams usually have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compose_task(diagram: str) -> dict[str, Any]:
    """Return the smallest task that has a diagram."""
    return {
        "goal": {"description": "Go on."},
        "resource_llm": {"provider": "scripted", "model": "echo"},
        "prompts": [{"template": "Say a word."}],
        "resource_registry": {"entries": []},
        "flow_diagram": {"mermaid": diagram},
    }


def _chain(count: int) -> str:
    steps = "".join(f"  N{number} --> N{number + 1}\n" for number in range(count - 3))
    return _enclose(steps, count)


def _line(count: int) -> str:
    return _enclose("  " + " --> ".join(f"N{number}" for number in range(count - 2)) + "\n", count)


def _split(count: int) -> str:
    branches = "".join(
        f"  START --> N{number}[Task {number}]\n  N{number} --> END\n"
        for number in range(count - 2)
    )
    return f"flowchart TD\n{branches}"


def _ampersands(count: int) -> str:
    group = " & ".join(f"N{number}" for number in range(count - 2))
    return f"flowchart TD\n  START --> {group} --> END\n"


def _subgraphs(count: int) -> str:
    depth = count // 20
    opened = "".join(f"subgraph s{number} [Part {number}]\n" for number in range(depth))
    steps = "".join(f"  N{number} --> N{number + 1}\n" for number in range(count - 3))
    return _enclose(opened + steps + "end\n" * depth, count)


def _labels(count: int) -> str:
    steps = "".join(
        f'  N{number}["Step {number}: say #quot;hi#quot; and go on with (what) follows"]'
        f' -->|"if it is {number}"| N{number + 1}\n'
        for number in range(count - 3)
    )
    return _enclose(steps, count)


def _attributes(count: int) -> str:
    steps = "".join(
        f'  N{number}@{{ shape: doc, label: "Step {number}" }}\n  N{number} --> N{number + 1}\n'
        for number in range(count - 3)
    )
    return _enclose(steps, count)


def _looks(count: int) -> str:
    steps = "".join(
        f"  N{number} --> N{number + 1}:::hot\n  style N{number} fill:#fff\n"
        f'  linkStyle {number} stroke:red\n  class N{number} cold\n  click N{number} href "x"\n'
        for number in range(count - 3)
    )
    return _enclose(steps, count)


def _choices(count: int) -> str:
    steps = "".join(
        f"  C{number}{{good?}} -->|yes| Y{number}\n  C{number} --> N{number}\n"
        f"  Y{number} --> C{number + 1}\n  N{number} --> C{number + 1}\n"
        for number in range(count // 3)
    )
    return f"flowchart TD\n  START --> C0\n{steps}  C{count // 3} --> END\n"


def _splits(count: int) -> str:
    steps = "".join(
        f"  S{number} --> A{number} & B{number} --> S{number + 1}\n" for number in range(count // 3)
    )
    return f"flowchart TD\n  START --> S0\n{steps}  S{count // 3} --> END\n"


def _loops(count: int) -> str:
    steps = "".join(
        f"  L{number}([Again x3]) -->|next| B{number}\n  B{number} --> L{number}\n"
        f"  L{number} -->|done| L{number + 1}\n"
        for number in range(count // 2)
    )
    return f"flowchart TD\n  START --> L0\n{steps}  L{count // 2} --> END\n"


def _errors(count: int) -> str:
    steps = "".join(
        f"  N{number} --> N{number + 1}\n  N{number} -->|error| END\n"
        for number in range(count - 3)
    )
    return _enclose(steps, count)


def _enclose(steps: str, count: int) -> str:
    return f"flowchart TD\n  START --> N0\n{steps}  N{count - 3} --> END\n"


SHAPES: dict[str, Callable[[int], str]] = {
    "chain": _chain,
    "chain on one line": _line,
    "wide split": _split,
    "wide split with &": _ampersands,
    "nested subgraphs": _subgraphs,
    "long labels": _labels,
    "attributes": _attributes,
    "styles and links": _looks,
    "choices": _choices,
    "splits and joins": _splits,
    "loops": _loops,
    "errors to the end": _errors,
}
"""Functions that draw a diagram of about that many nodes, by the name of its shape."""
