"""Import and export formats of conversations, including plugins', and documents in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.files import advise, write_file

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.plugins.manager import PluginManager
    from vibe_llms.plugins.specification.conversations import (
        ExporterSpecification,
        ImporterSpecification,
    )


def choose_form(
    plugins: PluginManager, name: str = "", path: Path | None = None
) -> ExporterSpecification:
    """Return the export format by its name, else by the file's extension, else Markdown.

    A path without an extension, for example that of a pipe, does not choose a format.

    Raises:
        UnknownNameError: The form is unknown.
        RequestError: No form has this extension.
    """
    from vibe_llms.conversations.exchange.formats import choose_exporter, find_format
    from vibe_llms.plugins.specification.conversations import ExporterSpecification

    forms = plugins.survey_specifications(ExporterSpecification)
    if name or path is None or not path.suffix:
        return find_format(forms, name or "markdown")
    return choose_exporter(forms, path)


def choose_reader(plugins: PluginManager, name: str, path: Path) -> ImporterSpecification:
    """Return the import format by its name, else by the file's content.

    Raises:
        UnknownNameError: The form is unknown.
        RequestError: The file cannot be read, or no form recognizes it.
    """
    from vibe_llms.conversations.exchange.formats import choose_importer, find_format
    from vibe_llms.plugins.specification.conversations import ImporterSpecification

    forms = plugins.survey_specifications(ImporterSpecification)
    return find_format(forms, name) if name else choose_importer(forms, path)


def compose_document(
    store: ConversationStore, identity: str, exporter: ExporterSpecification
) -> str:
    """Export a stored conversation as a document in a format."""
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.exchange.formats import write_document

    return write_document(exporter, Conversation.restore(store, identity), store.contents)


def save_document(document: str, path: Path) -> None:
    """Write a document in UTF-8 to a file, atomically, or to a pipe or device.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        write_file(path, document.encode("utf-8"))
    except BrokenPipeError:  # handled like a closed standard output
        raise
    except OSError as error:
        raise StoreError(
            path=str(path),
            detail=f"Cannot write {path}: {error.strerror or error}.",
            remedy=advise(error, is_named=True),
        ) from error
