"""``vibe sync``."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import open_store, open_store_at
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_llms.runs.sync_reports import SyncedLabels, SyncReport


@command("sync")
@click.argument("target", metavar="STORE")
@json_option
def sync(target: str, as_json: bool) -> int:
    """Copy conversations between this machine and STORE, in both directions.

    STORE is a folder, such as a shared one or one on a stick, or the URL of a PostgreSQL database.
    A conversation that has grown on both sides does not change on either side; each side gets the
    other ending as a fork. Nothing is deleted or overwritten; a deleted conversation comes back
    from the other side. You can interrupt the command and repeat it.

    If a conversation could not be synchronized, it is reported, and the exit code is 7.

    \b
        vibe sync /mnt/stick/vibe
        vibe sync postgresql://vibe@database.example/vibe
    """
    from vibe_llms.interfaces.cli.progress import TerminalProgress
    from vibe_llms.runs.syncing import sync_stores

    progress = TerminalProgress("conversations") if sys.stderr.isatty() else None
    notes = _find_notes(target)
    report = sync_stores(
        open_store(), open_store_at(target), labels=_read_labels(notes), progress=progress
    )
    _write_labels(notes, report)
    if as_json:
        import attrs

        document = attrs.asdict(report, filter=lambda field, _: field.name != "labels")
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
        ],
        headers=("where", "change", "id", "name"),
        styles=("", "", "cyan"),
    )
    for finding in (*report.notices, *report.refused):
        note(str(finding))
    counts = Counter((each.side, each.change) for each in report.changes)
    parts = [f"{count} {change} {side}" for (side, change), count in sorted(counts.items())]
    outcome = ", ".join(parts).capitalize() or "Nothing to do"
    whole = "" if report.is_whole else f" NOT synchronized: {len(report.refused)}, see above."
    note(f"{outcome}.{whole}")


def _find_notes(target: str) -> Path:
    """Return the file with the names, tags and pins after the last synchronization."""
    from hashlib import sha256
    from pathlib import Path

    from vibe_llms.interfaces.cli.access import load_configuration

    configuration = load_configuration()
    there = target if "://" in target else str(Path(target).absolute())
    stores = f"{configuration.store}\0{configuration.data_directory}\0{there}"
    digest = sha256(stores.encode("utf-8", "surrogateescape")).hexdigest()
    return configuration.cache_directory / "sync" / f"{digest[:32]}.json"


def _read_labels(path: Path) -> dict[str, SyncedLabels]:
    """Read names, tags and pins; nothing if the file, a cache, is missing or damaged."""
    import json

    from vibe_llms.foundation.files import read_regular
    from vibe_llms.runs.sync_reports import SyncedLabels

    try:
        rows = json.loads(read_regular(str(path)))
        return {
            key: SyncedLabels(name, tuple(tags), keep, tuple(pinned))
            for key, (name, tags, keep, pinned) in rows.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write_labels(path: Path, report: SyncReport) -> None:
    """Write names, tags and pins; ignore a full disk, because the file is only a cache."""
    import json
    from contextlib import suppress

    import attrs

    from vibe_llms.foundation.files import replace_file

    rows = {key: attrs.astuple(labels, recurse=False) for key, labels in report.labels.items()}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(rows).encode())
