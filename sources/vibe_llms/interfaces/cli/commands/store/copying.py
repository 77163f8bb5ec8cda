"""``vibe store copy``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import open_store_at
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table

if TYPE_CHECKING:
    from vibe_llms.runs.copying import CopyReport

_DIGITS = 16
"""Number of shown digits of a digest; --json has all."""


@command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@json_option
def copy(source: str, target: str, as_json: bool) -> int:
    """Copy conversations, run logs, inboxes, content and notes into another store.

    The copy is read back and compared: a table shows counts and digests of both sides. You can
    interrupt and repeat the command; it adds only new data. A conversation that exists in both
    stores but differs is left unchanged and reported, and the exit code is 7.

    To move the content of a database to another content backend, name the database twice, with the
    new backend in TO.

    Other programs may use the stores at the same time. If runs are active, repeat the command after
    they have stopped, so that their last data are copied, too.

    \b
        vibe store copy directory postgresql://vibe@database.example/vibe
        vibe store copy postgresql://vibe@database.example/vibe ./backup
        vibe store copy postgresql://v@d.example/v 'postgresql://v@d.example/v?content=s3://bucket'
    """
    from vibe_llms.interfaces.cli.progress import TerminalProgress
    from vibe_llms.runs.copying import copy_store

    progress = TerminalProgress("conversations") if sys.stderr.isatty() else None
    report = copy_store(
        open_store_at(source, must_exist=True), open_store_at(target), progress=progress
    )
    if as_json:
        write_json(_describe(report))
    else:
        _show(report)
    return ExitCode.SUCCESS if report.is_whole else ExitCode.STORE


def _describe(report: CopyReport) -> dict[str, object]:
    import attrs

    return {
        "whole": report.is_whole,
        "kinds": {
            each.kind: {"from": attrs.asdict(each.source), "to": attrs.asdict(each.target)}
            for each in report.comparisons
        },
        "added": report.added,
        "extended": report.extended,
        "working": report.working,
        "refused": [attrs.asdict(each) for each in report.refused],
        "notices": [str(each) for each in report.notices],
    }


def _show(report: CopyReport) -> None:
    write_table(
        [
            (
                each.kind,
                str(each.source.count),
                str(each.target.count),
                each.source.digest[:_DIGITS],
                each.target.digest[:_DIGITS],
                "equal" if each.source == each.target else "differ",
            )
            for each in report.comparisons
        ],
        headers=("kind", "from", "to", "digest from", "digest to", ""),
    )
    for each in (*report.notices, *report.refused):
        note(str(each))
    for identity in report.working:
        note(f"{identity}: the run is active or was interrupted; copied up to now.")
    outcome = "The copy is complete." if report.is_whole else "The copy is NOT complete: see above."
    note(f"Added: {len(report.added)}; extended: {len(report.extended)}. {outcome}")
