"""``vibe runs replay`` and ``vibe runs keep``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vibe_llms.foundation.files import read_file
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import ENSEMBLES, command, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table
from vibe_llms.interfaces.cli.runs.run_lookup import open_run, run_argument

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.runs.replaying import Replay, Variant
    from vibe_llms.runs.summaries import RunSummary

_TEST = (
    '"""Replay of the run {identity} of {day}.\n\n'
    "It sends no requests and executes no tools. {advice}\n"
    '"""\n\n'
    "from pathlib import Path\n\n"
    "from vibe_llms.testing.replays import check_run\n\n\n"
    'def test_run_{name}() -> None:\n    """The same requests and states as in the recorded '
    'run."""\n    check_run(Path(__file__).parent / "{folder}", "{identity}"{argument})\n'
)


@command("replay")
@run_argument
@click.option("--model", metavar="MODEL", help="Find the first step that differs with this model.")
@click.option(
    "--prompt", metavar="TEXT", help="Find it with other instructions (@FILE reads a file)."
)
@click.option(
    "--tools",
    "-t",
    multiple=True,
    type=ENSEMBLES,
    metavar="NAME,...",
    help="Find it with these ensembles (connects them).",
)
@click.option("--task", metavar="FILE", help="Find it with another version of the flow's task.")
@json_option
def replay(
    word: str,
    model: str | None,
    prompt: str | None,
    tools: tuple[str, ...],
    task: str | None,
    as_json: bool,
) -> int:
    """Replay RUN from its record, without a model or tools, and check each step.

    With --model, --prompt, --tools or --task, find the first step whose request would differ;
    nothing is sent. The exit code is 1 if a step differs.

    \b
        vibe runs replay abcd
        vibe runs replay abcd --prompt @instructions.txt
        vibe runs replay abcd --task task.json
    """
    from vibe_llms.interfaces.cli.interrupts import run
    from vibe_llms.runs.replaying import Variant

    store, summary = open_run(word)
    if summary.kind == "flow" and (model or tools or prompt is not None):
        raise click.UsageError("--model, --prompt and --tools do not apply to a flow; use --task.")
    if summary.kind != "flow" and task:
        raise click.UsageError(f"{summary.id} is a conversation: it has no --task.")
    variant = Variant(
        model=model or None,
        instructions=read_text(prompt),
        pattern=run(_digest_tools(tools)) if tools else None,
    )
    import attrs

    # The log alone does not show whether the run's process has ended.
    replayed = attrs.evolve(run(perform_replay(store, summary, variant, task)), state=summary.state)
    if as_json:
        difference = replayed.difference
        document = attrs.asdict(replayed)
        document["difference"] = None if difference is None else attrs.asdict(difference)
        write_json(document)
    else:
        _show(replayed)
    return ExitCode.SUCCESS if replayed.difference is None else ExitCode.INCOMPLETE


async def _digest_tools(texts: Sequence[str]) -> dict[str, str]:
    """Connect ensembles and return the digest of their tools."""
    from vibe_llms.engine.patterns import digest_pattern
    from vibe_llms.interfaces.cli.access import load_application
    from vibe_llms.interfaces.cli.tooling import produce_ensembles, split_names
    from vibe_llms.invocables.registry import Registry

    names = split_names(texts)
    application = load_application()
    async with Registry(await produce_ensembles(application, names, names)) as registry:
        return {"tools": digest_pattern({}, registry.describe())["tools"]}


def read_text(value: str | None) -> str | None:
    """Return the value of an option; for ``@FILE``, the content of the file."""
    if value is None or not value.startswith("@"):
        return value
    try:
        return read_file(value[1:]).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--prompt {value}: {error}.") from error


async def perform_replay(
    store: ConversationStore, summary: RunSummary, variant: Variant, task: str | None
) -> Replay:
    """Replay the run of a conversation with a variant, or that of a flow with another task."""
    from vibe_llms.runs.replaying import replay_run

    if summary.kind != "flow":
        return await replay_run(store, summary.id, variant)
    from vibe_llms.flows.flow_replay import replay_flow_run
    from vibe_llms.flows.task_reading import examine_task

    other = examine_task(Path(task), strict=False) if task else None
    return await replay_flow_run(store, summary.id, other)


