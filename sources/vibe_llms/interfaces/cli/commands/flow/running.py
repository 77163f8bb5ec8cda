"""``vibe flow run``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_llms.interfaces.cli.flows.options import (
    run_options,
    strict_option,
    task_argument,
    variables_argument,
)
from vibe_llms.interfaces.cli.option_values import parse_controls
from vibe_llms.interfaces.cli.options import command

if TYPE_CHECKING:
    from vibe_llms.flows.adapter import UniversalAdapter
    from vibe_llms.flows.results import AdapterResult


@command("run")
@task_argument
@variables_argument
@strict_option
@run_options
def run(file: str, variables: tuple[str, ...], strict: bool, **options: Any) -> int:
    """Run the task in FILE, and print its last message.

    Set the variables of its prompts, such as {{name}}, with NAME=VALUE:

    \b
        vibe flow run research.json topic=tides
        vibe flow run research.json topic=tides --model scripted:echo

    The run is stored; its id is printed at the end. The exit code is 1 if the flow ended without
    meeting its goal.
    """
    from vibe_llms.interfaces.cli.flows.flow_runs import perform

    values = parse_controls(variables, kind="variable", example="topic=tides")

    async def work(adapter: UniversalAdapter) -> AdapterResult:
        return await adapter.execute(file, values)

    return perform(options, work, strict=strict)
