"""``vibe recall search``."""

from __future__ import annotations

import sys

import click

from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.commands.recall.folders import read_folders
from vibe_llms.interfaces.cli.options import (
    command,
    download_option,
    json_option,
    produce_limit_option,
)
from vibe_llms.interfaces.cli.output import note, repair, sanitize, style, write_json


@command("search")
@click.argument("words", nargs=-1, required=True)
@produce_limit_option("passages", default=5)
@click.option("--documents", is_flag=True, help="Search only the folders, not conversations.")
@json_option
@download_option
async def search(
    words: tuple[str, ...], limit: int, documents: bool, as_json: bool, yes: bool
) -> None:
    """Search the folders and your conversations by meaning, best match first.

    \b
        vibe recall add docs/
        vibe recall search "how do I renew the certificate?"
    """
    import attrs

    from vibe_llms.interfaces.cli.progress import TerminalProgress
    from vibe_llms.retrieval import MeaningIndex
    from vibe_llms.retrieval.recalling import describe_source

    application = load_application(yes=yes)
    warn_untrusted(application.configuration)
    index = MeaningIndex(
        folders=read_folders(),
        conversations=not documents,
        application=application,
        progress=TerminalProgress("documents"),
    )
    async with application, index:
        hits = await index.search(repair(" ".join(words)), limit=limit)
    for notice in index.notices:
        note(notice)
    if as_json:
        write_json([attrs.asdict(hit) for hit in hits])
        return
    if not hits:
        note("No matches.")
    for hit in hits:
        source = sanitize(describe_source(hit))
        heading = sanitize(hit.heading)
        sys.stdout.write(f"{style(source, 'cyan')}{f'  {heading}' if heading else ''}\n")
        sys.stdout.write("\n".join(f"  {sanitize(line)}" for line in hit.text.splitlines()))
        sys.stdout.write("\n\n")
