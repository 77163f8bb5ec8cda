"""Which media a model takes: by their kind, and by their type where the vendor names its own.

What is not known is sent, and seen. What came in this very protocol goes as it came.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, TypeVar

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.exceptions import CapabilityError
from vibe_llms.messages.canisters import AnyCanister, ResultCanister
from vibe_llms.messages.contents import FileContent, MediaContent
from vibe_llms.models.attributes import Capability, ModelAttributes

_Medium = TypeVar("_Medium", bound=MediaContent)

_CAPABILITIES: Final = {
    "image": ("supports_images", "pictures"),
    "audio": ("supports_audio", "sound"),
    "video": ("supports_video", "moving pictures"),
    "file": ("supports_files", "documents"),
}
_TYPES: Final = {"image": "image_types", "file": "file_types"}
_TEXTS: Final = ("application/json", "application/xml", "application/yaml")
"""Types that are text although their names do not say so."""


def admit_medium(
    content: _Medium,
    attributes: ModelAttributes | None,
    path: str,
    canister: AnyCanister | None,
    ledger: Ledger,
) -> _Medium | None:
    """Returns a medium as it goes, without a file that only another vendor has.

    Returns:
        ``None``, with a loss, where nothing of it goes.

    Raises:
        CapabilityError: The model is known not to take it.
    """
    ensure_capability(content, attributes, path)
    if not admit_type(content, attributes, path, canister, ledger):
        return None
    return ledger.settle_file(content, path, canister)


def read_untaken(
    content: MediaContent, attributes: ModelAttributes | None, path: str, ledger: Ledger
) -> str | None:
    """Returns the words of a file whose type the model does not take; ``None`` of any other."""
    if not isinstance(content, FileContent) or attributes is None:
        return None
    words = None if takes_type(content, attributes) else read_words(content)
    if words is not None:
        assert isinstance(content, FileContent)
        tell_words(content, path, ledger)
    return words


def tell_words(content: FileContent, path: str, ledger: Ledger) -> None:
    """Takes down that of a file its words alone go."""
    ledger.coerce(path, "a file of plain text goes as text")
    ledger.omit(content, path, "name", "title", "context", reason="its words go alone")
    ledger.omit_native(content.native, path)


def ensure_capability(content: MediaContent, attributes: ModelAttributes | None, path: str) -> None:
    """Refuses a medium which the model is known not to take. Raises CapabilityError."""
    name, words = _CAPABILITIES[content.type]
    if attributes is None or attributes.access_capability(name) is not Capability.NO:
        return
    model = str(attributes.address)
    raise CapabilityError(
        model=model,
        capability=name,
        path=path,
        detail=f"The model {model} takes no {words}.",
        remedy="Leave it out, or ask a model that does.",
    )


def admit_type(
    content: MediaContent,
    attributes: ModelAttributes | None,
    path: str,
    canister: AnyCanister | None,
    ledger: Ledger,
) -> bool:
    """Tells whether a medium goes, as far as its type decides.

    What a tool has shown stays here, as a loss: the model may go on without it.

    Raises:
        CapabilityError: It is of a type which the model is known not to take.
    """
    is_own = ledger.admits(content.native, canister)
    if attributes is None or is_own or takes_type(content, attributes):
        return True
    if isinstance(content, FileContent) and read_words(content) is not None:
        return True  # words go as such, whatever type of text they are
    model, kind = str(attributes.address), content.mime_type
    taken = ", ".join(_list_types(content, attributes) or ())
    if isinstance(canister, ResultCanister):
        ledger.withhold(path, f"{model} takes no {kind}; it takes {taken}")
        return False
    raise CapabilityError(
        model=model,
        capability=_TYPES[content.type],
        path=path,
        detail=f"The model {model} takes no {kind} at {path}.",
        remedy=f"Convert it to {taken}, or ask a model that takes it.",
    )


def takes_type(content: MediaContent, attributes: ModelAttributes) -> bool:
    """Tells whether a medium is of no type that the model is known not to take."""
    types = _list_types(content, attributes)
    kind = content.mime_type.partition(";")[0].strip().lower()
    is_elsewhere = content.data is None and content.content_id is None
    is_vague = kind.endswith("*") or kind == "application/octet-stream"
    # What is elsewhere may be of another type than is said of it here.
    if types is None or (is_elsewhere and (is_vague or content.file_id is not None)):
        return True
    return any(fnmatchcase(kind, each) for each in types)


def _list_types(content: MediaContent, attributes: ModelAttributes) -> list[str] | None:
    types = attributes.access_value(_TYPES.get(content.type, ""))
    return [str(each) for each in types] if isinstance(types, (list, tuple)) else None


def is_text(mime_type: str) -> bool:
    """Tells whether what is of a type can be read as it is."""
    return mime_type.startswith(("text/", *_TEXTS))


def read_words(content: FileContent) -> str | None:
    """Returns the text of a file that can be read to a model as it is; ``None`` of any other."""
    if content.data is None or not is_text(content.mime_type):
        return None
    try:
        return content.data.decode("utf-8")
    except UnicodeDecodeError:
        return None


TYPES_BY_SUFFIX: Final = {
    "csv": "text/csv",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "html": "text/html",
    "json": "application/json",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "txt": "text/plain",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
}


def name_file(content: FileContent) -> str:
    """Returns a name for a file that needs one: vendors go by its suffix."""
    for suffix, mime_type in TYPES_BY_SUFFIX.items():
        if mime_type == content.mime_type:
            return f"document.{suffix}"
    return "document"
