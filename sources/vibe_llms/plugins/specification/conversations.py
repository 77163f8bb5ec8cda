"""Specifications of conversations: stores, exporters and importers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.secrets import Settings

if TYPE_CHECKING:  # types only: this module is below theirs
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.exchange.interfaces import Exportable
    from vibe_llms.conversations.stores.interfaces import ContentStore, ConversationStore
    from vibe_llms.messages.losses import Translation


@frozen(kw_only=True)
class StoreContext:
    """Context for making a store of conversations.

    Attributes:
        name: Its name.
        settings: The keys of its plugin's table in the configuration except ``module``,
            ``package`` and ``enabled``: plain TOML values. The store validates them.
        data_directory: Its directory for permanent data. It may not exist yet.
        cache_directory: Its directory for data that may be deleted at any time. It may not exist
            yet.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    data_directory: Path
    cache_directory: Path


@frozen
class StoreSpecification:
    """A store of conversations, such as a database.

    Attributes:
        name: Its name for the setting ``store``. The shipped one (``directory``) cannot be
            replaced.
        summary: Where it stores them, in one line.
        factory: Makes it from its context; called once per process, before the first conversation
            is read or written. Import heavy libraries in the factory or later.
    """

    name: str
    summary: str
    factory: Callable[[StoreContext], ConversationStore]


@frozen
class ExporterSpecification:
    """An export format of conversations.

    Attributes:
        name: Its name for ``vibe export --format``. A shipped one cannot be replaced.
        summary: Its description, in one line.
        suffixes: The file name extensions that select it, as ``.md``.
        write: Returns a conversation as a text in this format. The content store has the bytes of
            media. Called once for each conversation; import heavy libraries when it is called.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    write: Callable[[Exportable, ContentStore], str]


@frozen
class ImporterSpecification:
    """An import format of conversations from other programs.

    Attributes:
        name: Its name. A shipped one cannot be replaced.
        summary: Its description, in one line.
        suffixes: The possible file name extensions, as ``.json``.
        recognize: Returns whether a file with such an extension has this format; reads no more of
            it than necessary, and does not raise an error for an unknown file.
        read: Yields the conversations of a file, each with the losses of the import. They do not
            belong to a store yet; the bytes of their media are in their canisters. It raises a
            ``CodecError`` if the file has another format. A conversation should have the same id
            each time that it is read, so that it is not stored twice.
        reads_folders: Whether both functions also take a folder with such files.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    recognize: Callable[[Path], bool]
    read: Callable[[Path], Iterable[Translation[Conversation]]]
    reads_folders: bool = False
