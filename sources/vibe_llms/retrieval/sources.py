"""Sources of documents: conversations of a store, and text files of a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from vibe_llms.conversations.index.interfaces import Index
from vibe_llms.conversations.index.messages import IndexedConversation, IndexedMessage
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import read_regular
from vibe_llms.invocables.pages.markdown import write_markdown
from vibe_llms.retrieval.passages import Passage, SourceDocument, split_text

CONVERSATIONS: Final = "conversations"
"""Collection of the conversations."""

ROLES: Final = ("user", "assistant", "supervisor", "document")
"""Roles of messages that are searched by meaning. Calls and results of tools are often long lists
and programs; a search for words finds them."""

FILE_BYTES: Final = 5_000_000
"""Maximum size of a file; larger ones are data rather than texts."""

_HTML: Final = frozenset({".html", ".htm", ".xhtml"})


class PassageSource(Protocol):
    """Documents that are searched by meaning. Its calls block."""

    @property
    def collection(self) -> str:
        """Name of the collection that has all documents of the source."""

    def survey(self) -> Mapping[str, str]:
        """Return a stamp for each document, by its name; it changes with the text."""

    def read(self, names: Sequence[str]) -> Iterator[SourceDocument]:
        """Yield some documents; deleted ones are left out."""


@frozen
class ConversationSource:
    """Conversations of a store.

    Attributes:
        index: The store's index.
    """

    index: Index

    @property
    def collection(self) -> str:
        """Name of all conversations together."""
        return CONVERSATIONS

    def survey(self) -> Mapping[str, str]:
        """Return the stamp of each conversation, by its id."""
        return self.index.survey_stamps()

    def read(self, names: Sequence[str]) -> Iterator[SourceDocument]:
        """Yield some conversations; deleted ones are left out."""
        return map(_split_conversation, self.index.read_messages(names))


def _split_conversation(conversation: IndexedConversation) -> SourceDocument:
    passages = tuple(
        passage
        for message in conversation.messages
        if message.role in ROLES
        for passage in _split_message(message)
    )
    return SourceDocument(name=conversation.id, is_part=conversation.is_part, passages=passages)


def _split_message(message: IndexedMessage) -> Iterator[Passage]:
    moment = datetime.fromtimestamp(message.timestamp / 1e9, UTC)
    for piece in split_text(message.text):
        yield Passage(
            item=message.canister_id,
            position=message.index,
            role=message.role,
            timestamp=moment,
            heading=piece.heading,
            text=piece.text,
        )


@frozen
class FolderSource:
    """Text files below a folder: plain text, Markdown, reStructuredText, HTML and source code.

    Left out are hidden files and folders, links, files that are not UTF-8 or have such a name, and
    files of more than :data:`FILE_BYTES`.

    Attributes:
        folder: Absolute path of the folder.
    """

    folder: Path

    @property
    def collection(self) -> str:
        """The folder's path."""
        return name_collection(self.folder)

    def survey(self) -> Mapping[str, str]:
        """Return the stamp of each file, by its path in the folder.

        Raises:
            ConverseError: The folder cannot be read.
        """
        return dict(_survey_files(self.folder))

    def read(self, names: Sequence[str]) -> Iterator[SourceDocument]:
        """Yield some files; those that cannot be read as text are empty."""
        for name in names:
            text = _read_text(self.folder / name)
            pieces = split_text(text) if text else iter(())
            passages = tuple(
                Passage(position=piece.line, heading=piece.heading, text=piece.text)
                for piece in pieces
            )
            yield SourceDocument(name=name, passages=passages)


def name_collection(folder: Path) -> str:
    """Return the path of a folder as a text that the database can store."""
    return str(folder).encode("utf-8", "backslashreplace").decode()


def _survey_files(folder: Path) -> Iterator[tuple[str, str]]:
    def fail(error: OSError) -> None:
        if Path(error.filename) == folder:  # a folder below it may well be unreadable
            detail = f"Cannot read the folder {folder}: {error.strerror}."
            remedy = f"Create it, or run: vibe recall remove {folder}"
            raise ConverseError(detail=detail, remedy=remedy, stage=Stage.STORE) from error

    for directory, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for path in (Path(directory, file) for file in sorted(files) if file[0] != "."):
            # The file was deleted in the middle of this loop, or its name is not UTF-8.
            with suppress(OSError, UnicodeEncodeError):
                name = str(path.relative_to(folder))
                name.encode()
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_size <= FILE_BYTES:
                    stamp = f"{status.st_size}:{status.st_mtime_ns}"
                    yield name, stamp


def _read_text(path: Path) -> str:
    """Return the text of a file; empty if it is not text."""
    try:
        text = read_regular(str(path)).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""
    if "\0" in text:
        return ""
    return write_markdown(text, "") if path.suffix.lower() in _HTML else text
