"""``vibe runs watch``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.output import note, write
from vibe_llms.interfaces.cli.runs.naming import advise_to_resume, open_run, run_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.runs.log import LoggedEvent, LogLine
    from vibe_llms.runs.summaries import RunSummary

_PAUSE_SECONDS = 0.1


@command("watch")
@run_argument
@click.option(
    "--after",
    default=0,
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Only what came after the event of this number; by default all.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on when the run has come to rest.")
@click.option("--json", "as_json", is_flag=True, help="Write each event as a line of JSON.")
def watch(word: str, after: int, follow: bool, as_json: bool) -> None:
    """Follow what happens in RUN, until it comes to rest.

    Ctrl-C ends the watching, and not the run: `vibe runs stop` does that. Who watches again says
    with --after what is known already.
    """
    store, summary = open_run(word)
    try:
        rested = _follow(store, summary.id, after, follow=follow, as_json=as_json)
    except KeyboardInterrupt:
        note("The run goes on without you.")
        raise
    _tell_rest(rested)


def _follow(
    store: ConversationStore, identity: str, after: int, *, follow: bool, as_json: bool
) -> RunSummary:
    from vibe_llms.runs.places import produce_log
    from vibe_llms.runs.summaries import RunFold

    tail, fold = produce_log(store, identity).tail(), RunFold(identity)
    while True:
        lines = tail.read()
        for logged, line in zip(_read(lines), lines, strict=True):
            fold.feed(logged)
            if line.sequence > after:
                _write(logged, line, as_json=as_json)
        sys.stdout.flush()
        if lines:
            continue
        if not follow and _has_come_to_rest(summary := fold.summarize()):
            return summary
        store.read_metadata(identity)  # else what was deleted would be watched for ever
        time.sleep(_PAUSE_SECONDS)


def _read(lines: Sequence[LogLine]) -> list[LoggedEvent]:
    from vibe_llms.runs.lines import open_envelope, read_envelope

    return [open_envelope(read_envelope(line.data)) for line in lines]


def _write(logged: LoggedEvent, line: LogLine, *, as_json: bool) -> None:
    from vibe_llms.interfaces.cli.runs.words import describe_logged

    if as_json:
        sys.stdout.write(line.data.decode() + "\n")
    elif words := describe_logged(logged):
        write(words)


def _has_come_to_rest(summary: RunSummary) -> bool:
    """Tells whether nothing will come unless somebody does something."""
    # One that was told to stop has still to hear of it.
    return not summary.starts and summary.state in ("waiting", "stopped", "ended")


def _tell_rest(summary: RunSummary) -> None:
    from vibe_llms.interfaces.cli.program import compose_command

    if summary.state == "waiting":
        note(f"It waits. Answer with: {compose_command('runs', 'approve', summary.id)}")
    elif summary.state == "stopped" or summary.reason in ("limit", "cancelled", "failed"):
        note(advise_to_resume(summary))
