"""Which variables a template has, and which of them it cannot do without."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
from jinja2 import meta, nodes
from jinja2.visitor import NodeTransformer

from vibe_llms.instruments.prompts.guards import drop_guarded


@attrs.frozen
class Variables:
    """The variables of a template.

    Attributes:
        known: All that it looks at.
        required: Those without which it cannot be rendered.
    """

    known: frozenset[str]
    required: frozenset[str]


def find_variables(tree: nodes.Template) -> Variables:
    """Finds the variables of a tree, and takes it apart.

    To Jinja, a name that the branches of a decision set may always have to be given. So it is
    asked twice: of the tree as it is, and with each branch a scope of its own, after which
    stands what all branches have set. Either answer errs on the safe side.
    """
    whole = meta.find_undeclared_variables(tree)
    _Separator().visit(tree)
    known = whole & meta.find_undeclared_variables(tree)
    required = known & meta.find_undeclared_variables(drop_guarded(tree))
    return Variables(frozenset(known), frozenset(required))


class _Separator(NodeTransformer):
    """Makes a scope of each branch of a decision, and sets after it what all of them set."""

    def visit_If(self, node: nodes.If) -> Any:  # noqa: N802
        branches = [node.body, *(branch.body for branch in node.elif_), node.else_]
        names = set.intersection(*({*_list_targets(body)} for body in branches))
        common = sorted(name for name in names if all(_sets_first(b, name) for b in branches))
        for branch in (node, *node.elif_):
            branch.body = self._separate(branch.body)
        node.else_ = self._separate(node.else_)
        after = [nodes.Assign(nodes.Name(name, "store"), nodes.Const(None)) for name in common]
        return [node, *after]

    def _separate(self, body: list[nodes.Node]) -> list[nodes.Node]:
        visited = [each for node in body for each in self.visit_list(node)]
        return [nodes.Scope(visited, lineno=body[0].lineno)] if visited else []


def _list_targets(body: Iterable[nodes.Node]) -> Iterable[str]:
    """Yields the names that statements set, those within decisions included."""
    for node in body:
        if isinstance(node, nodes.Assign | nodes.AssignBlock):
            yield from (each.name for each in node.target.find_all(nodes.Name))
            if isinstance(node.target, nodes.Name):
                yield node.target.name
        elif isinstance(node, nodes.If):
            yield from _list_targets(node.body)


def _sets_first(body: Iterable[nodes.Node], name: str) -> bool:
    """Tells whether statements certainly set a name before they look at it."""
    for node in body:
        if isinstance(node, nodes.Assign | nodes.AssignBlock):
            inputs = [each for field, each in node.iter_fields() if field != "target"]
            if not _mentions(inputs, name) and name in _list_targets([node]):
                return True
        elif isinstance(node, nodes.If) and not _mentions([node.test], name):
            tests = [branch.test for branch in node.elif_]
            branches = [node.body, *(branch.body for branch in node.elif_), node.else_]
            if not _mentions(tests, name) and all(_sets_first(each, name) for each in branches):
                return True
        if _mentions([node], name):
            return False
    return False


def _mentions(given: Iterable[Any], name: str) -> bool:
    for each in given:
        if isinstance(each, list | tuple):
            if _mentions(each, name):
                return True
        elif isinstance(each, nodes.Name):
            if each.name == name:
                return True
        elif isinstance(each, nodes.Node) and _mentions(each.find_all(nodes.Name), name):
            return True
    return False
