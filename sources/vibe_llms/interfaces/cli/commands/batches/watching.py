"""``vibe batches watch``, ``results`` and ``convert``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from vibe_llms.interfaces.cli.options import command, json_option, runner_option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_LINE_BYTES: Final = 200_000_000

_OUTPUT = click.option(
    "--output",
    "-o",
    default="-",
    type=click.Path(allow_dash=True),
    help="File for the answers: lines, or a table (.parquet).",
)


@command("watch")
@click.argument("batch", metavar="ID")
@runner_option
@_OUTPUT
@json_option
async def watch(batch: str, runner: str, output: str, as_json: bool) -> int:
    """Follow a batch until it stops, then write its answers.

    The exit code is 1 if any request failed. Ctrl-C stops following; the batch continues.
    """
    from vibe_llms.agents.batches import access_batches
    from vibe_llms.interfaces.cli.batches.shared import describe_runner, follow_to_end
    from vibe_llms.runs.patience import PATIENCE_SECONDS

    async with access_batches(runner, patience_seconds=PATIENCE_SECONDS) as batches:
        identity = await batches.resolve(batch)
        runner_option = describe_runner(runner)
        return await follow_to_end(batches, identity, output, runner_option, as_json=as_json)


@command("results")
@click.argument("batch", metavar="ID")
@runner_option
@_OUTPUT
async def results(batch: str, runner: str, output: str) -> None:
    """Write the results that a batch has so far, in the order of its inputs."""
    from vibe_llms.agents.batches import access_batches
    from vibe_llms.interfaces.cli.batches.shared import write_output

    async with access_batches(runner) as batches:
        await write_output(batches, await batches.resolve(batch), output)


@command("convert")
@click.argument("lines", metavar="FILE", type=click.Path())
@click.argument("table", metavar="TABLE.parquet", type=click.Path())
def convert(lines: str, table: str) -> None:
    """Convert a file of lines, as written by `vibe batch --output`, to a Parquet table.

    \b
        vibe batches convert answers.jsonl answers.parquet
    """
    from pathlib import Path

    from vibe_llms.batches.exporting import convert_lines

    if not table.lower().endswith(".parquet"):
        raise click.UsageError(f"{table} does not end in .parquet.")
    with Path(lines).open("rb") as file:
        convert_lines(_read_lines(file, lines), Path(table), lines)


def _read_lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    """Yield the lines of a file. Raises RequestError if one is too long."""
    from vibe_llms.exceptions import RequestError

    number = 0
    while line := file.readline(_LINE_BYTES + 1):
        number += 1
        if len(line) > _LINE_BYTES:
            detail = f"{path}:{number}: The line has more than {_LINE_BYTES:,} bytes."
            raise RequestError(path=path, detail=detail)
        yield line
