"""What a file is, is seen in its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_llms.exceptions import LimitError, RequestError
from vibe_llms.instruments.attachments import read_attachment, recognize_type
from vibe_llms.messages.canisters import DocumentCanister
from vibe_llms.messages.contents import FileContent, ImageContent
from vibe_llms.messages.views import text_of

_PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


@pytest.mark.parametrize(
    ("data", "name", "media_type"),
    [
        (_PNG, "wrong.txt", "image/png"),
        (b"\xff\xd8\xff\xe0rest", "", "image/jpeg"),
        (b"GIF89a\0", "", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "", "audio/wav"),
        (b"%PDF-1.7 ", "a.png", "application/pdf"),
        (b"\0\0\0\x18ftypmp42", "", "video/mp4"),
        (b"plain words", "a.png", "text/plain"),
        (b"# Title", "a.md", "text/markdown"),
        ("日本語".encode(), "", "text/plain"),
        (b"", "", "text/plain"),
        (b"\0\1\2", "a.bin", "application/octet-stream"),
        (b"\xff\xfe\0\0", "", "application/octet-stream"),
    ],
)
def test_the_media_type_comes_from_the_content(data: bytes, name: str, media_type: str) -> None:
    """A name counts only where the content says nothing."""
    assert recognize_type(data, name) == media_type


def test_text_becomes_a_document_with_the_name_of_its_file(tmp_path: Path) -> None:
    """Text is material to be consulted; a byte order mark is no part of it."""
    file = tmp_path / "letter.txt"
    file.write_bytes("\ufeffDear Sir".encode())

    attachment = read_attachment(str(file), limit_bytes=100)

    assert isinstance(attachment, DocumentCanister)
    assert attachment.title == "letter.txt"
    assert text_of(attachment) == "Dear Sir"


def test_pictures_and_other_files_keep_their_bytes(tmp_path: Path) -> None:
    """A picture is one whatever its name; what is unknown travels as a file."""
    (tmp_path / "picture").write_bytes(_PNG)
    (tmp_path / "odd.bin").write_bytes(b"\0\1")

    picture = read_attachment(str(tmp_path / "picture"), limit_bytes=100)
    odd = read_attachment(str(tmp_path / "odd.bin"), limit_bytes=100)

    assert isinstance(picture, ImageContent)
    assert picture.data == _PNG
    assert isinstance(odd, FileContent)
    assert odd.name == "odd.bin"


def test_a_file_that_is_too_large_names_the_limit(tmp_path: Path) -> None:
    """The error says under which name the limit is set."""
    (tmp_path / "large").write_bytes(b"x" * 11)

    with pytest.raises(LimitError, match="attachment_bytes"):
        read_attachment(str(tmp_path / "large"), limit_bytes=10)


def test_what_is_no_picture_is_refused_as_one(tmp_path: Path) -> None:
    """``/image`` takes pictures only."""
    (tmp_path / "a.png").write_bytes(b"words")

    with pytest.raises(RequestError, match="not an image"):
        read_attachment(str(tmp_path / "a.png"), limit_bytes=10, must_be_image=True)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error names the path and the reason."""
    with pytest.raises(RequestError, match="nowhere"):
        read_attachment(str(tmp_path / "nowhere"), limit_bytes=10)


def test_bytes_that_are_no_text_are_none_whatever_the_name_says(tmp_path: Path) -> None:
    """A file that only calls itself text goes as a file, and is no defect."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"\x82\xff\x00")

    attachment = read_attachment(str(path), limit_bytes=100)

    assert isinstance(attachment, FileContent)
    assert attachment.mime_type == "application/octet-stream"


_LATIN = "Sehr geehrte Frau Müller,\nmit besten Grüßen".encode("latin-1")


@pytest.mark.parametrize("name", ["letter.txt", "letter", "notes.md"])
def test_text_in_latin_1_is_told_as_that(name: str, tmp_path: Path) -> None:
    """Not as bytes of an unknown kind, which a model refuses without a word on why."""
    path = tmp_path / name
    path.write_bytes(_LATIN)

    with pytest.raises(RequestError) as caught:
        read_attachment(str(path), limit_bytes=1000)

    assert "text in Latin-1, not in UTF-8 (byte 0xFC in line 1)" in str(caught.value)
    assert f"iconv -f LATIN1 -t UTF-8 {path}" in caught.value.remedy


def test_a_name_that_is_no_utf_8_is_written_out(tmp_path: Path) -> None:
    """So that it can be sent and stored; the system knows the file by its bytes."""
    path = tmp_path / "caf\udce9.txt"
    path.write_text("words")

    document = read_attachment(str(path), limit_bytes=100)

    assert isinstance(document, DocumentCanister)
    assert document.title == "caf\\udce9.txt"
