"""The variables of a template, and which of them are required."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jinja2 import meta, nodes
from jinja2.visitor import NodeTransformer

from vibe_llms.foundation.attrs_classes import frozen

Names = frozenset[str]
_NONE: Names = frozenset()


def remove_guarded(tree: nodes.Template) -> nodes.Template:
    """Remove guarded uses of variables from a tree; the remaining variables are required.

    A use is guarded if it cannot fail although the variable is missing: with the filter
    ``default``, in the tests ``defined`` and ``undefined``, and in a branch that is reached only if
    one of these tests has shown that the variable is defined.
    """
    changed: nodes.Template = _GuardedRemover().visit(tree)
    return changed


class _GuardedRemover(NodeTransformer):
    def __init__(self) -> None:
        self.present: Names = _NONE
        """Variables that are certainly defined at the current node."""

    def visit_Name(self, node: nodes.Name) -> nodes.Node:  # noqa: N802
        is_guarded = node.ctx == "load" and node.name in self.present
        return nodes.Const(None) if is_guarded else node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        if node.name in ("d", "default") and isinstance(node.node, nodes.Name):
            # With a default, the variable may be missing.
            node.node = nodes.Const(None)
        return self.generic_visit(node)

    def visit_Test(self, node: nodes.Test) -> nodes.Node:  # noqa: N802
        if node.name in ("defined", "undefined") and isinstance(node.node, nodes.Name):
            # The test works although the variable is missing.
            return nodes.Const(True)
        return self.generic_visit(node)

    def visit_If(self, node: nodes.If) -> nodes.Node:  # noqa: N802
        outer = self.present
        where_false = outer  # known to be defined where all tests so far were false
        for branch in (node, *node.elif_):
            self.present = where_false
            where_true = where_false | _find_present(branch.test, truth=True)
            where_false |= _find_present(branch.test, truth=False)
            branch.test = self.visit(branch.test)
            branch.body = self._visit_where(where_true, branch.body)
        node.else_ = self._visit_where(where_false, node.else_)
        self.present = outer
        return node

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:  # noqa: N802
        where_true = _find_present(node.test, truth=True)
        where_false = _find_present(node.test, truth=False)
        node.test = self.visit(node.test)
        (node.expr1,) = self._visit_where(self.present | where_true, [node.expr1])
        if node.expr2 is not None:
            (node.expr2,) = self._visit_where(self.present | where_false, [node.expr2])
        return node

    def visit_And(self, node: nodes.And) -> nodes.Node:  # noqa: N802
        return self._visit_both(node, truth=True)

    def visit_Or(self, node: nodes.Or) -> nodes.Node:  # noqa: N802
        return self._visit_both(node, truth=False)

    def _visit_both(self, node: nodes.And | nodes.Or, *, truth: bool) -> nodes.Node:
        """Visit both sides; the right side is reached only if the left side has this result."""
        reached = self.present | _find_present(node.left, truth=truth)
        node.left = self.visit(node.left)
        (node.right,) = self._visit_where(reached, [node.right])
        return node

    def _visit_where(self, present: Names, statements: Iterable[nodes.Node]) -> list[Any]:
        """Visit nodes in a scope where these variables are defined."""
        outer, self.present = self.present, present
        visited = [each for node in statements for each in self.visit_list(node)]
        self.present = outer
        return visited


def _find_present(test: nodes.Node, *, truth: bool) -> Names:
    """Return the variables that are certainly defined if a test has this result."""
    if isinstance(test, nodes.Not):
        return _find_present(test.node, truth=not truth)
    if isinstance(test, nodes.Test) and isinstance(test.node, nodes.Name):
        conclusive_test = "defined" if truth else "undefined"
        return frozenset({test.node.name}) if test.name == conclusive_test else _NONE
    # `a and b` is true only if both are true; `a or b` is false only if both are false.
    operator = nodes.And if truth else nodes.Or
    if isinstance(test, operator):
        return _find_present(test.left, truth=truth) | _find_present(test.right, truth=truth)
    return _NONE


@frozen
class Variables:
    """The variables of a template.

    Attributes:
        known: All variables that the template reads.
        required: The variables without which the template cannot be rendered.
    """

    known: frozenset[str]
    required: frozenset[str]


def find_variables(tree: nodes.Template) -> Variables:
    """Find the variables of a tree; modifies the tree.

    Jinja cannot tell whether a name is always set before its use if it is set in branches of an
    ``if``. So the variables are found twice: in the unmodified tree, and in a tree with a separate
    scope for each branch, which is followed by the names that all branches set. Both results may
    contain too many names, but all variables; so only names in both results are variables.
    """
    undeclared_names = meta.find_undeclared_variables(tree)
    _Separator().visit(tree)
    known = undeclared_names & meta.find_undeclared_variables(tree)
    required = known & meta.find_undeclared_variables(remove_guarded(tree))
    return Variables(frozenset(known), frozenset(required))


class _Separator(NodeTransformer):
    """Makes each branch of an ``if`` a scope, and then sets the names that all branches set."""

    def visit_If(self, node: nodes.If) -> Any:  # noqa: N802
        branches = [node.body, *(branch.body for branch in node.elif_), node.else_]
        names = set.intersection(*(set(_list_targets(body)) for body in branches))
        common = sorted(name for name in names if all(_sets_first(body, name) for body in branches))
        for branch in (node, *node.elif_):
            branch.body = self._separate(branch.body)
        node.else_ = self._separate(node.else_)
        after = [nodes.Assign(nodes.Name(name, "store"), nodes.Const(None)) for name in common]
        return [node, *after]

    def _separate(self, body: list[nodes.Node]) -> list[nodes.Node]:
        visited = [each for node in body for each in self.visit_list(node)]
        return [nodes.Scope(visited, lineno=body[0].lineno)] if visited else []


def _list_targets(body: Iterable[nodes.Node]) -> Iterable[str]:
    """Yield the names that statements set, including those within an ``if``."""
    for node in body:
        if isinstance(node, (nodes.Assign, nodes.AssignBlock)):
            yield from (each.name for each in node.target.find_all(nodes.Name))
            if isinstance(node.target, nodes.Name):
                yield node.target.name
        elif isinstance(node, nodes.If):
            yield from _list_targets(node.body)


def _sets_first(body: Iterable[nodes.Node], name: str) -> bool:
    """Return whether statements certainly set a name before they read it."""
    for node in body:
        if isinstance(node, (nodes.Assign, nodes.AssignBlock)):
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


def _mentions(items: Iterable[Any], name: str) -> bool:
    """Return whether a name occurs in nodes or lists of nodes."""
    for each in items:
        if isinstance(each, (list, tuple)):
            if _mentions(each, name):
                return True
        elif isinstance(each, nodes.Name):
            if each.name == name:
                return True
        elif isinstance(each, nodes.Node) and _mentions(each.find_all(nodes.Name), name):
            return True
    return False
