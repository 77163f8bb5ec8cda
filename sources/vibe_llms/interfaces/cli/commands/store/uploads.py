"""``vibe store uploads``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import load_application, open_store, require_provider
from vibe_llms.interfaces.cli.options import PROVIDER, command, json_option
from vibe_llms.interfaces.cli.output import note, sanitize, write_json, write_table

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.messages.vendor_files import NotedFile

_SHOWN_DIGITS = 12


@command("uploads")
@click.option(
    "--remove",
    "provider",
    type=PROVIDER,
    metavar="PROVIDER",
    help="Delete the files that this provider's account has.",
)
@json_option
async def uploads(provider: str | None, as_json: bool) -> None:
    """List the contents that vendors have as files.

    Large pictures and documents are uploaded once (setting upload_bytes of a provider). A file that
    is removed is uploaded again when a conversation needs it.

    \b
        vibe store uploads
        vibe store uploads --remove anthropic
    """
    if provider is not None:
        await _remove(provider)
        return
    store = open_store()
    noted = sorted(store.vendor_files.survey(), key=lambda each: (each.account, each.content_id))
    if as_json:
        write_json([_describe(each) for each in noted])
    elif not noted:
        note("No contents of the store are uploaded.")
    else:
        rows = [_compose_row(store, each) for each in noted]
        headers = ("content", "type", "account", "file", "ends")
        write_table(rows, headers=headers, styles=("cyan", "", "", "", "dim"), whole=True)


async def _remove(provider: str) -> None:
    from vibe_llms.providers.remote_clients import RemoteClient

    async with load_application() as application:
        name = application.configuration.follow_aliases(provider)
        require_provider(application.configuration, name)
        client = application.plugins.load_provider(name).produce_client()
        try:
            files = client.access_uploads() if isinstance(client, RemoteClient) else None
            if files is None:
                raise click.UsageError(f"{name} has no files, or uploads nothing to them.")
            notes = application.store.vendor_files
            noted = [each for each in notes.survey() if each.account == files.account]
            for each in noted:
                await files.delete(each)
        finally:
            await client.close()
    note(f"Removed at {name}: {len(noted)} files.")


def _compose_row(store: ConversationStore, noted: NotedFile) -> tuple[str, ...]:
    metadata = store.contents.access_metadata(noted.content_id)
    described = _describe(noted)
    return (
        noted.content_id[:_SHOWN_DIGITS],
        sanitize(metadata.mime_type),
        sanitize(described["account"]),
        sanitize(described["file"]),
        described["ends"] or "never",
    )


def _describe(noted: NotedFile) -> dict[str, str]:
    return {
        "content_id": noted.content_id,
        "account": noted.account,
        "file": noted.file.id,
        "ends": _write_moment(noted.file.ends),
    }


def _write_moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
