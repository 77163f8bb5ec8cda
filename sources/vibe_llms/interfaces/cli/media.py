"""Images and audio for commands: read them from files, and write them to files or a pipe."""

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
"""Maximum size of a file; the limits of vendors are lower."""


def read_medium(path: str, kind: type[MediaContent]) -> MediaContent:
    """Read an image or audio; ``-`` is standard input.

    Raises:
        click.UsageError: The file cannot be read, is too large, or is of another kind.
    """
    from vibe_llms.interfaces.cli.pipes import read_input

    data = read_input(MEDIA_BYTES) if path == "-" else read_bytes(path)
    return wrap_medium(data, path, kind)


def read_bytes(path: str) -> bytes:
    """Read a file. Raises click.UsageError if it cannot be read, or is too large."""
    from vibe_llms.foundation.files import read_file

    try:
        return read_file(path, MEDIA_BYTES, pipe_bytes=MEDIA_BYTES)
    except OSError as error:
        raise click.UsageError(f"Cannot read {path}: {error.strerror or error}.") from error


def wrap_medium(data: bytes, path: str, kind: type[MediaContent]) -> MediaContent:
    """Return the content of a file's bytes. Raises click.UsageError if it is of another kind.

    Args:
        path: Path of the file; ``-`` for standard input.
    """
    from vibe_llms.instruments.attachments import recognize_type

    major_type = kind.__name__.removesuffix("Content").lower()
    name = "Standard input" if path == "-" else path
    media_type = recognize_type(data, "" if path == "-" else Path(path).name)
    # A video is accepted as audio, because it may have an audio track.
    is_video = major_type == "audio" and media_type.startswith("video/")
    if not media_type.startswith(f"{major_type}/") and not is_video:
        raise click.UsageError(f"{name} is not {_NAMES[major_type]} ({media_type}).")
    return kind(data=data, mime_type=media_type)


_NAMES: Final = {"image": "an image", "audio": "audio"}


def choose_paths(output: str | None, count: int, *, as_json: bool) -> list[str]:
    """Return the paths of the files to write; empty for standard output, or for data in JSON.

    Args:
        output: The value of ``--output``.
        count: The number of results.

    Raises:
        click.UsageError: Without a file, standard output is a terminal, or there are several
            results.
    """
    if output not in (None, "-"):
        assert output is not None
        if count == 1:
            return [output]
        path = Path(output)
        numbers = range(1, count + 1)
        return [str(path.with_stem(f"{path.stem}-{number}")) for number in numbers]
    if as_json:
        if output == "-":
            raise click.UsageError("--json also uses standard output: name a file with --output.")
        return []
    if output is None and sys.stdout.isatty():
        raise click.UsageError("Name a file with --output, or use a pipe.")
    if count > 1:
        raise click.UsageError("A pipe takes only one result: name a file with --output.")
    return []


def write_media(contents: Iterable[MediaContent], paths: Sequence[str]) -> list[dict[str, object]]:
    """Write contents to files, if there are paths, and describe them.

    Returns:
        Descriptions for ``--json``; without files, they contain the data in Base64.
    """
    from base64 import b64encode

    from vibe_llms.foundation.files import write_file

    descriptions: list[dict[str, object]] = []
    for index, content in enumerate(contents):
        row: dict[str, object] = {"mime_type": content.mime_type, "content_id": content.content_id}
        if content.data is None:
            row["url"] = content.url
            note(f"The vendor returned a URL: {content.url}")
        elif paths:
            write_file(paths[index], content.data)
            row["file"] = paths[index]
            _note_wrong_suffix(paths[index], content.mime_type)
        else:
            row["data"] = b64encode(content.data).decode()
        descriptions.append(row)
    return descriptions


def _note_wrong_suffix(path: str, media_type: str) -> None:
    """Report a file whose suffix is that of another type."""
    import mimetypes

    type_of_suffix = (mimetypes.guess_type(path)[0] or media_type).replace("/x-", "/")
    actual = media_type.partition(";")[0]
    if {type_of_suffix, actual} not in ({actual}, {"audio/opus", "audio/ogg"}):
        note(f"{path} contains {actual}.")


def write_pipe(data: bytes) -> None:
    """Write bytes to standard output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
