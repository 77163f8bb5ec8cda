"""``vibe runs diff`` and ``vibe runs bisect``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.commands.runs.replaying import perform_replay, read_text
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import (
    DOLLARS,
    ENSEMBLES,
    RUN,
    command,
    control_option,
    download_option,
    json_option,
)
from vibe_llms.interfaces.cli.output import note, write, write_json, write_table
from vibe_llms.interfaces.cli.runs.run_lookup import open_run, run_argument

if TYPE_CHECKING:
    from vibe_llms.runs.comparing import Moment, RunDifference
    from vibe_llms.runs.replaying import Replay


_OPTIONS = {"controls": "control"}
"""Names of options whose parameters have different names."""


@command("diff")
@click.argument("first", metavar="RUN", type=RUN)
@click.argument("second", metavar="[RUN]", type=RUN, required=False)
@click.option("--live", is_flag=True, help="Ask a model again at each step of RUN.")
@click.option("--model", metavar="MODEL", help="With --live: use another model.")
@click.option(
    "--prompt", metavar="TEXT", help="With --live: other instructions (@FILE reads a file)."
)
@click.option(
    "--tools",
    "-t",
    multiple=True,
    type=ENSEMBLES,
    metavar="NAME,...",
    help="With --live: ensembles to offer (default: the run's).",
)
@control_option
@click.option("--words", is_flag=True, help="With --live: also compare the words.")
@click.option("--cap", type=DOLLARS, metavar="DOLLARS", help="With --live: limit of the cost.")
@json_option
@download_option
def diff(
    first: str, second: str | None, live: bool, as_json: bool, yes: bool, **options: Any
) -> int:
    """Find the first step at which two runs differ: the request, the model, or the result.

    With --live, name one RUN: a model is asked again at each recorded step, and its calls are
    compared with the recorded calls. Tools are not executed, and nothing is stored; but a vendor's
    own tools, such as search, run again. You see the number of requests and the highest possible
    cost before it starts; --cap is never exceeded. Limit the answers to lower that cost: -c
    max_tokens=500.

    The exit code is 1 if the runs differ, as with diff.

    \b
        vibe runs diff abcd efgh
        vibe runs diff abcd --live --model anthropic:claude-haiku-5-5 --cap 0.50
    """
    if live:
        from vibe_llms.interfaces.cli.interrupts import run
        from vibe_llms.interfaces.cli.runs.live_diff import compare_live

        if second is not None:
            raise click.UsageError("--live takes one run.")
        if options["cap"] is None:
            raise click.UsageError("--live asks a model: set a limit with --cap.")
        return run(compare_live(first, options, as_json=as_json, yes=yes))
    for name, value in options.items():
        if value:
            raise click.UsageError(f"--{_OPTIONS.get(name, name)} needs --live.")
    if second is None:
        raise click.UsageError("Name a second run, or add --live to ask a model again.")
    return _compare_stored(first, second, as_json)


def _compare_stored(first: str, second: str, as_json: bool) -> int:
    import attrs

    from vibe_llms.runs.comparing import compare_runs

    store, one = open_run(first)
    _, other = open_run(second)
    difference = compare_runs(store, one.id, other.id)
    if as_json:
        write_json(None if difference is None else attrs.asdict(difference))
    elif difference is None:
        note("No differences.")
    else:
        note(f"First difference: step {difference.step}.")
        if not _write_tasks(difference):
            for sign, moment in (("-", difference.first), ("+", difference.second)):
                write(f"{sign} {_describe(moment)}")
    return ExitCode.SUCCESS if difference is None else ExitCode.INCOMPLETE


def _write_tasks(difference: RunDifference) -> bool:
    """Write the differences if tasks and variables of flows differ; return whether they do."""
    from vibe_llms.flows.differences import compare_tasks
    from vibe_llms.flows.task_reading import read_task
    from vibe_llms.foundation.json_types import is_same
    from vibe_llms.interfaces.cli.flows.rows import compose_difference_rows
    from vibe_llms.runs.comparing import Moment

    sides = [difference.first, difference.second]
    tasks, variables = [], list[Mapping[str, Any]]()
    for side in sides:
        match side:
            case Moment(step="task", meaning=(Mapping() as task, Mapping() as values)):
                tasks.append(read_task(task, strict=False))
                variables.append(values)
            case _:
                return False
    rows = compose_difference_rows(compare_tasks(*tasks))
    old, new = variables
    for name in dict.fromkeys([*old, *new]):
        texts = [json.dumps(each[name]) if name in each else "(none)" for each in variables]
        if name not in old or name not in new or not is_same(old[name], new[name]):
            rows.append(("changed", f"variable {name}", " -> ".join(texts)))
    write_table(rows, headers=("change", "part", "details"), styles=("cyan", "", "dim"))
    return bool(rows)


def _describe(moment: Moment | None) -> str:
    if moment is None:
        return "(no such step)"
    meaning = json.dumps(moment.meaning, ensure_ascii=False)
    return f"{moment.step} (event {moment.sequence}): {meaning}"


@command("bisect")
@run_argument
@click.argument(
    "versions",
    metavar="VERSION...",
    nargs=-1,
    required=True,
    type=click.Path(dir_okay=False),
)
@click.option(
    "--revisions",
    default="",
    metavar="GOOD..BAD",
    help="Compare the git revisions of one file.",
)
@json_option
def bisect(word: str, versions: tuple[str, ...], revisions: str, as_json: bool) -> int:
    """Find the version that changed RUN, without sending anything.

    Each version is a file, oldest first: a flow's task, or a conversation's instructions. The run
    must match the first version and differ from the last.

    \b
        vibe runs bisect abcd task-1.json task-2.json task-3.json
        vibe runs bisect abcd task.json --revisions v1.4..main
    """
    if not revisions:
        for version in versions:
            if not Path(version).exists():
                raise click.UsageError(f"Unknown version {version!r}: name files.")
        return _bisect(word, versions, versions, as_json)
    if len(versions) != 1:
        raise click.UsageError("--revisions takes one file.")
    import tempfile

    from vibe_llms.interfaces.cli.runs.revisions import read_revisions

    all_revisions = read_revisions(Path(versions[0]), revisions)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, revision in enumerate(all_revisions):
            # The suffix stays the same, because it decides a task's format.
            file = Path(folder) / f"{number}-{Path(versions[0]).name}"
            file.write_bytes(revision.data)
            files.append(str(file))
        return _bisect(word, files, [each.name for each in all_revisions], as_json)


def _bisect(word: str, versions: Sequence[str], names: Sequence[str], as_json: bool) -> int:
    from vibe_llms.interfaces.cli.interrupts import run
    from vibe_llms.runs.comparing import bisect as find_first_different
    from vibe_llms.runs.replaying import Variant

    store, summary = open_run(word)

    async def replay(file: str) -> Replay:
        if summary.kind == "flow":
            return await perform_replay(store, summary, Variant(), file)
        return await perform_replay(
            store, summary, Variant(instructions=read_text(f"@{file}")), None
        )

    index, replayed = run(find_first_different(versions, replay))
    step = replayed.difference
    assert step is not None
    if as_json:
        write_json(
            {
                "version": names[index],
                "before": names[index - 1],
                "event": step.sequence,
                "difference": step.difference,
            }
        )
    else:
        write(names[index])
        note(
            f"{names[index]} is the first version that differs, at event {step.sequence}: "
            f"{step.difference}"
        )
    return ExitCode.SUCCESS
