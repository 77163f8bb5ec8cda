"""The forms that ship, by the hooks through which a plugin's come in; imports them when used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.files import open_regular, read_regular
from vibe_llms.plugins.markers import hook
from vibe_llms.plugins.specification import ExporterSpecification, ImporterSpecification

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
    """Names the one form that is read: our own JSON."""
    summary = "what `vibe export --format json` has written"
    return [ImporterSpecification("json", summary, (".json",), _recognize_json, _read_json)]


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
