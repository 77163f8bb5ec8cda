"""Reads the templates of a prompt with all partials, and finds faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
from jinja2 import Template, meta, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.visitor import NodeTransformer

from vibe_llms.exceptions import Finding
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.instruments.prompts.partials import PartialProblem, Partials
from vibe_llms.instruments.prompts.positions import place_error, produce_finding
from vibe_llms.instruments.prompts.scopes import Variables, find_variables
from vibe_llms.instruments.prompts.templates import Sandbox

INCLUSIONS_LIMIT: Final = 200
"""Maximum number of inclusions of partials, including those in partials."""

_FORBIDDEN: Final = {
    nodes.Extends: "Prompts do not support 'extends': include partials, or import macros.",
    nodes.Block: "Prompts do not support blocks: include partials, or import macros.",
    nodes.ScopedEvalContextModifier: "Prompts are not escaped: remove 'autoescape'.",
}
_TOO_DEEP: Final = "The template nests too deeply."
_Reference = nodes.Include | nodes.Import | nodes.FromImport


@define(eq=False)
class Explorer:
    """Reads templates with their partials, and adds both to a sandbox.

    Attributes:
        partials: The source of partials.
        sources: The text of each template, by its name in the sandbox.
        places: The name of each template in errors, by its name in the sandbox.
        findings: The faults that were found.
    """

    partials: Partials
    sources: dict[str, str] = attrs.field(factory=dict)
    places: dict[str, str] = attrs.field(factory=dict)
    findings: list[Finding] = attrs.field(factory=list)
    sandbox: Sandbox = attrs.field(init=False)
    _inclusions: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.sandbox = Sandbox(self.sources)

    def explore(self, name: str, source: str, place: str) -> Variables:
        """Read a template; faults in it or its partials become findings."""
        tree = self._read(name, source, place, ())
        if tree is not None and not self.findings:
            try:
                return find_variables(tree)
            except RecursionError:
                self.report(place, 0, _TOO_DEEP)
        return Variables(frozenset(), frozenset())

    def compile(self) -> dict[str, Template]:
        """Return the compiled templates; those that cannot be compiled become findings."""
        templates = {}
        for name, place in self.places.items():
            try:
                templates[name] = self.sandbox.get_template(name)
            except (RecursionError, SyntaxError, MemoryError):  # limits of Python's own compiler
                self.report(place, 0, _TOO_DEEP)
        return templates

    def _read(
        self, name: str, source: str, place: str, including_names: tuple[str, ...]
    ) -> nodes.Template | None:
        """Return the tree of a template, including the trees of its partials.

        Args:
            including_names: The templates that include this one, the outermost first.
        """
        self.sources[name], self.places[name] = source, place
        try:
            tree: nodes.Template = self.sandbox.parse(source, name)
            self._check(tree, place)
            _Inliner(self, place, (*including_names, name)).visit(tree)
        except TemplateSyntaxError as error:
            line, message = place_error(source, error.lineno, f"{error.message}")
            self.report(place, line, f"{message[:1].upper()}{message[1:]}".rstrip(".") + ".")
        except RecursionError:
            self.report(place, 0, _TOO_DEEP)
        else:
            return tree
        return None

    def _check(self, tree: nodes.Template, place: str) -> None:
        for kind, message in _FORBIDDEN.items():
            for forbidden in tree.find_all(kind):
                self.report(place, forbidden.lineno, message)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                self.report(place, loop.lineno, "Loops cannot be recursive: use a macro.")
        for node in tree.find_all((nodes.Filter, nodes.Test)):
            is_filter = isinstance(node, nodes.Filter)
            known = self.sandbox.filters if is_filter else self.sandbox.tests
            if node.name not in known:
                usable = [each for each in known if " " not in each]  # see the module `templates`
                kind_name = "filter" if is_filter else "test"
                suggestion = suggest(node.name, usable)
                self.report(place, node.lineno, f"Unknown {kind_name} {node.name!r}{suggestion}")

    def include(
        self, name: str, line: int, place: str, including_names: tuple[str, ...]
    ) -> nodes.Template | None:
        """Return the tree of a partial.

        Raises:
            PartialProblem: The partial does not exist.
        """
        self._inclusions += 1
        if name in including_names:
            cycle = " → ".join((*including_names[including_names.index(name) :], name))
            self.report(place, line, f"The partial includes itself: {cycle}.")
        # Reported for the first inclusion beyond the limit only.
        elif self._inclusions == INCLUSIONS_LIMIT + 1:
            message = f"Partials are included more than {INCLUSIONS_LIMIT} times."
            self.report(place, line, message)
        elif self._inclusions <= INCLUSIONS_LIMIT:
            source, inner = self.partials.read(name)
            return self._read(name, source, inner, including_names)
        return None

    def report(self, place: str, line: Any, message: str) -> None:
        """Add a finding, unless it was reported before."""
        finding = produce_finding(place, line, message)
        if finding not in self.findings:
            self.findings.append(finding)


@define(eq=False)
class _Inliner(NodeTransformer):
    """Replaces each inclusion by the tree of its partial, so that scopes are correct."""

    explorer: Explorer
    place: str
    including_names: tuple[str, ...]

    def visit_Include(self, node: nodes.Include) -> Any:  # noqa: N802
        trees = list(self._find(node, is_optional=node.ignore_missing))
        if not node.with_context:
            self._ensure_no_variables(node, trees)
            return None
        return [nodes.Scope(tree.body, lineno=node.lineno) for tree in trees]

    def visit_Import(self, node: nodes.Import | nodes.FromImport) -> Any:  # noqa: N802
        if node.with_context:
            message = "Macros are imported without context: pass values as arguments."
            self.explorer.report(self.place, node.lineno, message)
        else:
            self._ensure_no_variables(node, list(self._find(node)))
        return node

    visit_FromImport = visit_Import  # noqa: N815

    def _find(self, node: _Reference, *, is_optional: bool = False) -> Iterator[nodes.Template]:
        names = _list_names(node.template)
        if names is None:
            message = (
                "The name of a partial must be a text, not a variable: choose with 'if' instead."
            )
            self.explorer.report(self.place, node.lineno, message)
            return
        problems = []
        for name in names:
            try:
                tree = self.explorer.include(name, node.lineno, self.place, self.including_names)
            except PartialProblem as problem:
                problems.append(str(problem))
                continue
            if tree is not None:
                yield tree
        # Jinja includes the first of several partials that exists, so one is enough.
        if len(problems) == len(names) and not is_optional:
            self.explorer.report(self.place, node.lineno, " ".join(problems))

    def _ensure_no_variables(self, node: _Reference, trees: list[nodes.Template]) -> None:
        """Report variables of a partial that is used without context and cannot have any."""
        for tree in trees:
            if self.explorer.findings:
                return
            needed = sorted(meta.find_undeclared_variables(tree))
            if needed:
                message = (
                    f"The partial uses {', '.join(map(repr, needed))} but is used without "
                    "context: include it with context, or pass its macros arguments."
                )
                self.explorer.report(self.place, node.lineno, message)


def _list_names(node: nodes.Expr) -> list[str] | None:
    """Return the names of the included partials; ``None`` if they are computed."""
    items = node.items if isinstance(node, (nodes.List, nodes.Tuple)) else [node]
    names = [each.value for each in items if isinstance(each, nodes.Const)]
    if len(names) < len(items) or not all(isinstance(each, str) for each in names):
        return None
    return names
