"""``vibe store copy``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import open_place
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table

if TYPE_CHECKING:
    from vibe_llms.runs.copying import CopyReport

_DIGITS = 16
"""So much of a digest is shown; --json has all of it."""


@command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@json_option
def copy(source: str, target: str, as_json: bool) -> int:
    """Copy conversations, the logs and inboxes of their runs, and content into another store.

    What was copied is read back from there; the table says how much of each kind both sides have,
    and the digest of all of it. It may be interrupted, and repeated: it adds what is new. A
    conversation of the same id that differs there, or is ahead, is left as it is, and told; the
    exit code is 7 then.

    Of one database, named twice with another place for content, the content is moved there.

    Others may go on working meanwhile. What a run on its way does later is not in the copy: let it
    come to rest, and copy again.

    \b
        vibe store copy directory postgresql://vibe@database.example/vibe
        vibe store copy postgresql://vibe@database.example/vibe ./backup
        vibe store copy postgresql://v@d.example/v 'postgresql://v@d.example/v?content=s3://bucket'
    """
    from vibe_llms.interfaces.cli.progress import TerminalProgress
    from vibe_llms.runs.copying import copy_store

    progress = TerminalProgress("conversations") if sys.stderr.isatty() else None
    report = copy_store(open_place(source, is_there=True), open_place(target), progress=progress)
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
        note(f"{identity}: a run of it is on its way, or was cut off; copied as far as it was.")
    outcome = "Nothing was lost." if report.is_whole else "NOT everything is there: see above."
    note(f"Added: {len(report.added)}; extended: {len(report.extended)}. {outcome}")
