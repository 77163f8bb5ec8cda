"""Which form a document shall have, or has, among those that ship and those of plugins."""

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
    """Returns the form of a name: the first one, so that none takes another's place.

    Raises:
        UnknownNameError: There is none of this name.
    """
    for form in forms:
        if form.name == name:
            return form
    known = order_by_nearness(name, (form.name for form in forms))
    raise UnknownNameError(kind="form", name=name, known=known)


def choose_exporter(forms: Sequence[ExporterSpecification], path: Path) -> ExporterSpecification:
    """Returns the form that the name of a file asks for.

    Raises:
        RequestError: None has this ending.
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
    """Returns the form that a file has: the first one that recognizes it.

    Raises:
        RequestError: The file cannot be read, or none recognizes it.
    """
    try:
        if path.is_dir() or not path.exists():  # what cannot be read is in no form
            read_beginning(path, 1)
        for form in _select_by_suffix(forms, path):
            try:
                if form.recognize(path):
                    return form
            except OSError:
                # The file's fault and not the form's: it is told below as what cannot be read.
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
    """Yields the conversations of a file, each with what could not be carried over.

    Raises:
        RequestError: The file cannot be read.
        CodecError: It has not this form.
        PluginError: The form's plugin failed at it.
    """
    from vibe_llms.conversations.conversation import Conversation

    try:
        for found in form.read(path):
            # Importers may be anybody's: what goes on from here relies on what they yield.
            if not (isinstance(found, Translation) and isinstance(found.value, Conversation)):
                raise PluginError(
                    plugin=form.name,
                    detail=f"The importer {form.name!r} returned {type(found).__name__} instead of "
                    "a Translation of a Conversation.",
                )
            yield found
    except CodecError as error:
        # The form knows the place within the document, but not in which file.
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
    """Returns a conversation in a form.

    Raises:
        StoreError: Content that is referred to is not in the store.
        PluginError: The form's plugin failed at it.
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
