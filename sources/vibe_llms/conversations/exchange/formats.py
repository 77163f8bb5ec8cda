"""Selection of a document format, among built-in formats and formats of plugins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vibe_llms.exceptions import (
    CodecError,
    ConverseError,
    PluginError,
    RequestError,
    UnknownNameError,
)
from vibe_llms.foundation.files import advise, read_beginning
from vibe_llms.foundation.suggestions import order_by_nearness
from vibe_llms.messages.losses import Translation
from vibe_llms.plugins.specification.conversations import (
    ExporterSpecification,
    ImporterSpecification,
)

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.exchange.interfaces import Exportable
    from vibe_llms.conversations.stores.interfaces import ContentStore

_S = TypeVar("_S", ExporterSpecification, ImporterSpecification)


def find_format(formats: Sequence[_S], name: str) -> _S:
    """Return the format with a name; of several, the first, so that a plugin replaces no other.

    Raises:
        UnknownNameError: The format is unknown.
    """
    for specification in formats:
        if specification.name == name:
            return specification
    known = order_by_nearness(name, (specification.name for specification in formats))
    raise UnknownNameError(kind="format", name=name, known=known)


def choose_exporter(formats: Sequence[ExporterSpecification], path: Path) -> ExporterSpecification:
    """Return the format for the suffix of a file name.

    Raises:
        RequestError: No format has this suffix.
    """
    if matching := _select_by_suffix(formats, path):
        return matching[0]
    suffixes = dict.fromkeys(suffix for each in formats for suffix in each.suffixes)
    raise RequestError(
        path=str(path),
        detail=f"Unknown format {path.name!r}.",
        remedy=f"Use {', '.join(suffixes)}.",
    )


def choose_importer(formats: Sequence[ImporterSpecification], path: Path) -> ImporterSpecification:
    """Detect the format of a file: the first format that recognizes the file.

    Raises:
        RequestError: The file cannot be read, or no format recognizes it.
    """
    try:
        is_folder = path.is_dir()
        if not path.exists():
            read_beginning(path, 1)  # raises the error about the missing file
        for specification in (
            [each for each in formats if each.reads_folders]
            if is_folder
            else _select_by_suffix(formats, path)
        ):
            try:
                if specification.recognize(path):
                    return specification
            except OSError:
                raise  # an error of the file and not of the format, reported below
            except Exception as error:
                raise _describe_failure(specification, "recognize", path, error) from error
    except OSError as error:
        raise _describe_unreadable(path, error) from error
    known = (
        "; ".join(f"{specification.name} ({specification.summary})" for specification in formats)
        or "none"
    )
    raise RequestError(
        path=str(path),
        detail=f"{path} is not in a known format.",
        remedy=f"Known: {known}.",
    )


def read_document(
    specification: ImporterSpecification, path: Path
) -> Iterator[Translation[Conversation]]:
    """Yield the conversations of a file, each with its losses.

    Raises:
        RequestError: The file cannot be read.
        CodecError: The file does not have this format.
        PluginError: The format's plugin failed.
    """
    from vibe_llms.conversations.conversation import Conversation

    try:
        for imported in specification.read(path):
            # An importer may be third-party, and callers rely on the type of its results.
            if not (isinstance(imported, Translation) and isinstance(imported.value, Conversation)):
                raise PluginError(
                    plugin=specification.name,
                    detail=f"The importer {specification.name!r} returned "
                    f"{type(imported).__name__} instead of a Translation of a Conversation.",
                )
            yield imported
    except CodecError as error:
        # The format knows the place within the document, but not the file.
        raise CodecError(
            path=error.path,
            detail=f"{path}: {error.detail}",
            known=error.known,
            remedy=error.remedy,
        ) from error
    except ConverseError:
        raise
    except OSError as error:
        raise _describe_unreadable(path, error) from error
    except Exception as error:
        raise _describe_failure(specification, "read", path, error) from error


def write_document(
    specification: ExporterSpecification, conversation: Exportable, content_store: ContentStore
) -> str:
    """Return a conversation in a format.

    Raises:
        StoreError: Referenced content is not in the store.
        PluginError: The format's plugin failed.
    """
    try:
        document = specification.write(conversation, content_store)
    except ConverseError:
        raise
    except Exception as error:
        raise _describe_failure(specification, "write", conversation.id, error) from error
    if not isinstance(document, str):
        raise PluginError(
            plugin=specification.name,
            detail=f"The exporter {specification.name!r} returned {type(document).__name__}, "
            "not a text.",
        )
    return document


def _select_by_suffix(formats: Sequence[_S], path: Path) -> list[_S]:
    name = path.name.lower()
    return [
        specification
        for specification in formats
        if any(name.endswith(suffix) for suffix in specification.suffixes)
    ]


def _describe_unreadable(path: Path, error: OSError) -> RequestError:
    return RequestError(
        path=str(path),
        detail=f"Cannot read {path}: {error.strerror or error}.",
        remedy=advise(error, is_named=True),
    )


def _describe_failure(
    specification: ExporterSpecification | ImporterSpecification,
    action: str,
    subject: object,
    error: Exception,
) -> PluginError:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    kind = "exporter" if isinstance(specification, ExporterSpecification) else "importer"
    return PluginError(
        plugin=specification.name,
        detail=f"The {kind} {specification.name!r} failed to {action} {subject}: {reason}.",
        remedy="Report this to the plugin's author, with the file if possible.",
    )
