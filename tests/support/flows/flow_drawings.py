"""Generated and large diagrams for tests, and a counter of executed lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import strategies as st

SHAPES = st.sampled_from(["step", "row", "all", "one", "loop", "again"])


@st.composite
def drawings(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Generate diagrams as people draw them: rows, splits, choices, loops, and a few odd edges."""
    edges: list[tuple[str, str, str]] = []
    numbers = iter(range(1_000))
    prompts = iter(["P0", "P1", "P2"])

    def name(prefix: str = "n", suffix: str = "") -> str:
        return f"{prefix}{next(numbers)}{suffix}"

    def grow(depth: int) -> tuple[str, str]:
        shape = "step" if depth > 2 else draw(SHAPES)
        if shape == "step":
            node = next(prompts, "") if draw(st.booleans()) else ""
            node = node or name()
            return node, node
        if shape == "row":
            (first, middle), (other, last) = grow(depth + 1), grow(depth + 1)
            edges.append((middle, "", other))
            return first, last
        if shape in ("loop", "again"):
            way_in, way_out = grow(depth + 1)
            if shape == "loop":
                head, after = name("L", "([x2])"), name()
                edges.extend([(head, "", way_in), (way_out, "", head), (head, "done", after)])
                return head, after
            choice, after = name("c", "{?}"), name()
            edges.extend([(way_out, "", choice), (choice, "retry", way_in), (choice, "", after)])
            return way_in, after
        first, last = name("s", "{?}" if shape == "one" else ""), name()
        for place in range(draw(st.integers(2, 3))):
            way_in, way_out = grow(depth + 1)
            label = f"way {place}" if shape == "one" and place else ""
            edges.extend([(first, label, way_in), (way_out, "", last)])
        return first, last

    way_in, way_out = grow(0)
    edges.extend([("START", "", way_in), (way_out, "", "END")])
    known = [each for edge in edges for each in (edge[0], edge[2])]
    inner = [each for each in known if each not in ("START", "END")]
    for _ in range(draw(st.integers(0, 2))):
        label = draw(st.sampled_from(["error", "astray"]))
        edges.append((draw(st.sampled_from(inner)), label, draw(st.sampled_from([*inner, "END"]))))
    return edges


def draw_chain(size: int) -> list[tuple[str, str, str]]:
    """Draw a row of steps."""
    return [(f"n{each}", "", f"n{each + 1}") for each in range(size)]


def draw_ladder(size: int) -> list[tuple[str, str, str]]:
    """Draw choices, each with edges to the next one, to the end and to the one before."""
    return [
        edge
        for each in range(size // 2)
        for edge in (
            (f"n{each}", "", f"c{each}{{x}}"),
            (f"c{each}{{x}}", "yes", f"n{each + 1}"),
            (f"c{each}{{x}}", "no", "END"),
            (f"c{each}{{x}}", "", f"n{max(0, each - 1)}"),
        )
    ] + [(f"n{size // 2}", "", f"n{size}")]


def draw_loops(size: int) -> list[tuple[str, str, str]]:
    """Draw a row of loops."""
    heads = [f"n{each}([x3])" for each in range(size // 2)] + [f"n{size}"]
    return [
        edge
        for each, head in enumerate(heads[:-1])
        for edge in (
            (head, "", f"b{each}"),
            (f"b{each}", "", head),
            (head, "done", heads[each + 1]),
        )
    ]


def draw_branches(size: int) -> list[tuple[str, str, str]]:
    """Draw one split with many branches."""
    return [
        edge
        for each in range(1, size - 1)
        for edge in (("n0", "", f"b{each}"), (f"b{each}", "", f"n{size}"))
    ]


def draw_nest(size: int) -> list[tuple[str, str, str]]:
    """Draw nested splits."""
    depth = size // 4
    edges = [("n0", "", f"b{depth}"), (f"j{depth}", "", f"n{size}"), ("b0", "", "j0")]
    for each in range(1, depth + 1):
        edges += [(f"b{each}", "", f"b{each - 1}"), (f"b{each}", "", f"x{each}")]
        edges += [(f"x{each}", "", f"j{each}"), (f"j{each - 1}", "", f"j{each}")]
    return edges


def draw_nested_loops(size: int) -> list[tuple[str, str, str]]:
    """Draw nested loops."""
    depth = size // 3
    heads = [f"h{each}([x3])" for each in range(depth)] + ["body"]
    edges = [("n0", "", heads[0]), (heads[0], "done", f"n{size}")]
    for each, head in enumerate(heads[:-1]):
        edges += [(head, "", heads[each + 1])]
        edges += [(heads[each + 1], "done", f"a{each}"), (f"a{each}", "", head)]
    return edges


def draw_islands(size: int) -> list[tuple[str, str, str]]:
    """Draw many unreachable circles."""
    return [("n0", "", f"n{size}")] + [
        edge
        for each in range(size // 2)
        for edge in ((f"a{each}", "", f"b{each}"), (f"b{each}", "", f"a{each}"))
    ]


def count_lines(work: Callable[[], Any]) -> int:
    """Count the lines of Python that a call executes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def write_whole(draw: Callable[[int], list[tuple[str, str, str]]], size: int) -> str:
    """Return a large diagram as text, from START to END."""
    edges = draw(size)
    whole = [("START", "", edges[0][0]), *edges, (f"n{size}", "", "END")]
    return "\n".join(
        f"{one} -->{f'|{label}|' if label else ''} {other}" for one, label, other in whole
    )
