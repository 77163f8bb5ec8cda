"""``vibe flow fork``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.flows.options import run_argument, run_options, variables_argument
from vibe_llms.interfaces.cli.option_values import parse_controls
from vibe_llms.interfaces.cli.options import command

if TYPE_CHECKING:
    from vibe_llms.flows.adapter import UniversalAdapter
    from vibe_llms.flows.results import AdapterResult


@command("fork")
@run_argument
@click.argument("node")
@variables_argument
@click.option(
    "--visit",
    type=click.IntRange(min=1),
    default=1,
    help="Visit of NODE to start from (default: 1).",
)
@run_options
def fork(identity: str, node: str, variables: tuple[str, ...], visit: int, **options: Any) -> int:
    """Run again from NODE, in a new run that shares everything before NODE with RUN.

    \b
        vibe flow fork abcd P1 tone=stern
    """
    from vibe_llms.interfaces.cli.access import resolve_identity
    from vibe_llms.interfaces.cli.flows.flow_runs import load_flow_application, perform

    application = load_flow_application(options)
    run_id = resolve_identity(application.store, identity)
    values = parse_controls(variables, kind="variable", example="topic=tides")

    async def work(adapter: UniversalAdapter) -> AdapterResult:
        return await adapter.fork(run_id, node, visit=visit, variables=values)

    return perform(options, work, application=application)
