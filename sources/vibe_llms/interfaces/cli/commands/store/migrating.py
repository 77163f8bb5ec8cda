"""``vibe store migrate``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.access import open_store_at
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write_json


@command("migrate")
@click.argument("store", default="directory", metavar="[STORE]")
@json_option
def migrate(store: str, as_json: bool) -> int:
    """Move conversations of the former layout into subfolders.

    New conversations are stored in subfolders, so that no folder has too many entries and listing
    is fast. Old conversations directly below `conversations` can still be used; this command moves
    them.

    You can interrupt and repeat the command. Stop daemons first: a conversation with an active run
    stays where it is, and the exit code is 7.

    \b
        vibe store migrate
        vibe store migrate ./backup
    """
    import attrs

    from vibe_llms.conversations.stores.directory import DirectoryStore
    from vibe_llms.conversations.stores.migration import migrate as perform
    from vibe_llms.interfaces.cli.progress import TerminalProgress

    opened = open_store_at(store, must_exist=True)
    if not isinstance(opened, DirectoryStore):
        note("Only stores in directories need this.")
        return ExitCode.SUCCESS
    report = perform(opened, TerminalProgress("conversations"))
    if as_json:
        write_json(attrs.asdict(report))
    for identity in report.busy:
        note(f"{identity}: in use by another process; not moved. Stop it, and repeat the command.")
    for identity in report.duplicates:
        note(f"{identity}: exists twice; not moved. Compare both folders, and remove one.")
    note(f"Moved: {report.moved} conversations.")
    return ExitCode.STORE if report.busy or report.duplicates else ExitCode.SUCCESS
