"""``vibe eval compare``."""

from __future__ import annotations

from pathlib import Path

import click

from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import write_json

_PATH = click.Path(dir_okay=False, path_type=Path)


@command("compare")
@click.argument("earlier", metavar="EARLIER", type=_PATH)
@click.argument("later", metavar="LATER", type=_PATH)
@click.option("--html", type=_PATH, metavar="FILE", help="Write the differences as an HTML page.")
@json_option
def compare(earlier: Path, later: Path, html: Path | None, as_json: bool) -> int:
    """Show what became better or worse between the reports EARLIER and LATER.

    The exit code is 1 if a case became worse by more than the suite of LATER allows.
    """
    from vibe_llms.evals.comparing import compare_reports
    from vibe_llms.evals.reports import read_report
    from vibe_llms.interfaces.cli.commands.eval.running import write_page
    from vibe_llms.interfaces.cli.evals.display import show_comparison

    before, now = read_report(earlier), read_report(later)
    comparison = compare_reports(before, now)
    if html is not None:
        write_page(html, now, before)
    if as_json:
        write_json(comparison.export())
    else:
        show_comparison(comparison)
    return ExitCode.INCOMPLETE if comparison.regressions else ExitCode.SUCCESS
