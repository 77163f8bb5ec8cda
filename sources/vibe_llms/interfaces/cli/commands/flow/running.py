"""``vibe flow run``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_llms.interfaces.cli.flows.options import (
    run_options,
    strict_option,
    task_argument,
    variables_argument,
)
from vibe_llms.interfaces.cli.options import command, parse_controls

if TYPE_CHECKING:
    from vibe_llms.flows.adapter import UniversalAdapter
    from vibe_llms.flows.results import AdapterResult


@command("run")
@task_argument
@variables_argument
@strict_option
@run_options
def run(file: str, variables: tuple[str, ...], strict: bool, **options: Any) -> int:
    """Run the task in FILE, and print what was said last.

    Variables for {{name}} in its prompts are given as NAME=VALUE:

    \b
        vibe flow run research.json topic=tides
        vibe flow run research.json topic=tides --model scripted:echo

    The run is kept; at its end it is said what it is called. The exit code is 1 where the flow has
    come to its end, but has not met its goal.
    """
    from vibe_llms.interfaces.cli.flows.performing import perform

    given = parse_controls(variables, kind="variable", example="topic=tides")

    async def work(adapter: UniversalAdapter) -> AdapterResult:
        return await adapter.execute(file, given)

    return perform(options, work, strict=strict)
