"""``vibe flow diff``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.flows.options import html_option, mermaid_option
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write, write_json, write_table


@command("diff")
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@mermaid_option
@html_option
@json_option
def diff(old: str, new: str, mermaid: bool, html: str | None, as_json: bool) -> int:
    """Show what distinguishes two versions of a task: of its nodes, edges and prompts.

    The exit code is 1 where they differ, as that of diff is.

    \b
        vibe flow diff before.json after.json
        vibe flow diff before.json after.json --html difference.html
    """
    from pathlib import Path

    import attrs

    from vibe_llms.flows.difference_pages import compose_difference_page
    from vibe_llms.flows.differences import compare_tasks, draw_difference
    from vibe_llms.flows.reading import read_task
    from vibe_llms.interfaces.cli.errors import ExitCode
    from vibe_llms.interfaces.cli.exchanging import save_document

    before, after = (read_task(each, strict=False) for each in (old, new))
    difference = compare_tasks(before, after)
    if html is not None:
        save_document(compose_difference_page(before, after), Path(html))
        note(f"Written: {html}")
    elif mermaid:
        write(draw_difference(before, after).rstrip("\n"))
    elif as_json:
        write_json(attrs.asdict(difference))
    else:
        rows = [
            *((each.change, each.node, ", ".join(each.details)) for each in difference.nodes),
            *(
                (each.change, f"{each.source} --> {each.target}", each.label)
                for each in difference.edges
            ),
            *(("changed", each, "") for each in difference.others),
        ]
        write_table(rows, headers=("change", "what", "of it"), styles=("cyan", "", "dim"))
        if not difference:
            note("They do not differ.")
    return ExitCode.INCOMPLETE if difference else ExitCode.SUCCESS
