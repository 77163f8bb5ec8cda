"""``vibe sync``."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import open_store, open_store_at
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, sanitize, write_count, write_json, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_llms.runs.sync_reports import SyncedLabels, SyncReport


@command("sync")
@click.argument("target", metavar="STORE")
@json_option
def sync(target: str, as_json: bool) -> int:
    """Copy conversations and notes between this machine and STORE, in both directions.

    STORE is a folder, such as a shared one or one on a stick, or the URL of a PostgreSQL database.
    A conversation that has grown on both sides does not change on either side; each side gets the
    other ending as a fork. If a note was changed on both sides, both texts are kept, as two notes.
    A note that you deleted on one side is deleted on the other, unless it was changed there. No
    conversation is deleted; it comes back from the other side. You can interrupt the command and
    repeat it.

    If something could not be synchronized, it is reported, and the exit code is 7.

    \b
        vibe sync /mnt/stick/vibe
        vibe sync postgresql://vibe@database.example/vibe
    """
    from pathlib import Path

    from vibe_llms.conversations.stores.directory import DirectoryStore
    from vibe_llms.exceptions import StoreError
    from vibe_llms.interfaces.cli.progress import TerminalProgress
    from vibe_llms.runs.syncing import sync_stores

    progress = TerminalProgress("conversations") if sys.stderr.isatty() else None
    path, there = _find_state(target), open_store_at(target)
    is_missing = isinstance(there, DirectoryStore) and not Path(there.layout.root).parent.exists()
    labels, digests = _read_state(path)
    report = sync_stores(
        open_store(), there, labels=labels, note_digests=digests, progress=progress
    )
    if is_missing and not (report.conversations or report.notes):
        detail = f"{target} does not exist, and there is nothing to copy to it."
        raise StoreError(path=target, detail=detail, remedy="Check the path of the folder.")
    _write_state(path, report)
    if as_json:
        import attrs

        state = ("labels", "note_digests")
        document = attrs.asdict(report, filter=lambda field, _: field.name not in state)
        write_json({"whole": report.is_whole, **document})
    else:
        _show(report)
    return ExitCode.SUCCESS if report.is_whole else ExitCode.STORE


def _show(report: SyncReport) -> None:
    write_table(
        [
            (
                each.side,
                each.change,
                each.identity,
                f"conflict in {each.parent}" if each.parent else each.name or "",
            )
            for each in report.changes
        ]
        + [
            (
                each.side,
                each.change,
                f"note {sanitize(each.key)}",
                f"conflict in {sanitize(each.conflicts_with)}" if each.conflicts_with else "",
            )
            for each in report.note_changes
        ],
        headers=("where", "change", "id", "name"),
        styles=("", "", "cyan"),
    )
    for finding in (*report.notices, *report.refused):
        note(str(finding))
    counts = Counter((each.side, each.change) for each in report.changes)
    parts = [f"{count} {change} {side}" for (side, change), count in sorted(counts.items())]
    notes = Counter((each.side, each.change) for each in report.note_changes)
    for (side, change), count in sorted(notes.items()):
        word = "kept as a second note" if change == "conflict" else change
        parts.append(f"{write_count(count, 'note')} {word} {side}")
    outcome = ", ".join(parts).capitalize() or "Nothing to do"
    whole = "" if report.is_whole else f" NOT synchronized: {len(report.refused)}, see above."
    note(f"{outcome}.{whole}")


def _find_state(target: str) -> Path:
    """Return the file with names, tags, pins and notes after the last synchronization."""
    from hashlib import sha256
    from pathlib import Path

    from vibe_llms.interfaces.cli.access import load_configuration

    configuration = load_configuration()
    there = target if "://" in target else str(Path(target).absolute())
    stores = f"{configuration.store}\0{configuration.data_directory}\0{there}"
    digest = sha256(stores.encode("utf-8", "surrogateescape")).hexdigest()
    return configuration.cache_directory / "sync" / f"{digest[:32]}.json"


def _read_state(path: Path) -> tuple[dict[str, SyncedLabels], dict[str, str]]:
    """Read labels of conversations and digests of notes; nothing if the cache is damaged."""
    import json

    from vibe_llms.foundation.files import read_regular
    from vibe_llms.runs.sync_reports import SyncedLabels

    try:
        state = json.loads(read_regular(str(path)))
        labels = {
            key: SyncedLabels(name, tuple(tags), keep, tuple(pinned))
            for key, (name, tags, keep, pinned) in state["conversations"].items()
        }
        return labels, {str(key): str(digest) for key, digest in state["notes"].items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}, {}


def _write_state(path: Path, report: SyncReport) -> None:
    """Write the state for the next time; ignore a full disk, because the file is only a cache."""
    import json
    from contextlib import suppress

    import attrs

    from vibe_llms.foundation.files import replace_file

    rows = {key: attrs.astuple(labels, recurse=False) for key, labels in report.labels.items()}
    state = {"conversations": rows, "notes": dict(report.note_digests)}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(state).encode())
