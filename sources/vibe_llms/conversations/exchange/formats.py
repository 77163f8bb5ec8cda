"""Selection of a document format, among the built-in ones and those of plugins."""

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


def access_form(forms: Sequence[_S], name: str) -> _S:
    """Return the format with a name: the first one, so that none replaces another.

    Raises:
        UnknownNameError: The format is unknown.
    """
    for form in forms:
        if form.name == name:
            return form
    known = order_by_nearness(name, (form.name for form in forms))
    raise UnknownNameError(kind="format", name=name, known=known)


def choose_exporter(forms: Sequence[ExporterSpecification], path: Path) -> ExporterSpecification:
    """Return the format for the suffix of a file name.

    Raises:
        RequestError: No format has this suffix.
    """
    if fitting := _select_by_suffix(forms, path):
        return fitting[0]
    endings = dict.fromkeys(suffix for form in forms for suffix in form.suffixes)
    raise RequestError(
        path=str(path),
        detail=f"Unknown format {path.name!r}.",
        remedy=f"Use {', '.join(endings)}.",
    )


def choose_importer(forms: Sequence[ImporterSpecification], path: Path) -> ImporterSpecification:
    """Detect the format of a file: the first one that recognizes it.

    Raises:
        RequestError: The file cannot be read, or no format recognizes it.
    """
    try:
        if path.is_dir() or not path.exists():  # an unreadable file has no format
            read_beginning(path, 1)
        for form in _select_by_suffix(forms, path):
            try:
                if form.recognize(path):
                    return form
            except OSError:
                # The file is at fault, not the format: it is reported below as unreadable.
                raise
            except Exception as error:
                raise _blame(form, "recognize", path, error) from error
    except OSError as error:
        raise _describe_unreadable(path, error) from error
    known = "; ".join(f"{form.name} ({form.summary})" for form in forms) or "none"
    raise RequestError(
        path=str(path),
        detail=f"{path} is not in a known format.",
        remedy=f"Known: {known}.",
    )


def read_document(form: ImporterSpecification, path: Path) -> Iterator[Translation[Conversation]]:
    """Yield the conversations of a file, each with its losses.

    Raises:
        RequestError: The file cannot be read.
        CodecError: The file does not have this format.
        PluginError: The format's plugin failed.
    """
    from vibe_llms.conversations.conversation import Conversation

    try:
        for found in form.read(path):
            # An importer may be third-party, and the code below relies on the types that it yields.
            if not (isinstance(found, Translation) and isinstance(found.value, Conversation)):
                raise PluginError(
                    plugin=form.name,
                    detail=f"The importer {form.name!r} returned {type(found).__name__} instead of "
                    "a Translation of a Conversation.",
                )
            yield found
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
        raise _blame(form, "read", path, error) from error


def write_document(
    form: ExporterSpecification, conversation: Exportable, content_store: ContentStore
) -> str:
    """Return a conversation in a format.

    Raises:
        StoreError: Referenced content is not in the store.
        PluginError: The format's plugin failed.
    """
    try:
        document = form.write(conversation, content_store)
    except ConverseError:
        raise
    except Exception as error:
        raise _blame(form, "write", conversation.id, error) from error
    if not isinstance(document, str):
        raise PluginError(
            plugin=form.name,
            detail=f"The exporter {form.name!r} returned {type(document).__name__}, not a text.",
        )
    return document


def _select_by_suffix(forms: Sequence[_S], path: Path) -> list[_S]:
    name = path.name.lower()
    return [form for form in forms if any(name.endswith(suffix) for suffix in form.suffixes)]


def _describe_unreadable(path: Path, error: OSError) -> RequestError:
    return RequestError(
        path=str(path),
        detail=f"Cannot read {path}: {error.strerror or error}.",
        remedy=advise(error, is_named=True),
    )


def _blame(
    form: ExporterSpecification | ImporterSpecification, deed: str, what: object, error: Exception
) -> PluginError:
    words = f"{type(error).__name__}: {' '.join(str(error).split())}"
    kind = "exporter" if isinstance(form, ExporterSpecification) else "importer"
    return PluginError(
        plugin=form.name,
        detail=f"The {kind} {form.name!r} failed to {deed} {what}: {words}.",
        remedy="Report this to the plugin's author, with the file if possible.",
    )
