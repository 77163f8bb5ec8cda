"""``vibe runs watch``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

import click

from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.output import note, write
from vibe_llms.interfaces.cli.runs.run_lookup import (
    address_option,
    advise_to_resume,
    compose_run_command,
    find_run,
    open_runs,
    run_argument,
)

if TYPE_CHECKING:
    from vibe_llms.agents.interfaces import WatchedEvent
    from vibe_llms.conversations.run_logs.log import LoggedEvent
    from vibe_llms.runs.summaries import RunSummary

_POLL_SECONDS: Final = 2.0
"""Interval for checking whether a run without new events still has a process."""

_END: Final = object()


@command("watch")
@run_argument
@click.option(
    "--after",
    default=0,
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Only events after this number (default: all).",
)
@click.option("--follow", "-f", is_flag=True, help="Keep following after the run stops.")
@click.option("--json", "as_json", is_flag=True, help="Write each event as a line of JSON.")
@address_option
def watch(word: str, after: int, follow: bool, as_json: bool, address: str) -> None:
    """Follow the events of RUN until it stops.

    Ctrl-C stops watching, not the run: `vibe runs stop` does that. To continue watching, pass the
    number of the last event that you saw to --after.
    """
    from vibe_llms.interfaces.cli.interrupts import run

    try:
        summary = run(_follow(word, address, after, follow=follow, as_json=as_json))
    except KeyboardInterrupt:
        note("The run continues.")
        raise
    _note_how_to_continue(summary, address)


async def _follow(
    word: str, address: str, after: int, *, follow: bool, as_json: bool
) -> RunSummary:
    from vibe_llms.conversations.run_logs.log import LoggedEvent

    async with open_runs(address) as runs:
        summary = await find_run(runs, word)
        after = min(after, summary.sequence)
        if not follow and after == summary.sequence and _is_idle(summary, address):
            return summary
        async with aclosing(_yield_or_time_out(runs.watch(summary.id, after=after))) as events:
            async for event in events:
                if isinstance(event, LoggedEvent):
                    _write(event, as_json=as_json)
                    after = event.sequence
                elif event is not None:
                    continue
                if follow or after < summary.sequence:
                    continue
                summary = await runs.find(summary.id)
                if after >= summary.sequence and _is_idle(summary, address):
                    break
        return summary


async def _yield_or_time_out(
    events: AsyncGenerator[WatchedEvent],
) -> AsyncGenerator[WatchedEvent | None]:
    """Yield events; after each interval without one, yield ``None``.

    The caller then checks whether the run was interrupted. Closes the source of events at the end.
    """
    next_event = asyncio.ensure_future(anext(events, _END))
    try:
        while True:
            await asyncio.wait([next_event], timeout=_POLL_SECONDS)
            if not next_event.done():
                yield None
                continue
            event = next_event.result()
            if event is _END:
                return
            yield cast("WatchedEvent", event)
            next_event = asyncio.ensure_future(anext(events, _END))
    finally:
        next_event.cancel()
        await asyncio.wait([next_event])
        await events.aclose()


def _write(logged: LoggedEvent, *, as_json: bool) -> None:
    from vibe_llms.conversations.run_logs.log_lines import write_line
    from vibe_llms.interfaces.cli.runs.event_texts import describe_logged

    if as_json:
        line = write_line(logged.sequence, logged.timestamp, logged.run_id, logged.event)
        sys.stdout.write(line.decode() + "\n")
    else:
        description = describe_logged(logged)
        if description:
            write(description)
    sys.stdout.flush()


def _is_idle(summary: RunSummary, address: str) -> bool:
    """Return whether the run stays idle until a user acts."""
    if summary.state == "broken_off":  # a daemon resumes the runs that were requested from it
        return not (address and summary.spec)
    # A run that is about to start, for example to receive a stop request, is not idle.
    return not summary.starts and summary.state in ("waiting", "stopped", "ended")


def _note_how_to_continue(summary: RunSummary, address: str) -> None:
    if summary.state == "waiting":
        note(f"It awaits approval. Answer with: {compose_run_command('approve', summary, address)}")
    elif summary.state in ("broken_off", "stopped") or summary.reason in (
        "limit",
        "cancelled",
        "failed",
    ):
        note(advise_to_resume(summary, address))
