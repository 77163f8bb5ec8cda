"""``vibe moderate``: verdicts about texts that may be harmful."""

from __future__ import annotations

import sys
from typing import Any

import click

from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.options import MODEL, command, download_option, json_option
from vibe_llms.interfaces.cli.output import write_json, write_table
from vibe_llms.interfaces.cli.texts import describe_call, file_option, gather_texts, report_result


@command("moderate")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@file_option
@click.option(
    "--model",
    "-m",
    type=MODEL,
    default="",
    help="Moderator, such as openai:omni-moderation-latest; default: setting `moderator`.",
)
@json_option
@download_option
async def moderate(texts: tuple[str, ...], path: str | None, **options: Any) -> int:
    """Classify texts as harmful or harmless, with the kind of harm.

    Without TEXT, each line of --file or of standard input is a text. The exit code is 1 if a text
    is harmful.
    """
    lines = gather_texts(texts, path)
    application = load_application(yes=options["yes"])
    warn_untrusted(application.configuration)
    from vibe_llms.instruments.moderators import Moderator

    async with application, Moderator(options["model"], application=application) as moderator:
        moderation = await moderator.moderate(lines)
    if options["as_json"]:
        rows = [
            {"text": line, "categories": verdict.categories, "scores": dict(verdict.scores)}
            for line, verdict in zip(lines, moderation, strict=True)
        ]
        write_json({**describe_call(moderation), "verdicts": rows})
    else:
        shown = (
            (", ".join(verdict.categories) or "harmless", line)
            for line, verdict in zip(lines, moderation, strict=True)
        )
        write_table(shown, headers=("verdict", "text"), styles=("bold",))
    sys.stdout.flush()
    report_result(moderation, f"{len(lines)} texts")
    return int(moderation.is_harmful)
