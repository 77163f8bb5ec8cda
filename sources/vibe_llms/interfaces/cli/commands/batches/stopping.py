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

    from vibe_llms.batches.batches import Batches
    from vibe_llms.batches.orders import BatchSummary


@command("stop")
@click.argument("batch", metavar="ID")
@runner_option
async def stop(batch: str, runner: str) -> None:
    """Let nothing more of a batch be asked. What is under way is still written."""
    _tell("Stopped", await _change(batch, runner, lambda batches, found: batches.stop(found)))


@command("resume")
@click.argument("batch", metavar="ID")
@runner_option
@click.option("--retry-failed", is_flag=True, help="Ask again what failed, too.")
@click.option("--cap", type=DOLLARS, metavar="DOLLARS", help="What it may cost from now on.")
async def resume(batch: str, runner: str, retry_failed: bool, cap: Decimal | None) -> None:
    """Let a batch go on that was stopped, has reached its cap, has failed, or is done.

    Workers go on with it within some seconds.
    """

    async def change(batches: Batches, found: str) -> None:
        await batches.resume(found, retry_failed=retry_failed, cap=cap)

    _tell("Goes on", await _change(batch, runner, change))


@command("delete")
@click.argument("batch", metavar="ID")
@runner_option
@yes_option
def delete(batch: str, runner: str, yes: bool) -> None:
    """Remove a batch, with its inputs and results."""
    from vibe_llms.interfaces.cli.access import load_configuration
    from vibe_llms.interfaces.cli.consent import require_consent

    found = run(_change(batch, runner, None))
    if not (yes or load_configuration().yes):
        question = f"Remove batch {found.id} with {found.done:,} results?"
        require_consent(question, remedy="Say --yes to remove it.")
    run(_change(found.id, runner, lambda batches, name: batches.delete(name)))
    note(f"Removed: batch {found.id}.")


def _tell(what: str, found: BatchSummary) -> None:
    note(f"{what}: batch {found.id}, {found.done:,} of {found.known:,} done.")


async def _change(
    batch: str, url: str, change: Callable[[Batches, str], Awaitable[None]] | None
) -> BatchSummary:
    from vibe_llms.agents.batches import look_at_batches

    async with look_at_batches(url) as batches:
        identity = await batches.resolve(batch)
        found = await batches.find(identity)
        if change is not None:
            await change(batches, identity)
        return found
