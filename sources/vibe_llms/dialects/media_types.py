"""Checks whether a model supports the kind of a medium and, if the vendor lists types, its type.

If the support is unknown, the medium is sent. Media in the vendor's protocol are passed through.
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
    "image": ("supports_images", "images"),
    "audio": ("supports_audio", "audio"),
    "video": ("supports_video", "video"),
    "file": ("supports_files", "documents"),
}
_TYPES: Final = {"image": "image_types", "file": "file_types"}
_TEXT_TYPES: Final = ("application/json", "application/xml", "application/yaml")
"""Types of text that do not begin with ``text/``."""


def admit_medium(
    content: _Medium,
    attributes: ModelAttributes | None,
    path: str,
    canister: AnyCanister | None,
    ledger: Ledger,
) -> _Medium | None:
    """Return a medium as it can be sent, without a file at another vendor.

    Returns:
        ``None``, with a loss, if it is not sent.

    Raises:
        CapabilityError: The model is known not to support it.
    """
    ensure_capability(content, attributes, path)
    if not admit_type(content, attributes, path, canister, ledger):
        return None
    return ledger.drop_foreign_file(content, path, canister)


def read_unsupported_file(
    content: MediaContent, attributes: ModelAttributes | None, path: str, ledger: Ledger
) -> str | None:
    """Return the text of a file whose type the model does not support; ``None`` for other media."""
    if not isinstance(content, FileContent) or attributes is None:
        return None
    text = None if accepts_type(content, attributes) else read_file_text(content)
    if text is not None:
        assert isinstance(content, FileContent)
        report_text_only(content, path, ledger)
    return text


def report_text_only(content: FileContent, path: str, ledger: Ledger) -> None:
    """Record that only the text of a file is sent."""
    ledger.coerce(path, "a file of plain text is sent as text")
    ledger.omit(content, path, "name", "title", "context", reason="only its text is sent")
    ledger.omit_native(content.native, path)


def ensure_capability(content: MediaContent, attributes: ModelAttributes | None, path: str) -> None:
    """Reject a medium that the model is known not to support. Raises CapabilityError."""
    name, text = _CAPABILITIES[content.type]
    if attributes is None or attributes.access_capability(name) is not Capability.NO:
        return
    model = str(attributes.address)
    raise CapabilityError(
        model=model,
        capability=name,
        path=path,
        detail=f"The model {model} does not accept {text}.",
        remedy="Remove it, or use another model.",
    )


def admit_type(
    content: MediaContent,
    attributes: ModelAttributes | None,
    path: str,
    canister: AnyCanister | None,
    ledger: Ledger,
) -> bool:
    """Return whether a medium can be sent, judged by its type.

    Media in a tool's result are left out with a loss: the model may continue without them.

    Raises:
        CapabilityError: The model is known not to support its type.
    """
    is_own = ledger.admits(content.native, canister)
    if attributes is None or is_own or accepts_type(content, attributes):
        return True
    if isinstance(content, FileContent) and read_file_text(content) is not None:
        return True  # a file of text can be sent as text
    model, kind = str(attributes.address), content.mime_type
    accepted = ", ".join(_list_types(content, attributes) or ())
    if isinstance(canister, ResultCanister):
        ledger.withhold(path, f"{model} does not accept {kind}; it accepts {accepted}")
        return False
    raise CapabilityError(
        model=model,
        capability=_TYPES[content.type],
        path=path,
        detail=f"The model {model} does not accept {kind} at {path}.",
        remedy=f"Convert it to {accepted}, or use another model.",
    )


def accepts_type(content: MediaContent, attributes: ModelAttributes) -> bool:
    """Return whether the model is not known to reject a medium's type."""
    types = _list_types(content, attributes)
    kind = content.mime_type.partition(";")[0].strip().lower()
    is_external = content.data is None and content.content_id is None
    is_vague = kind.endswith("*") or kind == "application/octet-stream"
    # Data at a URL or in an uploaded file may have another type than the stated one.
    if types is None or (is_external and (is_vague or content.file_id is not None)):
        return True
    return any(fnmatchcase(kind, each) for each in types)


def _list_types(content: MediaContent, attributes: ModelAttributes) -> list[str] | None:
    types = attributes.access_value(_TYPES.get(content.type, ""))
    return [str(each) for each in types] if isinstance(types, (list, tuple)) else None


def is_text(mime_type: str) -> bool:
    """Return whether data of a type are text."""
    return mime_type.startswith(("text/", *_TEXT_TYPES))


def read_file_text(content: FileContent) -> str | None:
    """Return the text of a file; ``None`` if it is not a text."""
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
    """Return a name for a file without one, because vendors use the suffix of the name."""
    for suffix, mime_type in TYPES_BY_SUFFIX.items():
        if mime_type == content.mime_type:
            return f"document.{suffix}"
    return "document"
