"""``vibe rank``: texts by their relevance to a query."""

from __future__ import annotations

import sys
from typing import Any

import click

from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.options import (
    MODEL,
    command,
    download_option,
    json_option,
    strict_option,
)
from vibe_llms.interfaces.cli.output import write_json, write_table
from vibe_llms.interfaces.cli.texts import describe_call, file_option, gather_texts, report_result


@command("rank")
@click.argument("query")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@file_option
@click.option(
    "--model",
    "-m",
    type=MODEL,
    help="Ranker or embedder, as provider:model; default: setting `ranker`.",
)
@click.option(
    "--limit", "-n", type=click.IntRange(min=1), help="Show only the best texts (default: all)."
)
@strict_option
@json_option
@download_option
async def rank(query: str, texts: tuple[str, ...], path: str | None, **options: Any) -> None:
    """Order texts by their relevance to QUERY, the most relevant first.

    Without TEXT, each line of --file or of standard input is a text:

    \b
        vibe rank "Where is the bridge?" --file lines.txt --limit 5

    By default, an embedder on this machine ranks them, without an account or a key.
    """
    lines = gather_texts(texts, path)
    application = load_application(yes=options["yes"])
    warn_untrusted(application.configuration)
    from vibe_llms.instruments.rankers import Ranker

    settings = {"application": application, "strict": options["strict"]}
    async with application, Ranker(options["model"] or "", **settings) as ranker:
        ranking = await ranker.rank(query, lines, max_results=options["limit"])
    if options["as_json"]:
        rows = [{"index": e.index, "score": e.score, "text": e.text} for e in ranking]
        write_json({**describe_call(ranking), "ranked": rows})
    else:
        shown = ((f"{each.score:.3f}", each.text) for each in ranking)
        write_table(shown, headers=("score", "text"), styles=("cyan",))
    sys.stdout.flush()
    report_result(ranking, f"{len(lines)} texts")
