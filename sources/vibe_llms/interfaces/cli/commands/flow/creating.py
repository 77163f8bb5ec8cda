"""``vibe flow new``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.options import EXAMPLE, command
from vibe_llms.interfaces.cli.output import note, write_table
from vibe_llms.interfaces.cli.program import compose_again, compose_command

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_llms.flows.examples import Example


@command("new")
@click.argument("file", required=False, type=click.Path())
@click.option(
    "--from",
    "example",
    type=EXAMPLE,
    metavar="EXAMPLE",
    help="Example to copy; default: the one that FILE is named after.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def new(file: str | None, example: str | None, force: bool) -> None:
    """Write an example task to FILE; without FILE, list the examples.

    If FILE is named after an example, that example is written; otherwise simple_qa_task, unless
    --from names another. The suffix, .json or .toml, decides the format.

    \b
        vibe flow new
        vibe flow new parallel_review
        vibe flow new mine.toml --from research_task
    """
    from pathlib import Path

    from vibe_llms.flows.examples import FIRST, access_example, survey_examples

    if file is None:
        rows = ((each.name, each.path.suffix[1:], each.summary) for each in survey_examples())
        write_table(rows, headers=("example", "form", "description"), styles=("cyan", "dim"))
        return
    names = [each.name for each in survey_examples()]
    default = next((each for each in (Path(file).name, Path(file).stem) if each in names), FIRST)
    path = _write(access_example(example or default), file, force=force)
    note(f"Written: {path}")
    note(f"Check it: {compose_command('flow', 'check', str(path))}")
    note(f"Run it: {compose_command('flow', 'run', str(path))}")


def _write(example: Example, file: str, *, force: bool) -> Path:
    from pathlib import Path

    from vibe_llms.flows.subflows import SUFFIXES
    from vibe_llms.foundation.files import write_file

    path = Path(file)
    if not path.suffix:
        path = path.with_name(path.name + example.path.suffix)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise click.UsageError(
            f"Unknown format {path.suffix!r} of {path}. Use {' or '.join(SUFFIXES)}."
        )
    if path.exists() and not force:
        raise click.UsageError(
            f"{path} already exists. To overwrite it: {compose_again('--force')}"
        )
    write_file(path, example.write(suffix))
    return path
