"""Circles of modules, counted with imports for types and imports inside functions."""

from __future__ import annotations

from collections import defaultdict

from support.quality.source_imports import MODULES, list_imports, strip_package

MAX_CIRCLES = 1
"""Number of circles that are left. Lower it when one is cut; do not raise it."""


def find_module(imported: str) -> str | None:
    """Return the module that an import loads; ``None`` for another package's and for the top."""
    name = strip_package(imported)
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


def survey_edges() -> dict[str, set[str]]:
    """Return which modules each module imports."""
    edges: dict[str, set[str]] = defaultdict(set)
    for found in list_imports():
        target = find_module(found.imported)
        if target is not None and target != found.importer:
            edges[found.importer].add(target)
    return edges


def reach(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Return all modules that a module imports, directly or not."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def find_circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import one another."""
    reached = {module: reach(module, edges) for module in list(edges)}
    circles: list[list[str]] = []
    known: set[str] = set()
    for module in sorted(reached):
        if module in reached[module] and module not in known:
            others = {each for each in reached[module] if module in reached.get(each, set())}
            known |= others
            circles.append(sorted(others))
    return circles


def test_there_are_no_new_circles() -> None:
    """A protocol, or a module further down, cuts a circle."""
    circles = find_circles(survey_edges())
    shown = "\n".join(f"  {' - '.join(circle)}" for circle in circles)
    assert len(circles) <= MAX_CIRCLES, f"There are {len(circles)} circles:\n{shown}"


def test_circles_are_found() -> None:
    """Those of two, of three, and of two that share a module; a chain is none."""
    edges = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c", "f"}, "f": {"g"}}
    assert find_circles(edges) == [["a", "b"], ["c", "d", "e"]]
    assert find_circles({"a": {"b"}, "b": {"a", "c"}, "c": {"b"}}) == [["a", "b", "c"]]
    assert find_circles({"a": {"b"}, "b": {"c"}}) == []


def test_the_providers_and_the_server_are_no_circles() -> None:
    """A vendor's client and a connection are known by protocols."""
    cut = {
        "providers.remote",
        "providers.remote_clients",
        "providers.vendors",
        "daemons.server.connection",
    }
    assert not [circle for circle in find_circles(survey_edges()) if cut & {*circle}]
