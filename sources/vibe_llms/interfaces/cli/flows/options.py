"""Options that the commands share which run a flow."""

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
    "max_iterations": (_COUNT, "How many nodes it may visit; 1000 by default."),
    "timeout_ms": (_COUNT, "How long it may take, in milliseconds; 300000 by default."),
    "max_requests": (_COUNT, "How many answers of models it may take."),
    "max_tokens": (_COUNT, "How many tokens it may use, in and out."),
    "max_cost_cents": (_MONEY, "What it may cost, in US cents."),
}
"""The bounds of a run that its config has, by their names there."""

task_argument = click.argument("file", type=click.Path())
run_argument = click.argument("identity", metavar="RUN", type=FLOW_RUN)
variables_argument = click.argument("variables", nargs=-1, metavar="[NAME=VALUE]...")

strict_option = click.option(
    "--strict/--lenient",
    default=True,
    help="Whether what is odd but harmless is an error, as it is by default, or a warning.",
)

mermaid_option = click.option("--mermaid", is_flag=True, help="Write it as a diagram of Mermaid.")
html_option = click.option(
    "--html",
    metavar="FILE",
    type=click.Path(),
    help="Write it as one HTML page, which draws it and needs nothing else.",
)
follow_option = click.option(
    "--html",
    metavar="FILE",
    type=click.Path(),
    help="Keep a page there that draws the run, and follows it while it goes on.",
)


def run_options(function: _Function) -> _Function:
    """Adds the options of a run: its model, its bounds, its tools, and JSON."""
    options = [
        click.option(
            "--model", "-m", type=MODEL, help="Asked in place of the task's model, everywhere."
        ),
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
