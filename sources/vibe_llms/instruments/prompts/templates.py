"""Jinja templates in a sandbox that is stricter than Jinja's own.

Rendering a prompt imports this module, and Jinja with it; the module of ``Prompt`` does not.
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

_BOUND_LOOP: Final = "bound loop"
_CONCATENATE: Final = "concatenate"
_WEIGH: Final = "weigh"
# Filters with a space in their names: templates cannot use them.


class Sandbox(ImmutableSandboxedEnvironment):
    """Sandbox of one prompt's templates: its own text and its partials.

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
            _BOUND_LOOP: operations.bound_loop,
            _CONCATENATE: operations.concatenate,
            _WEIGH: operations.weigh,
        }
        # Jinja's other functions create text or keep state; a template may only read.
        self.globals = {name: self.globals[name] for name in ("dict", "namespace", "range")}

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        """Add its column to every token."""
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
        return super()._generate(_Guard().visit(source), name, filename, defer_init)

    def get_template(self, name: Any, *args: Any, **named: Any) -> Template:
        """Return a template; during rendering, its text counts towards the budget."""
        budget = BUDGET.get(None)
        if budget is not None and name in self.sources:
            budget.admit(len(self.sources[name]))
        return super().get_template(name, *args, **named)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator within the budget."""
        return operations.OPERATORS[operator](left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **named: Any) -> Any:  # noqa: N805
        """Call a function or method within the budget."""
        BUDGET.get().tick()
        chosen = operations.choose_callable(__obj, __self.globals.values())
        return operations.weigh(__context.call(chosen, *args, **named))


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Convert printed values to text."""
    return operations.produce_text(value)


def produce_text(
    template: Template,
    places: Mapping[str, str],
    values: Mapping[str, Any],
    budget: RenderingBudget,
) -> str:
    """Render a template within a budget.

    Args:
        places: Names of the sandbox's sources in errors.

    Raises:
        RequestError: The template cannot process the values.
        LimitError: Rendering would take too long, or the result would be too large.
    """
    token = BUDGET.set(budget)
    try:
        return "".join(_pour(template, values, budget))
    except ConverseError:
        raise
    except RecursionError as error:
        detail = "A macro calls itself without end, or a value nests too deeply."
        raise _produce_error(error, template, places, detail) from error
    except Exception as error:  # including errors of a value's own properties
        raise _produce_error(error, template, places, _describe(error)) from error
    finally:
        BUDGET.reset(token)


def _pour(template: Template, values: Mapping[str, Any], budget: RenderingBudget) -> Iterator[str]:
    for chunk in template.root_render_func(template.new_context(dict(values))):
        budget.admit(len(chunk))
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
        words = [word for word in detail.split("'")[1::2] if word.isidentifier()]
        column = max((find_column(source, line, word) for word in words[-1:]), default=0)
    numbers = ":".join(str(number) for number in (line, column) if number)
    path = f"{places[name]}:{numbers}"
    return RequestError(path=path, detail=f"{path}: {detail}", stage=Stage.EXECUTE)


def _find_line(traceback: TracebackType | None, template: Template) -> tuple[str, int]:
    """Return the innermost template in which it happened, and the line."""
    found = (template.name or "", 0)
    while traceback is not None:
        inner = traceback.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(inner, Template) and inner.environment is template.environment:
            found = (inner.name or "", inner.get_corresponding_lineno(traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


class _Guard(NodeTransformer):
    """Adds the budget to every operation of a template that could grow without one."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        size = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        node.iter = _apply(_BOUND_LOOP, node.iter, nodes.Const(size))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _apply(_CONCATENATE, *node.nodes)

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.expr2 is None:
            node.expr2 = nodes.Const("")  # the expected result of `{{ word if wanted }}`
        return node

    def _visit_literal(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        is_plain = all(isinstance(each, nodes.Const) for each in node.items)
        return node if is_plain or getattr(node, "ctx", "load") != "load" else _apply(_WEIGH, node)

    visit_List = visit_Tuple = visit_Dict = _visit_literal  # noqa: N815


def _apply(name: str, node: Any, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)
