"""Images and audio of commands: read from files, and written to files or a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from vibe_llms.interfaces.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vibe_llms.messages.contents import MediaContent

MEDIA_BYTES: Final = 200_000_000
"""Maximum size of a file; vendors accept less."""


def read_medium(path: str, kind: type[MediaContent]) -> MediaContent:
    """Read an image or audio; ``-`` is standard input.

    Raises:
        click.UsageError: The file cannot be read, or is of another kind.
    """
    from vibe_llms.foundation.files import read_file
    from vibe_llms.interfaces.cli.attachments import recognize_type

    word = kind.__name__.removesuffix("Content").lower()
    name = "Standard input" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else read_file(path, MEDIA_BYTES)
    except OSError as error:
        raise click.UsageError(f"Cannot read {path}: {error.strerror or error}.") from error
    media_type = recognize_type(data, "" if path == "-" else Path(path).name)
    is_video = word == "audio" and media_type.startswith("video/")  # with a track of audio
    if not media_type.startswith(f"{word}/") and not is_video:
        raise click.UsageError(f"{name} is not {_NAMES[word]} ({media_type}).")
    return kind(data=data, mime_type=media_type)


_NAMES: Final = {"image": "an image", "audio": "audio"}


def choose_paths(output: str | None, count: int, *, as_json: bool) -> list[str]:
    """Return the files to write; none for standard output, or for data in JSON.

    Raises:
        click.UsageError: There is no file, and standard output is a terminal, or there are several
            results.
    """
    if output not in (None, "-"):
        assert output is not None
        if count == 1:
            return [output]
        path = Path(output)
        return [str(path.with_stem(f"{path.stem}-{n}")) for n in range(1, count + 1)]
    if as_json:
        if output == "-":
            raise click.UsageError("Standard output is either the file or JSON. Name a file.")
        return []
    if output is None and sys.stdout.isatty():
        raise click.UsageError("Name a file with --output, or use a pipe.")
    if count > 1:
        raise click.UsageError("Name a file with --output: a pipe has only one.")
    return []


def write_media(contents: Iterable[MediaContent], paths: Sequence[str]) -> list[dict[str, object]]:
    """Write contents to their files, if there are any, and return their description.

    Returns:
        The contents for ``--json``, with their data in Base64 if there are no files.
    """
    from base64 import b64encode

    from vibe_llms.foundation.files import write_file

    shown: list[dict[str, object]] = []
    for place, content in enumerate(contents):
        row: dict[str, object] = {"mime_type": content.mime_type, "content_id": content.content_id}
        if content.data is None:
            row["url"] = content.url
            note(f"The vendor returned a URL: {content.url}")
        elif paths:
            write_file(paths[place], content.data)
            row["file"] = paths[place]
            _note_type(paths[place], content.mime_type)
        else:
            row["data"] = b64encode(content.data).decode()
        shown.append(row)
    return shown


def _note_type(path: str, media_type: str) -> None:
    """Note a file whose suffix promises another type."""
    import mimetypes

    promised = mimetypes.guess_type(path)[0]
    if promised is not None and promised != media_type:
        note(f"{path} contains {media_type}.")


def write_pipe(data: bytes) -> None:
    """Write bytes to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
