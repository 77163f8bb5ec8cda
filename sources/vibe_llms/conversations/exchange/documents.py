"""Built-in formats. Built-in formats use the hooks of plugins, and are imported on demand."""

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


def _import_on_call(reference: str) -> Callable[..., Any]:
    """Return a function that, when called, imports another function and calls it."""
    module, _, name = reference.partition(":")

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"{__package__}.{module}"), name)(*arguments)

    return call


@hook
def survey_exporters() -> list[ExporterSpecification]:
    """Return the three export formats."""
    from vibe_llms.plugins.specification.conversations import ExporterSpecification

    markdown, json = (
        _import_on_call("markdown:export_markdown"),
        _import_on_call("json_documents:export_json"),
    )
    html = _import_on_call("pages:export_html")
    return [
        ExporterSpecification("markdown", "Markdown", (".md", ".markdown"), markdown),
        ExporterSpecification("json", "JSON with everything", (".json",), json),
        ExporterSpecification("html", "one HTML page with its pictures", (".html",), html),
    ]


@hook
def survey_importers() -> list[ImporterSpecification]:
    """Return the import formats: this library's JSON, and formats of other programs."""
    from vibe_llms.plugins.specification.conversations import ImporterSpecification

    own_summary = "the output of `vibe export --format json`"
    is_own, read_own = (
        _import_on_call("json_documents:is_document"),
        _import_on_call("json_documents:read_json"),
    )
    chatgpt, is_chatgpt = _import_on_call("chatgpt:read_chatgpt"), partial(_has_key, "mapping")
    claude, is_claude = _import_on_call("claude:read_claude"), partial(_has_key, "chat_messages")
    llm, llm_summary = (
        _import_on_call("llm_logs:read_llm"),
        "`llm logs --json -n 0`, or llm's logs.db",
    )
    exports, logs = (".json", ".zip"), (".json", ".db", ".sqlite", ".sqlite3")
    return [
        ImporterSpecification("json", own_summary, (".json",), is_own, read_own),
        _specify_agent("claude-code", "sessions of Claude Code: ~/.claude/projects", (".jsonl",)),
        _specify_agent("codex", "sessions of Codex: ~/.codex/sessions", (".jsonl",)),
        _specify_agent("opencode", "sessions of opencode: its data folder", (".json", ".db")),
        ImporterSpecification("chatgpt", "an export of ChatGPT", exports, is_chatgpt, chatgpt),
        ImporterSpecification("claude", "an export of claude.ai", exports, is_claude, claude),
        ImporterSpecification("llm", llm_summary, logs, _recognize_llm, llm),
    ]


def _specify_agent(name: str, summary: str, suffixes: tuple[str, ...]) -> ImporterSpecification:
    """Return the format of a coding agent, which also reads folders."""
    from vibe_llms.plugins.specification.conversations import ImporterSpecification

    module = name.replace("-", "_")
    recognize = _import_on_call(f"{module}:recognize_{module}")
    read = _import_on_call(f"{module}:read_{module}")
    return ImporterSpecification(name, summary, suffixes, recognize, read, reads_folders=True)


def import_conversations(path: Path) -> Iterator[Translation[Conversation]]:
    """Import a file in any built-in format, which is detected.

    The conversations do not belong to a store yet. Each import gives them the same ids.

    Raises:
        RequestError: The file cannot be read, or its format is unknown.
        CodecError: The file is damaged; the error names the place.
    """
    from vibe_llms.conversations.exchange.formats import choose_importer, read_document

    return read_document(choose_importer(survey_importers(), path), path)


def _recognize_llm(path: Path) -> bool:
    return bool(_import_on_call("llm_logs:is_database")(path)) or _has_key(
        "conversation_model", path
    )


def _has_key(key: str, path: Path) -> bool:
    """Return whether the beginning of a document has an object with a key."""
    from vibe_llms.conversations.exchange.exports import open_export
    from vibe_llms.exceptions import CodecError

    try:
        with open_export(path) as export:
            beginning = export.read_beginning()
    except CodecError:
        return True  # a damaged archive: reading it reports the details
    # Within a text, a quotation mark would have a backslash before it, so this is a key.
    return re.search(rb'"%s"\s*:' % key.encode(), beginning) is not None
