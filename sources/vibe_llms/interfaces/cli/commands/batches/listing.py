"""``vibe batches list``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.interrupts import run
from vibe_llms.interfaces.cli.options import (
    command,
    json_option,
    produce_limit_option,
    runner_option,
)
from vibe_llms.interfaces.cli.output import note, write_json, write_moment, write_table

if TYPE_CHECKING:
    from vibe_llms.batches.batch_specs import BatchSummary


@command("list")
@runner_option
@produce_limit_option("batches")
@json_option
def list_(runner: str, limit: int, as_json: bool) -> None:
    """List batches, newest first.

    \b
    filling  inputs are still being added
    open     all inputs were added, and some are not done
    done     every input was answered or has failed
    stopped  was stopped with `vibe batches stop`
    capped   the next request might exceed the cost limit
    failed   was stopped by an error that affects every input, such as a missing key
    """
    from vibe_llms.interfaces.cli.batches.shared import export_summary

    batches = run(_survey(runner, limit))
    if as_json:
        write_json([export_summary(each) for each in batches])
        return
    if not batches:
        note("There are no batches yet.")
    write_table(
        (
            (
                each.id[:12],
                each.state,
                f"{each.done:,}/{each.known:,}",
                f"{each.failed:,}" if each.failed else "",
                write_dollars(each.cost) if each.cost else "",
                write_moment(datetime.fromtimestamp(each.created)),
                each.model,
            )
            for each in batches
        ),
        headers=("id", "state", "done", "failed", "cost", "submitted", "model"),
        styles=("cyan", "", "", "red", "", "dim", "dim"),
    )


async def _survey(url: str, limit: int) -> Sequence[BatchSummary]:
    from vibe_llms.agents.batches import access_batches

    async with access_batches(url) as batches:
        return await batches.survey(limit)
