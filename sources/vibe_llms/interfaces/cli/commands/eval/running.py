"""``vibe eval SUITE``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import (
    CAP,
    command,
    json_option,
    yes_option,
)
from vibe_llms.interfaces.cli.output import note, write_json

if TYPE_CHECKING:
    from vibe_llms.evals.comparing import EvalComparison
    from vibe_llms.evals.costs import EvalForecast
    from vibe_llms.evals.evaluating import Evaluation
    from vibe_llms.evals.options import EvalProgress
    from vibe_llms.evals.reports import EvalReport

_PATH = click.Path(dir_okay=False, path_type=Path)


@command("run")
@click.argument("suite", metavar="SUITE", type=_PATH)
@click.option("--case", "cases", multiple=True, metavar="NAME", help="Run only this case.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Run only cases with this tag.")
@click.option("--subject", "subjects", multiple=True, metavar="NAME", help="Run only this subject.")
@click.option("--against", type=_PATH, metavar="REPORT", help="Compare with an earlier report.")
@click.option("--output", "-o", type=_PATH, metavar="FILE", help="Write the report as JSON.")
@click.option("--html", type=_PATH, metavar="FILE", help="Write the report as an HTML page.")
@click.option(
    "--max-cost",
    type=CAP,
    metavar="DOLLARS",
    help="Send nothing more after this cost (default: the suite's).",
)
@click.option("--batch", is_flag=True, help="Use vendors' batches: cheaper, and slower.")
@click.option("--fresh", is_flag=True, help="Ignore cached answers and judgments.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder of the cache (default: the user's).",
)
@yes_option
@json_option
async def run(
    suite: Path,
    against: Path | None,
    output: Path | None,
    html: Path | None,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run the cases of SUITE with its models and tasks, and judge the answers.

    The cost is estimated first. Answers are cached, so an interrupted run continues, and a second
    run costs nothing. The exit code is 0 if each subject passes enough trials; 1 after a failure,
    a missing verdict on a given answer, or a regression with --against; 8 if --max-cost left
    trials out.

    \b
        vibe eval suite.toml
        vibe eval suite.toml --output today.json --against yesterday.json --html report.html
    """
    from vibe_llms.evals.comparing import compare_reports
    from vibe_llms.evals.evaluating import Evaluation
    from vibe_llms.evals.options import EvalOptions
    from vibe_llms.evals.reports import read_report
    from vibe_llms.evals.suite_reading import read_suite
    from vibe_llms.interfaces.cli.access import load_application, warn_untrusted

    _check_outputs(suite, output, html)
    earlier = None if against is None else read_report(against)
    application = load_application(yes=yes)
    warn_untrusted(application.configuration)
    tested = read_suite(suite)
    if earlier is not None and earlier.suite != tested.name:
        note(f"Warning: {against} is a report of the suite {earlier.suite!r}, not {tested.name!r}.")
    evaluation = Evaluation(tested, EvalOptions(**options), application=application)
    try:
        with redirect_stdout(sys.stderr):  # functions of judges may print, also their files
            async with evaluation:
                forecast = await evaluation.forecast()
                _confirm(forecast, evaluation, is_agreed=application.configuration.yes)
                try:
                    report = await _perform(evaluation)
                except BaseException:  # including Ctrl-C
                    note("The answers so far are cached; the same command continues.")
                    raise
    finally:
        await application.close()
    if output is not None:
        report.write(output)
    if html is not None:
        write_page(html, report, earlier)
    comparison = None if earlier is None else compare_reports(earlier, report)
    return conclude(report, comparison, as_json=as_json)


def _check_outputs(suite: Path, output: Path | None, html: Path | None) -> None:
    """Check the files to be written, before anything is sent. Raises UsageError."""
    from vibe_llms.foundation.files import resolve_links

    taken = {resolve_links(suite): "SUITE"}
    for option, path in (("--output", output), ("--html", html)):
        if path is None:
            continue
        if str(path) == "-":
            raise click.UsageError(f"{option}: Name a file; --json writes to standard output.")
        if not path.parent.is_dir():
            message = f"{option}: The folder '{path.parent}' does not exist. Create it."
            raise click.UsageError(message)
        other = taken.setdefault(resolve_links(path), option)
        if other != option:
            raise click.UsageError(f"{option} and {other} are the same file. Name another one.")


def _confirm(forecast: EvalForecast, evaluation: Evaluation, *, is_agreed: bool) -> None:
    """Say what a run will cost; on a terminal, ask before it costs anything. Raises TrustError."""
    from vibe_llms.interfaces.cli.consent import require_consent
    from vibe_llms.interfaces.cli.evals.display import describe_forecast, warn_of_cap
    from vibe_llms.interfaces.cli.keyboard import can_ask

    note(describe_forecast(forecast))
    if evaluation.cap is not None:
        for warning in warn_of_cap(forecast, evaluation.cap):
            note(f"Warning: {warning}")
    is_free = not forecast.dollars and not forecast.unpriced
    if is_agreed or is_free or not can_ask():
        return
    require_consent("Run the suite?", remedy="Add --yes to confirm in advance.")


async def _perform(evaluation: Evaluation) -> EvalReport:
    from vibe_llms.foundation.money import write_dollars
    from vibe_llms.interfaces.cli.batches.display import open_bar
    from vibe_llms.interfaces.cli.batches.vendor import VendorReporter

    with open_bar(shows_time=True) as draw:

        def show(progress: EvalProgress) -> None:
            cost = f"  {write_dollars(progress.cost)}" if progress.cost else ""
            text = f"{progress.done:,}/{progress.total:,}  {progress.passed:,} passed{cost}"
            draw(progress.done, progress.total, text)

        evaluation.listen(show, VendorReporter().report)
        return await evaluation.run()


def conclude(report: EvalReport, comparison: EvalComparison | None, *, as_json: bool) -> int:
    """Show a report, and return the exit code."""
    from vibe_llms.foundation.money import write_dollars
    from vibe_llms.interfaces.cli.evals.display import show_comparison, show_report
    from vibe_llms.interfaces.cli.output import write_count

    if as_json:
        document = report.export()
        document["comparison"] = None if comparison is None else comparison.export()
        write_json(document)
    else:
        show_report(report)
        if comparison is not None:
            show_comparison(comparison)
        unpriced = (
            f", and {write_count(report.unpriced, 'request')} of unknown cost"
            if report.unpriced
            else ""
        )
        note(f"Cost of this run: {write_dollars(Decimal(str(report.cost)))}{unpriced}.")
        if report.untried:
            note(
                f"{write_count(report.untried, 'trial')} not tried, or not judged: the cost is "
                "limited. The same command with a higher --max-cost continues."
            )
    return find_exit_code(report, comparison)


def write_page(path: Path, report: EvalReport, earlier: EvalReport | None) -> None:
    """Write the HTML page of a report, compared with an earlier one if it is given."""
    from vibe_llms.evals.report_pages import compose_report_page
    from vibe_llms.foundation.files import write_file

    write_file(path, compose_report_page(report, earlier).encode())


def find_exit_code(report: EvalReport, comparison: EvalComparison | None) -> ExitCode:
    """Return the exit code of a run."""
    if comparison is not None and comparison.regressions:
        return ExitCode.INCOMPLETE
    minimum = report.thresholds.pass_rate
    summaries = report.summarize()
    is_low = any(each.rate.total and each.rate.share < minimum for each in summaries)
    if is_low or report.unjudged:
        return ExitCode.INCOMPLETE
    return ExitCode.SUCCESS if report.holds else ExitCode.LIMIT
