"""Which functions and which of the vendor's own tools share one object of ``tools``.

It means nothing, and a request is written with all functions in one; but a client's request
comes back as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.generate_content.fields import camelize

_FUNCTIONS: Final = "functionDeclarations"


def find_groups(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, int]] | None:
    """Returns for each tool its kinds, with the number of functions; None if that is usual."""
    groups = [
        {kind: len(value) if kind == _FUNCTIONS else 1 for kind, value in camelize(tool).items()}
        for tool in tools
    ]
    several = sum(_FUNCTIONS in group for group in groups) > 1
    usual = groups and not several and all(len(g) == 1 and all(g.values()) for g in groups)
    return None if usual else groups


def restore_groups(body: dict[str, Any], groups: list[dict[str, int]]) -> dict[str, Any]:
    """Returns the body with its tools in the groups in which they came, if they still are those."""
    tools = body.get("tools", [])
    functions = iter([each for tool in tools for each in tool.get(_FUNCTIONS, ())])
    others = iter([tool for tool in tools if _FUNCTIONS not in tool])
    try:
        grouped = [_compose(group, functions, others) for group in groups]
    except (StopIteration, KeyError):
        return body
    is_rest = any(True for _ in functions) or any(True for _ in others)
    return body if is_rest else {**body, "tools": grouped}


def _compose(
    group: Mapping[str, int], functions: Iterator[Any], others: Iterator[Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns one tool. Raises StopIteration or KeyError where what was in it is not there."""
    return {
        kind: [next(functions) for _ in range(count)] if kind == _FUNCTIONS else next(others)[kind]
        for kind, count in group.items()
    }
