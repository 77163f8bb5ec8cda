"""``vibe batch``: the same question to a model for each of many inputs."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.batches.channels import (
    CONVERSER,
    EMBEDDER,
    STANDARD,
    produce_channel,
    produce_work,
)
from vibe_llms.interfaces.cli.options import (
    DOLLARS,
    PURPOSES,
    command,
    control_option,
    json_option,
    lenient_option,
    model_option,
    provider_option,
    strict_option,
    window_option,
    yes_option,
)
from vibe_llms.interfaces.cli.output import note

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_llms.batches.channel import BatchChannel
    from vibe_llms.batches.runs import Inputs
    from vibe_llms.instruments.parsers.parsers import Parser
    from vibe_llms.instruments.prompts import Prompt
    from vibe_llms.interfaces.cli.batches.display import BatchNotes
    from vibe_llms.interfaces.cli.batches.inputs import InputFormat

LOCAL = "local:"

_GENERA = (CONVERSER, EMBEDDER, "moderator")
"""Genera that answer single texts."""

_OPTION_NAMES = {"controls": "control", "template": "prompt"}
"""Names of options that differ from those of the arguments."""


@command("batch")
@click.argument("prompts", metavar="FILE", type=click.Path(allow_dash=True))
@click.option(
    "--output",
    "-o",
    default=STANDARD,
    type=click.Path(allow_dash=True),
    help="Write answers to this file, one per line.",
)
@model_option()
@provider_option
@click.option(
    "--genus",
    type=click.Choice(_GENERA),
    default=CONVERSER,
    show_default=True,
    help="Purpose of the model.",
)
@click.option("--dimensions", type=click.IntRange(min=1), help="Length of an embedder's vectors.")
@click.option("--purpose", type=click.Choice(PURPOSES), help="Use of an embedder's vectors.")
@click.option("--system", "-s", help="Instructions for each prompt.")
@click.option(
    "--prompt",
    "template",
    type=click.Path(),
    help="Jinja template; each line is an object of variables.",
)
@click.option("--schema", type=click.Path(), help="JSON Schema for each answer.")
@control_option
@click.option("--text", is_flag=True, help="Lines are plain prompts (implied by .txt).")
@click.option(
    "--concurrency",
    default=64,
    show_default=True,
    type=click.IntRange(min=1),
    help="Number of requests at the same time.",
)
@click.option(
    "--ordered/--unordered", default=True, help="Keep the order on standard output (the default)."
)
@click.option("--retry-failed", is_flag=True, help="Ask again about inputs that failed before.")
@click.option(
    "--channel",
    type=click.Choice(["direct", "vendor"]),
    default="direct",
    show_default=True,
    help="Ask one by one, or as a vendor's batch (cheaper, slower).",
)
@click.option("--cancel", is_flag=True, help="Ask the vendor to stop the batches of this output.")
@click.option(
    "--resubmit",
    is_flag=True,
    help="Submit again, although the vendor may bill it twice.",
)
@click.option(
    "--runner",
    metavar="URL",
    help="Let workers process it: sqlite:///FILE or postgresql://…",
)
@click.option("--key", default="", help="Batch name with --runner; default: derived from FILE.")
@click.option(
    "--retries",
    default=0,
    type=click.IntRange(0, 10),
    help="Retries of an input after temporary failures (default: 0).",
)
@click.option(
    "--cap",
    type=DOLLARS,
    metavar="DOLLARS",
    help="Stop before the cost exceeds this (default: no limit).",
)
@click.option(
    "--priority",
    default=0,
    type=click.IntRange(-1000, 1000),
    help="With --runner: higher runs first (default: 0).",
)
@click.option("--detach", is_flag=True, help="With --runner: submit and return at once.")
@strict_option
@window_option
@lenient_option
@json_option
@yes_option
def batch(prompts: str, output: str, as_json: bool, **options: Any) -> int:
    """Ask a model about each line of FILE, many at once; write one line per answer.

    Each line is JSON: a string, or an object such as {"prompt": "…", "id": "…"}. With --output,
    answers are saved as they arrive, and running the same command again continues where it stopped:

    \b
        vibe batch prompts.jsonl --model openai:gpt-6 --output answers.jsonl
        cat questions.txt | vibe batch - --text --system "Answer in one word."

    With --channel vendor, the requests are submitted as a batch of the vendor, which is cheaper and
    answers within a day. You see the price and confirm it first. If the command ends early, run it
    again to continue.

    With --runner, any number of `vibe worker` processes share the work with this command. If you
    end the command, the batch continues; follow it with the same command or with `vibe batches
    watch`.

    With --genus embedder or moderator, each line is a text, and its `value` is a vector or a
    verdict. Requests contain as many texts as the vendor allows:

    \b
        vibe batch texts.jsonl --genus embedder --output vectors.jsonl

    The exit code is 1 if any request failed. The output also lists the failures.
    """
    from vibe_llms.interfaces.cli.interrupts import run

    _check_genus(options)
    _check_channel(prompts, output, options)
    if options["template"] is not None:
        from vibe_llms.instruments.prompts import Prompt

        options["template"] = Prompt.read(options["template"])
    input_format = _choose_format(prompts, options)
    options["parser"] = _produce_parser(options["schema"])
    if options["channel"] == "vendor":
        from vibe_llms.interfaces.cli.batches.vendor import perform

        return run(perform(prompts, input_format, output, options, as_json=as_json))
    source, total = _open_source(prompts, input_format)
    if options["runner"] not in (None, LOCAL):
        return run(_share(prompts, source, output, options, as_json=as_json))
    return run(_perform(source, total, output, options, as_json=as_json))


async def _share(
    prompts: str, source: Inputs, output: str, options: dict[str, Any], *, as_json: bool
) -> int:
    from pathlib import Path

    from vibe_llms.agents.runners import check_shared
    from vibe_llms.batches.vendor_chunks import refuse_open_chunks
    from vibe_llms.interfaces.cli.batches.shared import perform

    check_shared(options["runner"])
    refuse_open_chunks(None if output == STANDARD else Path(output))
    model = produce_work(options)
    async with model.application:
        return await perform(prompts, source, output, options, model, as_json=as_json)


def _check_genus(options: dict[str, Any]) -> None:
    """Refuse options of another genus."""
    genus = options["genus"]
    refused = [] if genus == EMBEDDER else ["dimensions", "purpose"]
    if genus != CONVERSER:
        refused += ["system", "template", "schema", "controls", "window", "lenient"]
    for name in refused:
        if options[name]:
            option = _OPTION_NAMES.get(name, name)
            raise click.UsageError(f"--{option} cannot be combined with --genus {genus}.")


def _check_channel(prompts: str, output: str, options: dict[str, Any]) -> None:
    import os

    is_shared = options["runner"] not in (None, LOCAL)
    if os.path.realpath(output) == os.path.realpath(prompts) and output != STANDARD:
        raise click.UsageError(f"--output {output} is the input file: name another file.")
    if is_shared and options["channel"] == "vendor":
        raise click.UsageError("--channel vendor cannot be combined with --runner.")
    if options["cap"] is not None and options["channel"] == "vendor":
        raise click.UsageError(
            "--channel vendor shows its price first and cannot be combined with --cap."
        )
    if options["retries"] and options["channel"] == "vendor":
        raise click.UsageError("--channel vendor does not take --retries; use --retry-failed.")
    if not is_shared:
        # With the runner local:, other options are accepted without effect, so that a user can
        # change only the URL.
        refused = ("detach",) if options["runner"] else ("key", "priority", "detach")
        for name in refused:
            if options[name]:
                raise click.UsageError(f"--{name} needs --runner.")
        if output.lower().endswith(".parquet"):
            raise click.UsageError(
                "Answers are written as lines: name a .jsonl file and convert it with `vibe "
                "batches convert`."
            )
    if options["channel"] != "vendor":
        for name in ("cancel", "resubmit"):
            if options[name]:
                raise click.UsageError(f"--{name} needs --channel vendor.")
        return
    if output == STANDARD:
        raise click.UsageError(
            "--channel vendor needs --output: answers arrive over hours and are kept in a file."
        )
    if prompts == STANDARD:
        raise click.UsageError(
            "--channel vendor needs a FILE, to show its price before it submits anything."
        )
    if options["window"] not in (None, "stop"):
        raise click.UsageError("--window cannot be combined with --channel vendor.")


def _choose_format(prompts: str, options: dict[str, Any]) -> InputFormat:
    from vibe_llms.interfaces.cli.batches.inputs import InputFormat

    prompt: Prompt | None = options["template"]
    if prompt is None:
        return InputFormat(
            is_text=options["text"] or prompts.lower().endswith(".txt"),
            key="prompt" if options["genus"] == CONVERSER else "text",
        )
    if options["text"]:
        raise click.UsageError("--text lines have no variables for --prompt: remove one of both.")
    return InputFormat(fill=prompt.compose, takes_id="id" in prompt.variables)


def _open_source(prompts: str, input_format: InputFormat) -> tuple[Inputs, int | None]:
    """Return the inputs, and their number if they are in a file; a file is checked first."""
    from pathlib import Path

    from vibe_llms.interfaces.cli.batches.inputs import check_file, read_file, read_pipe

    path = Path(prompts)
    if prompts == STANDARD or _is_standard_input(path):
        return read_pipe(input_format), None
    return read_file(path, input_format), check_file(path, input_format)


def _is_standard_input(path: Path) -> bool:
    """Return whether a path is another name of standard input, such as ``/dev/stdin``."""
    import os
    import sys

    try:
        # A file that is redirected to standard input can be read twice, like any file.
        return not path.is_file() and os.path.samestat(path.stat(), os.fstat(sys.stdin.fileno()))
    except (OSError, ValueError):
        return False


async def _perform(
    source: Inputs, total: int | None, output: str, options: dict[str, Any], *, as_json: bool
) -> int:
    from vibe_llms.batches.channel import BatchChannel
    from vibe_llms.exceptions import ConverseError
    from vibe_llms.interfaces.cli.batches.display import BatchNotes, report_end

    if options["retry_failed"] and output == STANDARD:
        raise click.UsageError("--retry-failed needs the --output of the batch that failed.")
    model = produce_work(options)
    concurrency = options["concurrency"]
    channel: BatchChannel[Any]
    settings = {"concurrency": concurrency, "retries": options["retries"], "cap": options["cap"]}
    channel = produce_channel(BatchChannel, model, output, options, **settings)
    notes = BatchNotes()
    try:
        await _work(channel, source, total, notes, options)
    except BaseException as error:  # including Ctrl-C
        if channel.tally.done or not isinstance(error, ConverseError):
            _note_how_to_continue(channel, output)
        raise
    finally:
        await model.application.close()
    return report_end(channel, notes, None if output == STANDARD else output, as_json=as_json)


def _produce_parser(path: str | None) -> Parser[Any] | None:
    """Build the parser of the answers from a schema file. Raises RequestError."""
    from vibe_llms.interfaces.cli.commands.ask import read_schema

    schema = read_schema(path)
    if schema is None:
        return None
    from vibe_llms.instruments.parsers.parsers import Parser

    return Parser(schema)


async def _work(
    channel: BatchChannel[Any],
    source: Inputs,
    total: int | None,
    notes: BatchNotes,
    options: dict[str, Any],
) -> None:
    import sys

    from vibe_llms.batches.item_lines import encode_item
    from vibe_llms.interfaces.cli.batches.display import show_progress

    is_shown = channel.journal is None
    items = channel.run(source, ordered=is_shown and options["ordered"], stored=False, total=total)
    # `aclosing` cancels running work at once after an error, not at garbage collection.
    async with show_progress(channel, notes), aclosing(items):
        async for item in items:
            notes.add(item)
            if is_shown:
                sys.stdout.write(encode_item(item).decode())
                sys.stdout.flush()  # readers of a pipe wait for each line


def _note_how_to_continue(channel: BatchChannel[Any], output: str) -> None:
    """Report how many answers an interrupted batch has, and how to continue it."""
    tally = channel.tally
    if not tally.done + tally.stored + tally.failed:
        return  # nothing to continue
    of_total = "" if tally.total is None else f" of {tally.total:,}"
    answers = f"{tally.done + tally.stored:,}{of_total} answers"
    if output == STANDARD:
        note(f"Stopped after {answers}. A batch with --output FILE can be continued.")
    else:
        note(f"Stopped: {answers} are in {output}. Run the same command again to continue.")
