"""The forms that ship, by the hooks through which a plugin's come in; imports them when used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.files import open_regular, read_regular
from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification.conversations import (
    ExporterSpecification,
    ImporterSpecification,
)

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.exchange.interfaces import Exportable
    from vibe_llms.conversations.stores.interfaces import ContentStore
    from vibe_llms.messages.losses import Translation

_BEGINNING_BYTES = 4096


@hook
def survey_exporters() -> list[ExporterSpecification]:
    """Names the three forms in which conversations are written."""
    return [
        ExporterSpecification("markdown", "Markdown", (".md", ".markdown"), _write_markdown),
        ExporterSpecification("json", "JSON, with all that there is", (".json",), _write_json),
        ExporterSpecification("html", "one HTML page with its pictures", (".html",), _write_html),
    ]


@hook
def survey_importers() -> list[ImporterSpecification]:
    """Names the four forms that are read: our own JSON, and what others deliver."""
    summary = "what `vibe export --format json` has written"
    exports, logs = (".json", ".zip"), (".json", ".db", ".sqlite", ".sqlite3")
    return [
        ImporterSpecification("json", summary, (".json",), _recognize_json, _read_json),
        ImporterSpecification(
            "chatgpt", "the export of ChatGPT", exports, _recognize_chatgpt, _read_chatgpt
        ),
        ImporterSpecification(
            "claude", "the export of claude.ai", exports, _recognize_claude, _read_claude
        ),
        ImporterSpecification(
            "llm", "`llm logs --json -n 0`, or llm's logs.db", logs, _recognize_llm, _read_llm
        ),
    ]


def import_conversations(path: Path) -> Iterator[Translation[Conversation]]:
    """Reads a file in one of the forms that ship, whichever it has.

    The conversations belong to no store yet, and have the same ids each time that they are read.

    Raises:
        RequestError: The file cannot be read, or has none of the forms.
        CodecError: It is broken; names the place.
    """
    from vibe_llms.conversations.exchange.choosing import choose_importer, read_document

    return read_document(choose_importer(survey_importers(), path), path)


def _write_markdown(conversation: Exportable, content_store: ContentStore) -> str:
    from vibe_llms.conversations.exchange.markdown import export_markdown

    return export_markdown(conversation, content_store)


def _write_json(conversation: Exportable, content_store: ContentStore) -> str:
    from vibe_llms.conversations.exchange.json_documents import export_json

    return export_json(conversation, content_store)


def _write_html(conversation: Exportable, content_store: ContentStore) -> str:
    from vibe_llms.conversations.exchange.pages import export_html

    return export_html(conversation, content_store)


def _recognize_json(path: Path) -> bool:
    from vibe_llms.conversations.exchange.json_documents import FORMAT

    with os.fdopen(open_regular(str(path)), "rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    return b'"format"' in beginning and f'"{FORMAT}"'.encode() in beginning


def _read_json(path: Path) -> Iterator[Translation[Conversation]]:
    from vibe_llms.conversations.exchange.json_documents import import_json
    from vibe_llms.messages.losses import Translation

    yield Translation(import_json(read_regular(str(path))))


def _recognize_chatgpt(path: Path) -> bool:
    return _has_key(path, "mapping")


def _read_chatgpt(path: Path) -> Iterator[Translation[Conversation]]:
    from vibe_llms.conversations.exchange.chatgpt import read_chatgpt

    return read_chatgpt(path)


def _recognize_claude(path: Path) -> bool:
    return _has_key(path, "chat_messages")


def _read_claude(path: Path) -> Iterator[Translation[Conversation]]:
    from vibe_llms.conversations.exchange.claude import read_claude

    return read_claude(path)


def _recognize_llm(path: Path) -> bool:
    from vibe_llms.conversations.exchange.llm_logs import is_database

    return is_database(path) or _has_key(path, "conversation_model")


def _read_llm(path: Path) -> Iterator[Translation[Conversation]]:
    from vibe_llms.conversations.exchange.llm_logs import read_llm

    return read_llm(path)


def _has_key(path: Path, word: str) -> bool:
    """Tells whether the document begins with objects that have such a field."""
    from vibe_llms.conversations.exchange.exports import open_export
    from vibe_llms.exceptions import CodecError

    try:
        with open_export(path) as export:
            beginning = export.read_beginning()
    except CodecError:
        return True  # an archive that is damaged: whoever reads it says how
    # A quotation mark within a text has a backslash before it, so that this is a name of a field.
    return re.search(rb'"%s"\s*:' % word.encode(), beginning) is not None
