"""``vibe batches stop``, ``resume`` and ``delete``."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.interrupts import run
from vibe_llms.interfaces.cli.options import DOLLARS, command, runner_option, yes_option
from vibe_llms.interfaces.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from vibe_llms.batches.batch_specs import BatchSummary
    from vibe_llms.batches.batches import Batches


@command("stop")
@click.argument("batch", metavar="ID")
@runner_option
async def stop(batch: str, runner: str) -> None:
    """Stop a batch. Running requests still finish, and their answers are stored."""
    _report("Stopped", await _change(batch, runner, lambda batches, name: batches.stop(name)))


@command("resume")
@click.argument("batch", metavar="ID")
@runner_option
@click.option("--retry-failed", is_flag=True, help="Also ask again about inputs that failed.")
@click.option("--cap", type=DOLLARS, metavar="DOLLARS", help="New limit of the cost.")
async def resume(batch: str, runner: str, retry_failed: bool, cap: Decimal | None) -> None:
    """Resume a batch that was stopped, has reached its cap, has failed, or is done.

    Workers pick it up within a few seconds.
    """

    async def change(batches: Batches, name: str) -> None:
        await batches.resume(name, retry_failed=retry_failed, cap=cap)

    _report("Resumed", await _change(batch, runner, change))


@command("delete")
@click.argument("batch", metavar="ID")
@runner_option
@yes_option
def delete(batch: str, runner: str, yes: bool) -> None:
    """Delete a batch with its inputs and results."""
    from vibe_llms.interfaces.cli.access import load_configuration
    from vibe_llms.interfaces.cli.consent import require_consent

    summary = run(_change(batch, runner, None))
    if not (yes or load_configuration().yes):
        question = f"Delete batch {summary.id} with {summary.done:,} results?"
        require_consent(question, remedy="Add --yes to delete it.")
    run(_change(summary.id, runner, lambda batches, name: batches.delete(name)))
    note(f"Deleted: batch {summary.id}.")


def _report(action: str, summary: BatchSummary) -> None:
    note(f"{action}: batch {summary.id}, {summary.done:,} of {summary.known:,} done.")


async def _change(
    batch: str, url: str, change: Callable[[Batches, str], Awaitable[None]] | None
) -> BatchSummary:
    from vibe_llms.agents.batches import access_batches

    async with access_batches(url) as batches:
        identity = await batches.resolve(batch)
        summary = await batches.find(identity)
        if change is not None:
            await change(batches, identity)
        return summary
