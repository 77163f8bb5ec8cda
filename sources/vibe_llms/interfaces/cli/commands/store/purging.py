"""``vibe store purge``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import click

from vibe_llms.interfaces.cli.access import load_configuration
from vibe_llms.interfaces.cli.options import DAYS, command, json_option, yes_option
from vibe_llms.interfaces.cli.output import note, write, write_json
from vibe_llms.runs.summaries import RunSummary


@command("purge")
@click.option(
    "--older-than",
    "days",
    required=True,
    type=DAYS,
    metavar="DAYS",
    help="Minimum number of days without activity.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@json_option
@yes_option
def purge(days: float, dry_run: bool, as_json: bool, yes: bool) -> None:
    """Delete old finished runs with their conversations and the visits of flows.

    Runs that are waiting, working, queued or due are kept, however old, and so are conversations
    without a run. Forks keep their copies of shared messages. Unused content is removed, too,
    unless it was added within the last hour, as with `vibe gc`.

    \b
        vibe store purge --older-than 90 --dry-run
    """
    from vibe_llms.interfaces.cli.consent import require_consent
    from vibe_llms.interfaces.cli.interrupts import run

    contents: Sequence[str] = ()
    old = run(_find_old_runs(days))
    if not as_json:
        for each in old:
            write(f"{each.id}  {each.updated.date().isoformat()}  {each.state}  {each.name}")
    if old and not dry_run:
        if not (yes or load_configuration().yes):
            remedy = "Add --yes to remove them, or --dry-run."
            require_consent(f"Remove {len(old)} runs?", remedy=remedy)
        run(_remove(old))
        contents = _remove_unused_content()
    if as_json:
        identities = [each.id for each in old]
        removed = [] if dry_run else identities
        write_json({"removable": identities, "removed": removed, "contents": contents})
    elif dry_run:
        note(f"Would be removed: {len(old)} runs, and content that only they use.")
    else:
        note(f"Removed: {len(old)} runs, {len(contents)} contents.")


def _remove_unused_content() -> Sequence[str]:
    """Remove unreferenced content; return its ids."""
    from vibe_llms.conversations.proof import collect_content, plan_collection
    from vibe_llms.interfaces.cli.access import open_store

    store = open_store()
    return list(collect_content(store, plan_collection(store)).content_ids)


async def _find_old_runs(days: float) -> Sequence[RunSummary]:
    from vibe_llms.interfaces.cli.runs.run_lookup import open_runs
    from vibe_llms.messages.identities import access_now

    async with open_runs("") as runs:
        finished = await runs.survey(states=("ended", "stopped"), limit=None)
    latest = access_now() - timedelta(days=days)
    return [each for each in finished if each.updated < latest]


async def _remove(old: Sequence[RunSummary]) -> None:
    from vibe_llms.exceptions import UnknownConversationError
    from vibe_llms.interfaces.cli.runs.run_lookup import open_runs

    async with open_runs("") as runs:
        for each in old:
            try:
                await runs.delete(each.id)
            except UnknownConversationError:  # another process has removed it
                continue
