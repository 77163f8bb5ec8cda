"""Conversations in other forms: which there are, and which one a file's name asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.exceptions import RequestError, StoreError

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore

SUFFIXES = {".md": "markdown", ".markdown": "markdown", ".json": "json", ".html": "html"}
FORMS = ("markdown", "json", "html")


def choose_form(path: Path) -> str:
    """Returns the form that a file's name asks for.

    Raises:
        RequestError: None has this ending.
    """
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise RequestError(
            path=str(path),
            detail=f"It is not clear which form {path.name!r} shall have.",
            remedy=f"Let the name end in one of {', '.join(SUFFIXES)}.",
        )
    return form


def compose_document(store: ConversationStore, identity: str, form: str) -> str:
    """Returns a stored conversation as a document of a form."""
    from vibe_llms.conversations import exchange
    from vibe_llms.conversations.conversation import Conversation

    conversation = Conversation.restore(store, identity)
    if form == "json":
        return exchange.export_json(conversation, store.contents)
    if form == "html":
        return exchange.export_html(conversation, store.contents)
    return exchange.export_markdown(conversation, store.contents)


def write_document(document: str, path: Path) -> None:
    """Writes a document to a file, in UTF-8. Raises StoreError."""
    try:
        path.write_text(document, encoding="utf-8")
    except OSError as error:
        raise StoreError(
            path=str(path),
            detail=f"{path} cannot be written: {error.strerror or error}.",
            remedy="Name another file.",
        ) from error
