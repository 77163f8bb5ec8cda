"""Built-in formats, through the same hooks as those of plugins; imported when used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vibe_llms.plugins.markers import hook

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.messages.losses import Translation
    from vibe_llms.plugins.specification.conversations import (
        ExporterSpecification,
        ImporterSpecification,
    )


def _defer(reference: str) -> Callable[..., Any]:
    """Return a function that imports another one when called, and calls it."""
    module, _, name = reference.partition(":")

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"{__package__}.{module}"), name)(*arguments)

    return call


@hook
def survey_exporters() -> list[ExporterSpecification]:
    """Return the three export formats."""
    from vibe_llms.plugins.specification.conversations import ExporterSpecification

    markdown, json = _defer("markdown:export_markdown"), _defer("json_documents:export_json")
    html = _defer("pages:export_html")
    return [
        ExporterSpecification("markdown", "Markdown", (".md", ".markdown"), markdown),
        ExporterSpecification("json", "JSON with everything", (".json",), json),
        ExporterSpecification("html", "one HTML page with its pictures", (".html",), html),
    ]


@hook
def survey_importers() -> list[ImporterSpecification]:
    """Return the four import formats: our own JSON, and those of other services."""
    from vibe_llms.plugins.specification.conversations import ImporterSpecification

    own = "the output of `vibe export --format json`"
    is_own, read_own = _defer("json_documents:is_document"), _defer("json_documents:read_json")
    chatgpt, is_chatgpt = _defer("chatgpt:read_chatgpt"), partial(_has_key, "mapping")
    claude, is_claude = _defer("claude:read_claude"), partial(_has_key, "chat_messages")
    llm, llms_logs = _defer("llm_logs:read_llm"), "`llm logs --json -n 0`, or llm's logs.db"
    exports, logs = (".json", ".zip"), (".json", ".db", ".sqlite", ".sqlite3")
    return [
        ImporterSpecification("json", own, (".json",), is_own, read_own),
        ImporterSpecification("chatgpt", "an export of ChatGPT", exports, is_chatgpt, chatgpt),
        ImporterSpecification("claude", "an export of claude.ai", exports, is_claude, claude),
        ImporterSpecification("llm", llms_logs, logs, _recognize_llm, llm),
    ]


def import_conversations(path: Path) -> Iterator[Translation[Conversation]]:
    """Import a file in any built-in format, which is detected.

    The conversations do not belong to a store yet, and have the same ids at each import.

    Raises:
        RequestError: The file cannot be read, or its format is unknown.
        CodecError: The file is damaged; the error names the place.
    """
    from vibe_llms.conversations.exchange.formats import choose_importer, read_document

    return read_document(choose_importer(survey_importers(), path), path)


def _recognize_llm(path: Path) -> bool:
    return bool(_defer("llm_logs:is_database")(path)) or _has_key("conversation_model", path)


def _has_key(word: str, path: Path) -> bool:
    """Return whether the document begins with objects that have a given field."""
    from vibe_llms.conversations.exchange.exports import open_export
    from vibe_llms.exceptions import CodecError

    try:
        with open_export(path) as export:
            beginning = export.read_beginning()
    except CodecError:
        return True  # a damaged archive: reading it reports the details
    # A quotation mark within a text has a backslash before it, so this is a field name.
    return re.search(rb'"%s"\s*:' % word.encode(), beginning) is not None
