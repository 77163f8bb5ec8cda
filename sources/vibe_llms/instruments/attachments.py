"""Read files attached to a prompt; their type is recognized by their bytes."""

from __future__ import annotations

import sys
from typing import TypeAlias

from vibe_llms.exceptions import LimitError, RequestError
from vibe_llms.foundation.encodings import find_misencoding
from vibe_llms.foundation.files import advise, expand_home, read_beginning
from vibe_llms.foundation.json_types import escape_surrogates
from vibe_llms.messages.canisters import DocumentCanister
from vibe_llms.messages.contents import (
    FileContent,
    MediaContent,
    choose_media,
)
from vibe_llms.messages.signatures import recognize

Attachment: TypeAlias = DocumentCanister | MediaContent


def recognize_type(data: bytes, name: str = "") -> str:
    """Return the media type of data, by content; if the content is inconclusive, by name."""
    recognized = recognize(data)
    if recognized:
        return _refine_zip(name) if recognized == "application/zip" else recognized
    guessed = _guess_type(name)
    if _is_text(data) or _is_misencoded(data, guessed):
        return guessed if guessed.startswith("text/") else "text/plain"
    # The data is not text, whatever its name says.
    is_wrong = not guessed or guessed.startswith("text/")
    return "application/octet-stream" if is_wrong else guessed


def _guess_type(name: str) -> str:
    if not name:
        return ""
    import mimetypes  # reads the system's tables on first use

    return mimetypes.guess_type(name)[0] or ""


def read_attachment(path: str, *, limit_bytes: float, must_be_image: bool = False) -> Attachment:
    """Read one file; ``-`` is standard input.

    Args:
        limit_bytes: The limit ``attachment_bytes``.
        must_be_image: Refuse anything but an image.

    Raises:
        RequestError: The file cannot be read, is not an image although one is required, or is
            text that is not UTF-8.
        LimitError: The file is too large.
    """
    name, data = _read(path, int(limit_bytes))
    media_type = recognize_type(data, name)
    if must_be_image and not media_type.startswith("image/"):
        raise RequestError(
            path=path,
            detail=f"{_describe_source(path)} is not an image ({media_type}).",
            remedy="Attach it as a file.",
        )
    if media_type.startswith("text/"):
        _refuse_misencoded(data, path)
    return produce_attachment(data, media_type, name)


def produce_attachment(data: bytes, media_type: str, name: str) -> Attachment:
    """Convert text to a document, and other data to the content of its type.

    Only documents and files keep their names: no vendor accepts the name of an image or audio,
    and each request would have to report the loss.
    """
    if media_type.startswith("text/"):
        return DocumentCanister(data.decode("utf-8-sig"), title=name or None)
    kind = choose_media(media_type)
    content_name = name if kind is FileContent and name else None
    return kind(mime_type=media_type, data=data, name=content_name)


def _read(path: str, limit_bytes: int) -> tuple[str, bytes]:
    shown = _describe_source(path)
    try:
        if path == "-":
            # One more byte than allowed is read, to find out whether the limit is exceeded.
            name, data = "", sys.stdin.buffer.read(limit_bytes + 1)
        else:
            file = expand_home(path)
            name = escape_surrogates(file.name)
            data = read_beginning(file, limit_bytes + 1, pipe_bytes=limit_bytes)
    except OSError as error:
        raise RequestError(
            path=path,
            detail=f"Cannot read {shown}: {error.strerror or error}.",
            remedy=advise(error, is_named=True),
        ) from error
    if len(data) > limit_bytes:
        raise LimitError(
            limit="attachment_bytes",
            value=limit_bytes,
            detail=f"{shown} is larger than the limit of {limit_bytes} bytes.",
            remedy="Raise limits.attachment_bytes in the configuration.",
        )
    return name, data


def _is_text(data: bytes) -> bool:
    if b"\0" in data:  # valid UTF-8, but never part of text
        return False
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True


def ensure_readable(text: str, place: str) -> str:
    """Return typed or piped text unchanged, unless it was not valid UTF-8.

    Python has replaced invalid bytes by surrogates, so the model would receive other characters.

    Args:
        place: The source of the text, for errors.

    Raises:
        RequestError: The text was not valid UTF-8.
    """
    if not text.isascii():
        _refuse_misencoded(text.encode("utf-8", "surrogateescape"), place)
    return text


def _refuse_misencoded(data: bytes, path: str) -> None:
    misencoding = find_misencoding(data)
    if misencoding is not None:
        is_file = " " not in path and path != "-"
        remedy = misencoding.compose_remedy(path if is_file else "")
        detail = misencoding.describe(_describe_source(path))
        raise RequestError(path=path, detail=detail, remedy=remedy)


def _describe_source(path: str) -> str:
    """Return the name of a source of data for users."""
    return "Standard input" if path == "-" else path


def _is_misencoded(data: bytes, guessed: str) -> bool:
    """Return whether data is text in another encoding; if ambiguous, the guessed type decides."""
    misencoding = find_misencoding(data)
    if misencoding is None:
        return False
    return bool(misencoding.name) or guessed.startswith("text/")


def _refine_zip(name: str) -> str:
    """Return the type of a ZIP archive by its name: Office documents are archives, too."""
    return _guess_type(name) or "application/zip"
