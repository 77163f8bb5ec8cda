"""``vibe flow diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.flows.options import html_option, mermaid_option
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write, write_json, write_table

if TYPE_CHECKING:
    from vibe_llms.flows.tasks import Task


@command("diff")
@click.argument("old", metavar="FILE_OR_RUN", type=click.Path())
@click.argument("new", metavar="FILE_OR_RUN", type=click.Path())
@mermaid_option
@html_option
@json_option
def diff(old: str, new: str, mermaid: bool, html: str | None, as_json: bool) -> int:
    """Show how two versions of a task differ: in nodes, edges and prompts.

    Each version is a task file, or a run and its task at that time. The exit code is 1 if they
    differ, as with diff.

    \b
        vibe flow diff before.json after.json
        vibe flow diff abcd task.json --html difference.html
    """
    from pathlib import Path

    import attrs

    from vibe_llms.flows.difference_pages import compose_difference_page
    from vibe_llms.flows.differences import compare_tasks, draw_difference
    from vibe_llms.interfaces.cli.errors import ExitCode
    from vibe_llms.interfaces.cli.exchanging import save_document
    from vibe_llms.interfaces.cli.flows.rows import compose_difference_rows

    before, after = _read_version(old), _read_version(new)
    difference = compare_tasks(before, after)
    if html is not None:
        save_document(compose_difference_page(before, after), Path(html))
        note(f"Written: {html}")
    elif mermaid:
        write(draw_difference(before, after).rstrip("\n"))
    elif as_json:
        write_json(attrs.asdict(difference))
    else:
        write_table(
            compose_difference_rows(difference),
            headers=("change", "part", "details"),
            styles=("cyan", "", "dim"),
        )
        if not difference:
            note("No differences.")
    return ExitCode.INCOMPLETE if difference else ExitCode.SUCCESS


def _read_version(word: str) -> Task:
    """Read the task in a file, or that of a run by its id or a prefix of it."""
    from pathlib import Path

    from vibe_llms.exceptions import UnknownConversationError
    from vibe_llms.flows.records import read_record
    from vibe_llms.flows.subflows import SUFFIXES
    from vibe_llms.flows.task_reading import read_task
    from vibe_llms.interfaces.cli.access import open_store, resolve_identity

    if Path(word).suffix in SUFFIXES or Path(word).exists():
        return read_task(word, strict=False)
    store = open_store()
    try:
        return read_record(store, resolve_identity(store, word)).reading.task
    except UnknownConversationError as error:
        raise click.UsageError(
            f"{word!r} is neither a file nor a run. Name a task file, or a run from `vibe "
            "runs list`."
        ) from error