def _show(replayed: Replay) -> None:
    write_table(
        [
            (str(step.sequence), step.step, step.detail, step.difference or "unchanged")
            for step in replayed.steps
        ],
        headers=("event", "step", "", ""),
    )
    for remark in replayed.remarks:
        note(remark)
    if (step := replayed.difference) is not None:
        note(f"The first step that differs is event {step.sequence}: {step.difference}.")
    else:
        state = replayed.state.replace("_", " ")
        note(f"All {len(replayed.steps)} steps are unchanged. State: {state}.")


@command("keep")
@run_argument
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--suite",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Add the run as a case to this suite for `vibe eval`.",
)
def keep(word: str, folder: Path, suite: Path | None) -> None:
    """Write a pytest file for RUN into FOLDER, with the data that it needs.

    The test replays the run without a model or tools. For a flow, it fails if the task would visit
    other nodes. For a conversation, pass your program's engine to the test: it fails if the engine
    has another model, other tools or other settings than the run.

    With --suite, other models and versions can also be asked again: the run becomes a case, whose
    expected answer is the recorded one. A missing suite is written.

    \b
        vibe runs keep abcd tests/runs
        pytest tests/runs
        vibe runs keep abcd tests/runs --suite suite.toml
        vibe eval suite.toml
    """
    from vibe_llms.conversations.stores.directory import DirectoryStore
    from vibe_llms.exceptions import StoreError
    from vibe_llms.interfaces.cli.access import find_parts
    from vibe_llms.runs.copying import copy_store

    store, summary = open_run(word)
    name = summary.id.replace("-", "_")
    file, data = folder / f"test_run_{name}.py", folder / f"run_{name}"
    if file.exists():
        raise StoreError(path=str(file), detail=f"{file} already exists.")
    parts = [summary.id, *find_parts(store, [summary.id])]
    report = copy_store(store, DirectoryStore(data), identities=parts)
    if not report.is_whole:
        raise StoreError(detail=str((*report.refused, "The copy is incomplete.")[0]))
    argument, advice = _compose_argument(store, summary, folder)
    file.write_text(
        _TEST.format(
            identity=summary.id,
            day=summary.updated.date().isoformat(),
            name=name,
            folder=data.name,
            argument=argument,
            advice=advice,
        ),
        encoding="utf-8",
    )
    note(f"{file}: `pytest {file}` replays it.")
    if suite is not None:
        _add_case(store, summary, data, suite)
        note(f"{suite}: `vibe eval {suite}` asks again.")


def _add_case(store: ConversationStore, summary: RunSummary, data: Path, suite: Path) -> None:
    """Add a kept run as a case to a suite."""
    from vibe_llms.evals.suite_writing import add_run

    name = f"run-{summary.id}"
    if summary.kind == "flow":
        from vibe_llms.flows.records import read_record

        # The goal of the task judges its answers.
        place = read_record(store, summary.id).started.place or "task.json"
        add_run(suite, name, data, expected="", kind="task", subject=place)
        return
    from vibe_llms.engine.tails import read_tail
    from vibe_llms.messages.views import answer_text

    canisters = store.read(summary.id).canisters
    expected = answer_text(canisters[read_tail(canisters).start :])
    add_run(suite, name, data, expected=expected, kind="model", subject=summary.model)


def _compose_argument(
    store: ConversationStore, summary: RunSummary, folder: Path
) -> tuple[str, str]:
    """Return the test's argument that names today's task, and a hint for the user."""
    if summary.kind == "flow":
        from vibe_llms.flows.records import read_record

        place = read_record(store, summary.id).started.place
        if place and Path(place).is_file():
            relative_path = Path(os.path.relpath(place, folder)).as_posix()
            argument = f', task=Path(__file__).parent / "{relative_path}"'
            return argument, "It fails if the task would visit other nodes."
        return "", "Add task=… to compare it with today's task."
    return "", "Add engine=… to compare it with what your program sends today."
