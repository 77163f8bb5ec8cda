"""Jinja templates in a sandbox that is stricter than Jinja's own.

This module imports Jinja; the module of ``Prompt`` imports both only when a prompt is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final

from jinja2 import DictLoader, StrictUndefined, Template, nodes
from jinja2.exceptions import TemplateError, UndefinedError
from jinja2.lexer import TokenStream
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from vibe_llms.exceptions import ConverseError, RequestError, Stage
from vibe_llms.instruments.prompts import operations
from vibe_llms.instruments.prompts.filters import FILTERS
from vibe_llms.instruments.prompts.positions import find_column, keep_lines, place_tokens
from vibe_llms.instruments.prompts.rendering_budgets import BUDGET, RenderingBudget

# Internal filters: templates cannot use them, because their names contain a space.
_LIMIT_LOOP: Final = "limit loop"
_CONCATENATE: Final = "concatenate texts"
_COUNT_CONTENTS: Final = "count contents"


class Sandbox(ImmutableSandboxedEnvironment):
    """Sandbox of one prompt's templates: the text of the prompt, and partials.

    Args:
        sources: The texts, by name.
    """

    intercepted_binops = frozenset(operations.OPERATORS)

    def __init__(self, sources: Mapping[str, str]) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            optimized=False,  # else filters would be applied during compilation
            autoescape=False,
            finalize=_finalize,
            loader=DictLoader(sources),
            extensions=("jinja2.ext.loopcontrols",),
            auto_reload=False,
        )
        self.sources = sources
        self.filters = {  # replaces Jinja's filters
            **FILTERS,
            _LIMIT_LOOP: operations.limit_loop,
            _CONCATENATE: operations.concatenate,
            _COUNT_CONTENTS: operations.count_contents,
        }
        # Without Jinja's other functions, which create text or have a state.
        self.globals = {name: self.globals[name] for name in ("dict", "namespace", "range")}

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        """Add the column to every token."""
        source = self.preprocess(source, name, filename)
        tokens = place_tokens(source, self.lexer.tokeniter(source, name, filename, state))
        return TokenStream(self.lexer.wrap(keep_lines(tokens), name, filename), name, filename)

    def _generate(
        self,
        source: nodes.Template,
        name: str | None,
        filename: str | None,
        defer_init: bool = False,
    ) -> str:
        return super()._generate(_BudgetInserter().visit(source), name, filename, defer_init)

    def get_template(self, name: Any, *args: Any, **keywords: Any) -> Template:
        """Return a template; during rendering, its text counts towards the budget."""
        budget = BUDGET.get(None)
        if budget is not None and name in self.sources:
            budget.reserve(len(self.sources[name]))
        return super().get_template(name, *args, **keywords)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator within the budget."""
        return operations.OPERATORS[operator](left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **keywords: Any) -> Any:  # noqa: N805
        """Call a function or method within the budget."""
        BUDGET.get().check_time()
        chosen = operations.choose_callable(__obj, __self.globals.values())
        return operations.count_contents(__context.call(chosen, *args, **keywords))


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Convert printed values to text."""
    return operations.produce_text(value)


def render_template(
    template: Template,
    places: Mapping[str, str],
    values: Mapping[str, Any],
    budget: RenderingBudget,
) -> str:
    """Render a template within a budget.

    Args:
        places: The name of each source in errors, by its name in the sandbox.

    Raises:
        RequestError: The template cannot process the values.
        LimitError: Rendering would take too long, or the result would be too large.
    """
    token = BUDGET.set(budget)
    try:
        return "".join(_render_chunks(template, values, budget))
    except ConverseError:
        raise
    except RecursionError as error:
        detail = "A macro calls itself endlessly, or a value nests too deeply."
        raise _produce_error(error, template, places, detail) from error
    except Exception as error:  # also any error in a property or method of a value
        raise _produce_error(error, template, places, _describe(error)) from error
    finally:
        BUDGET.reset(token)


def _render_chunks(
    template: Template, values: Mapping[str, Any], budget: RenderingBudget
) -> Iterator[str]:
    for chunk in template.root_render_func(template.new_context(dict(values))):
        budget.reserve(len(chunk))
        yield chunk


def _describe(error: Exception) -> str:
    text = str(error).rstrip(".")
    return f"{text}." if isinstance(error, TemplateError) else f"{type(error).__name__}: {text}."


def _produce_error(
    error: Exception, template: Template, places: Mapping[str, str], detail: str
) -> RequestError:
    """Create an error with the template and line in which it happened."""
    name, line = _find_line(error.__traceback__, template)
    source = template.environment.sources[name]  # type: ignore[attr-defined]
    column = 0
    if isinstance(error, UndefinedError):
        # Jinja quotes the undefined name last.
        quoted_names = [word for word in detail.split("'")[1::2] if word.isidentifier()]
        column = find_column(source, line, quoted_names[-1]) if quoted_names else 0
    numbers = ":".join(str(number) for number in (line, column) if number)
    path = f"{places[name]}:{numbers}"
    return RequestError(path=path, detail=f"{path}: {detail}", stage=Stage.EXECUTE)


def _find_line(traceback: TracebackType | None, template: Template) -> tuple[str, int]:
    """Return the innermost template in which an error happened, and the line."""
    found = (template.name or "", 0)
    while traceback is not None:
        inner = traceback.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(inner, Template) and inner.environment is template.environment:
            found = (inner.name or "", inner.get_corresponding_lineno(traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


class _BudgetInserter(NodeTransformer):
    """Inserts internal filters that count loops, concatenations and literals."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        size = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        node.iter = _apply(_LIMIT_LOOP, node.iter, nodes.Const(size))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _apply(_CONCATENATE, *node.nodes)

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.expr2 is None:
            node.expr2 = nodes.Const("")  # users expect this of `{{ word if condition }}`
        return node

    def _visit_literal(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        is_constant = all(isinstance(each, nodes.Const) for each in node.items)
        is_assignment_target = getattr(node, "ctx", "load") != "load"
        return node if is_constant or is_assignment_target else _apply(_COUNT_CONTENTS, node)

    visit_List = visit_Tuple = visit_Dict = _visit_literal  # noqa: N815


def _apply(name: str, node: Any, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)
