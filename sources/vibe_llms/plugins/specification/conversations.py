"""What a plugin says of conversations: where they are kept, what they are written and read as."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.secrets import Settings

if TYPE_CHECKING:  # types only: this module lies below those that it speaks of
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.exchange.interfaces import Exportable
    from vibe_llms.conversations.stores.interfaces import ContentStore, ConversationStore
    from vibe_llms.messages.losses import Translation


@frozen(kw_only=True)
class StoreContext:
    """What a store of conversations is given when it is made.

    Attributes:
        name: What it is called.
        settings: The keys of its plugin's table in the configuration besides ``module``,
            ``package`` and ``enabled``: plain TOML values. The store checks them.
        data_directory: A directory of its own for what must last. It may not exist yet.
        cache_directory: A directory of its own for what may vanish at any time. It may not
            exist yet.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    data_directory: Path
    cache_directory: Path


@frozen
class StoreSpecification:
    """A place that keeps conversations, such as a database.

    Attributes:
        name: What the setting ``store`` calls it. The one that ships (``directory``) cannot be
            replaced.
        summary: Where it keeps them, in one line.
        factory: Makes it from its context; called once per process, before the first
            conversation is read or written. Heavy libraries are imported in here or later.
    """

    name: str
    summary: str
    factory: Callable[[StoreContext], ConversationStore]


@frozen
class ExporterSpecification:
    """A form in which conversations can be written.

    Attributes:
        name: What ``vibe export --format`` calls it. One that ships cannot be replaced.
        summary: What it is, in one line.
        suffixes: The endings of file names that ask for it, as ``.md``.
        write: Returns a conversation as a text in this form. The content store has the bytes of
            media. Called once for each conversation; imports what is heavy when it is called.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    write: Callable[[Exportable, ContentStore], str]


@frozen
class ImporterSpecification:
    """A form in which conversations of elsewhere can be read.

    Attributes:
        name: What the user calls the form. One that ships cannot be replaced.
        summary: What it is, in one line.
        suffixes: The endings of file names that it may have, as ``.json``.
        recognize: Tells of a file with such an ending whether it has this form; looks at no more
            of it than it must, and raises nothing on one that it does not understand.
        read: Yields the conversations of a file, each with what could not be carried over. They
            belong to no store yet; the bytes of their media are in their canisters. It raises a
            ``CodecError`` where the file is not what it was taken for. A conversation should have
            the same id each time that it is read, so that it is not kept twice.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    recognize: Callable[[Path], bool]
    read: Callable[[Path], Iterable[Translation[Conversation]]]
