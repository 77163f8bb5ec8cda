"""``vibe recall add``, ``list`` and ``remove``: the folders in the settings of ``recall``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from vibe_llms.foundation.files import expand_home
from vibe_llms.interfaces.cli.access import load_application, load_configuration
from vibe_llms.interfaces.cli.options import command, download_option, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table
from vibe_llms.tables.reading import read_table

SETTING = "ensembles.recall.folders"

_FOLDERS = click.argument("folders", metavar="FOLDER...", nargs=-1, required=True)


@command("add")
@_FOLDERS
@download_option
async def add(folders: tuple[str, ...], yes: bool) -> None:
    """Add folders of text files to the search, and index their files.

    Plain text, Markdown, reStructuredText, HTML and source code are indexed. Hidden files, links,
    files that are not UTF-8, and files of more than 5 MB are skipped. Later searches read only
    files that have changed.
    """
    from vibe_llms.retrieval.sources import name_collection

    paths = [expand_home(folder).absolute() for folder in folders]
    for path in paths:
        if not path.is_dir():
            raise click.UsageError(f"{path} is not a folder. Name an existing one.")
        if not _is_utf_8(path):
            raise click.UsageError(f"The name of {name_collection(path)} is not UTF-8. Rename it.")
    _write([*read_folders(), *paths])
    from vibe_llms.interfaces.cli.progress import TerminalProgress
    from vibe_llms.retrieval import MeaningIndex

    application = load_application(yes=yes)
    index = MeaningIndex(
        folders=paths,
        conversations=False,
        application=application,
        progress=TerminalProgress("files"),
    )
    async with application, index:
        added = await index.update()
        for notice in index.notices:
            note(notice)
        total = await index.count()
    sys.stdout.write(f"New passages: {added}. Passages in all: {total}.\n")


@command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the folders that are searched, with the number of their files."""
    from vibe_llms.retrieval.sources import FolderSource

    rows = []
    for folder in read_folders():
        rows.append((str(folder), len(FolderSource(folder).survey()) if folder.is_dir() else None))
    if as_json:
        write_json([{"folder": folder, "files": count} for folder, count in rows])
    elif not rows:
        note("There are no folders yet; `vibe recall add FOLDER` adds one.")
    else:
        shown = ((folder, "missing" if count is None else str(count)) for folder, count in rows)
        write_table(shown, headers=("folder", "files"), styles=("cyan", ""), whole=True)


@command("remove")
@_FOLDERS
@download_option
async def remove(folders: tuple[str, ...], yes: bool) -> None:
    """Remove folders from the search. Their files are not deleted."""
    paths = [expand_home(folder).absolute() for folder in folders]
    known = read_folders()
    for path in paths:
        if path not in known:
            names = ", ".join(map(str, known)) or "none"
            raise click.UsageError(f"{path} is not searched. Known folders: {names}.")
    _write([path for path in known if path not in paths])
    from vibe_llms.retrieval import MeaningIndex

    application = load_application(yes=yes)
    async with application, MeaningIndex(application=application) as index:
        for path in paths:
            await index.forget(path)


def read_folders() -> list[Path]:
    """Return the configured folders."""
    from vibe_llms.retrieval.recalling import RecallSettings

    settings = load_configuration().ensembles["recall"].settings
    place = SETTING.rpartition(".")[0]
    fixed = {"name": "recall", "working_directory": Path.cwd()}
    return list(read_table(RecallSettings, settings, place, **fixed).paths)


def _is_utf_8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _write(folders: Sequence[Path]) -> None:
    from vibe_llms.configuration.editing import FileDraft

    draft = FileDraft()
    draft.set(SETTING, _encode(dict.fromkeys(map(str, folders))))
    draft.load()
    draft.save()


def _encode(names: dict[str, None]) -> str:
    """Return a TOML array: strings in JSON are also valid in TOML, except for one character."""
    import json

    return json.dumps(list(names), ensure_ascii=False).replace("\x7f", "\\u007f")
