"""Options shared by the commands that run a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vibe_llms.interfaces.cli.options import FLOW_RUN, MODEL, consent_option, json_option
from vibe_llms.interfaces.cli.tooling import tool_options

_Function = TypeVar("_Function", bound=Callable[..., Any])

_COUNT = click.IntRange(min=1)
_MONEY = click.FloatRange(min=0, min_open=True)

BOUNDS = {
    "max_iterations": (_COUNT, "Limit of nodes visited (default: 1000)."),
    "timeout_ms": (_COUNT, "Time limit in milliseconds (default: 300000)."),
    "max_requests": (_COUNT, "Limit of model answers (default: none)."),
    "max_tokens": (_COUNT, "Limit of input plus output tokens (default: none)."),
    "max_cost_cents": (_MONEY, "Limit of the cost in US cents (default: none)."),
}
"""Limits of a run, by their names in ``AdapterConfig``: type and help text."""

task_argument = click.argument("file", type=click.Path())
run_argument = click.argument("identity", metavar="RUN", type=FLOW_RUN)
variables_argument = click.argument("variables", nargs=-1, metavar="[NAME=VALUE]...")

strict_option = click.option(
    "--strict/--lenient",
    default=True,
    help="Treat harmless oddities as errors (default) or warnings.",
)

mermaid_option = click.option("--mermaid", is_flag=True, help="Write a Mermaid diagram.")
html_option = click.option(
    "--html",
    metavar="FILE",
    type=click.Path(),
    help="Write a self-contained HTML page.",
)
follow_option = click.option(
    "--html",
    metavar="FILE",
    type=click.Path(),
    help="Write an HTML page that follows the run.",
)


def run_options(function: _Function) -> _Function:
    """Add the options of a run: its model, limits, tools, and JSON."""
    options = [
        click.option("--model", "-m", type=MODEL, help="Model to use instead of the task's."),
        *(
            click.option(f"--{name.replace('_', '-')}", name, type=kind, help=text)
            for name, (kind, text) in BOUNDS.items()
        ),
        follow_option,
        json_option,
    ]
    for option in reversed(options):
        function = option(function)
    return tool_options(consent_option(function))
