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
    json_option,
    yes_option,
)
from vibe_llms.interfaces.cli.output import note, write, write_json, write_table
from vibe_llms.interfaces.cli.runs.naming import open_run, run_argument

if TYPE_CHECKING:
    from vibe_llms.runs.comparing import Moment, RunDifference
    from vibe_llms.runs.replaying import Replay


_OPTIONS = {"controls": "control"}
"""What options are called whose values have other names."""


@command("diff")
@click.argument("first", metavar="RUN", type=RUN)
@click.argument("second", metavar="[RUN]", type=RUN, required=False)
@click.option("--live", is_flag=True, help="Ask a model anew at each step of the one RUN.")
@click.option("--model", metavar="MODEL", help="With --live: another than the one of the run.")
@click.option("--prompt", metavar="TEXT", help="With --live: other instructions; @FILE reads.")
@click.option(
    "--tools",
    "-t",
    multiple=True,
    type=ENSEMBLES,
    metavar="NAME,...",
    help="With --live: what the model is told that it may invoke; by default the run's own.",
)
@control_option
@click.option("--words", is_flag=True, help="With --live: other words are a difference, too.")
@click.option("--cap", type=DOLLARS, metavar="DOLLARS", help="With --live: what it may cost.")
@json_option
@yes_option
def diff(
    first: str, second: str | None, live: bool, as_json: bool, yes: bool, **options: Any
) -> int:
    """Name the first step in which two runs differ: what was sent, to whom, or what came of it.

    With --live there is one RUN: at each of its steps a model is given what was recorded before it,
    and what it calls is held against what was called. Tools are not executed, and nothing
    is stored; but a vendor that has tools of its own, such as a search, executes these again.
    It is said before how often it is asked, and what that costs at most; --cap is not passed. A
    bound on each answer makes the most a lot less: -c max_tokens=500.

    The exit code is 1 where they differ, as that of diff is.

    \b
        vibe runs diff abcd efgh
        vibe runs diff abcd --live --model anthropic:claude-haiku-5-5 --cap 0.50
    """
    if live:
        from vibe_llms.interfaces.cli.interrupts import run
        from vibe_llms.interfaces.cli.runs.living import compare_live

        if second is not None:
            raise click.UsageError("With --live name one run.")
        if options["cap"] is None:
            raise click.UsageError("--live asks a model: say with --cap what it may cost.")
        return run(compare_live(first, options, as_json=as_json, yes=yes))
    for name, value in options.items():
        if value:
            raise click.UsageError(f"--{_OPTIONS.get(name, name)} goes with --live.")
    if second is None:
        raise click.UsageError("Name a second run, or say --live to ask a model anew.")
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
        note("They do not differ.")
    else:
        note(f"Step {difference.step} is the first that differs.")
        if not _write_tasks(difference):
            for sign, moment in (("-", difference.first), ("+", difference.second)):
                write(f"{sign} {_describe(moment)}")
    return ExitCode.SUCCESS if difference is None else ExitCode.INCOMPLETE


def _write_tasks(difference: RunDifference) -> bool:
    """Write how the tasks of two flows, and their variables, differ; tell whether that is it."""
    from vibe_llms.flows.differences import compare_tasks
    from vibe_llms.flows.reading import read_task
    from vibe_llms.foundation.json_types import is_same
    from vibe_llms.interfaces.cli.flows.rows import compose_difference_rows
    from vibe_llms.runs.comparing import Moment

    sides = [difference.first, difference.second]
    tasks, variables = [], list[Mapping[str, Any]]()
    for side in sides:
        match side:
            case Moment(step="task", meaning=(Mapping() as task, Mapping() as given)):
                tasks.append(read_task(task, strict=False))
                variables.append(given)
            case _:
                return False
    rows = compose_difference_rows(compare_tasks(*tasks))
    old, new = variables
    for name in dict.fromkeys([*old, *new]):
        values = [json.dumps(each[name]) if name in each else "(none)" for each in variables]
        if name not in old or name not in new or not is_same(old[name], new[name]):
            rows.append(("changed", f"variable {name}", " -> ".join(values)))
    write_table(rows, headers=("change", "what", "of it"), styles=("cyan", "", "dim"))
    return bool(rows)


def _describe(moment: Moment | None) -> str:
    if moment is None:
        return "(there is no such step)"
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
    help="The versions are those that one file had in its repository of git.",
)
@json_option
def bisect(word: str, versions: tuple[str, ...], revisions: str, as_json: bool) -> int:
    """Find which of several versions changed RUN; nothing is sent.

    A version is a file, the oldest first: of a flow its task, of a conversation the instructions
    of the model. With the first the run has to be as it was, with the last it has to differ.

    \b
        vibe runs bisect abcd task-1.json task-2.json task-3.json
        vibe runs bisect abcd task.json --revisions v1.4..main
    """
    if not revisions:
        for version in versions:
            if not Path(version).exists():
                raise click.UsageError(f"The version {version!r} does not exist: name files.")
        return _bisect(word, versions, versions, as_json)
    if len(versions) != 1:
        raise click.UsageError("With --revisions name one file.")
    import tempfile

    from vibe_llms.interfaces.cli.runs.revisions import read_revisions

    found = read_revisions(Path(versions[0]), revisions)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, revision in enumerate(found):
            # Its name tells how a task is written.
            files.append(file := Path(folder) / f"{number}-{Path(versions[0]).name}")
            file.write_bytes(revision.data)
        return _bisect(word, [*map(str, files)], [each.name for each in found], as_json)


def _bisect(word: str, versions: Sequence[str], names: Sequence[str], as_json: bool) -> int:
    from vibe_llms.interfaces.cli.interrupts import run
    from vibe_llms.runs.comparing import bisect as find
    from vibe_llms.runs.replaying import Variant

    store, summary = open_run(word)

    async def replay(file: str) -> Replay:
        if summary.kind == "flow":
            return await perform_replay(store, summary, Variant(), file)
        return await perform_replay(
            store, summary, Variant(instructions=read_text(f"@{file}")), None
        )

    place, replayed = run(find(versions, replay))
    step = replayed.difference
    assert step is not None
    if as_json:
        write_json(
            {
                "version": names[place],
                "before": names[place - 1],
                "event": step.sequence,
                "difference": step.difference,
            }
        )
    else:
        write(names[place])
        note(f"{names[place]} is the first: event {step.sequence}: {step.difference}")
    return ExitCode.SUCCESS
