"""What a message can hold."""

from __future__ import annotations

import hashlib
from typing import Any

import attrs
import pytest

from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.codec.canister_lines import decode_canister
from vibe_llms.messages.contents import (
    CONTENT_CLASSES,
    MEDIA_CLASSES,
    CacheHint,
    Citation,
    Content,
    FileContent,
    ImageContent,
    MediaContent,
    ReasoningContent,
    TextualContent,
    VideoContent,
    ensure_contents,
)
from vibe_llms.messages.views import is_input_blank
from vibe_llms.models.counting import count_canister


def test_each_word_names_the_class_that_carries_it() -> None:
    """The table from stable words to classes agrees with the words in the classes."""
    for word, cls in CONTENT_CLASSES.items():
        assert attrs.fields(cls).type.default == word
        assert attrs.fields(cls)[0].name == "type"


def test_a_content_satisfies_the_protocol() -> None:
    """Code that only reads may rely on the protocol."""
    assert isinstance(TextualContent("hi"), Content)


def test_a_content_cannot_be_changed() -> None:
    """Contents are frozen; a change is a new value."""
    content = TextualContent("hi")

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        content.text = "ho"  # type: ignore[misc]
    assert attrs.evolve(content, text="ho") == TextualContent("ho")


def test_lists_become_tuples() -> None:
    """What a caller gives as a list is kept as a tuple, so that a content can be hashed."""
    content = TextualContent("hi", citations=[Citation(start=0)])  # type: ignore[arg-type]

    assert content.citations == (Citation(start=0),)
    assert hash(content) == hash(attrs.evolve(content))


def test_data_are_named_by_their_sha256() -> None:
    """Where the bytes are given, the content_id follows from them."""
    content = ImageContent(mime_type="image/png", data=b"picture")

    assert content.content_id == hashlib.sha256(b"picture").hexdigest()


def test_data_given_with_no_name_are_named_all_the_same() -> None:
    """To say content_id=None beside the bytes is to leave it out."""
    assert VideoContent(mime_type="video/mp4", data=b"", content_id=None).content_id is not None


def test_a_name_outlives_the_data_it_names() -> None:
    """A store takes the bytes over and leaves the content_id."""
    content = ImageContent(mime_type="image/png", data=b"picture")

    stored = attrs.evolve(content, data=None)

    assert stored.data is None
    assert stored.content_id == content.content_id


@pytest.mark.parametrize("content_id", ["0" * 64, "../../etc/passwd", ""])
def test_data_take_no_name_but_their_own(content_id: str) -> None:
    """A content_id that is not the SHA-256 of the bytes given with it is refused."""
    with pytest.raises(RequestError, match="is not the SHA-256 of the data"):
        ImageContent(mime_type="image/png", data=b"picture", content_id=content_id)


@pytest.mark.parametrize("content_id", ["../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_a_name_is_a_sha256_and_nothing_else(content_id: str) -> None:
    """Stores make paths of content ids, so that a strange one is refused at once."""
    with pytest.raises(RequestError, match="64 lower-case") as caught:
        FileContent(mime_type="application/pdf", content_id=content_id)

    assert caught.value.path == "content_id"


@pytest.mark.parametrize("cls", MEDIA_CLASSES)
def test_media_have_a_source(cls: type[ImageContent]) -> None:
    """Media without data, content_id, url or file_id are refused."""
    with pytest.raises(RequestError, match=f"This {cls.__name__} has no source"):
        cls(mime_type="image/png")

    assert cls(mime_type="image/png", url="https://example.org/").content_id is None
    assert cls(mime_type="image/png", file_id="file-1").content_id is None


def test_neither_bytes_nor_signatures_are_printed() -> None:
    """The representation of a content shows neither its data nor a vendor's signature."""
    assert "picture" not in repr(ImageContent(mime_type="image/png", data=b"picture"))
    assert "signed" not in repr(ReasoningContent(signature="signed"))


def test_a_text_is_taken_for_a_content() -> None:
    """Where contents are wanted, a text, a content, or several contents may be given."""
    content = TextualContent("hi")

    assert ensure_contents("hi") == ensure_contents(content) == ensure_contents([content])
    assert ensure_contents(["hi", content]) == (content, content)
    assert ensure_contents(iter([content, content])) == (content, content)
    assert ensure_contents(()) == ()


def test_what_is_no_content_is_refused_with_its_place() -> None:
    """The error names the place of the stranger and the classes that would do."""
    with pytest.raises(RequestError, match="TextualContent") as caught:
        ensure_contents([TextualContent("hi"), 5])  # type: ignore[list-item]

    assert caught.value.path == "content[1]"


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [
        (ImageContent(data=b"\xff\xd8\xff\xe0"), "image/jpeg"),
        (ImageContent(data=b"who knows"), "image/*"),
        (ImageContent(data=b"%PDF-1.7"), "image/*"),
        (ImageContent(content_id="0" * 64), "image/*"),
        (ImageContent(url="https://example.org/a"), "image/*"),
        (VideoContent(file_id="f"), "video/*"),
        (FileContent(data=b"%PDF-1.7"), "application/pdf"),
        (FileContent(data=b"who knows"), "application/octet-stream"),
        (ImageContent(data=b"\xff\xd8\xff\xe0", mime_type="image/odd"), "image/odd"),
    ],
)
def test_the_type_of_a_medium_need_not_be_said(content: MediaContent, mime_type: str) -> None:
    """The first bytes tell it; else nothing is known but what the content is."""
    assert content.mime_type == mime_type


def test_a_line_without_a_type_is_read() -> None:
    """As requirements and other programs write them."""
    digest = "a1b2" * 16
    line = (
        '{"role": "user", "id": "c", "timestamp": "2025-11-15T10:00:00Z", "content": ['
        '{"type": "text", "text": "What is in this image?"},'
        f'{{"type": "image", "content_id": "{digest}"}}]}}'
    )

    assert decode_canister(line).content[1] == ImageContent(content_id=digest)


def test_equal_lifetimes_are_equal_texts() -> None:
    """So that equal hints are written with equal bytes."""
    assert CacheHint("60m") == CacheHint("1h") == CacheHint("3600s")
    assert (CacheHint("90m").lifetime, CacheHint("90m").seconds) == ("90m", 5400)
    assert CacheHint().seconds is None


@pytest.mark.parametrize("lifetime", ["", "5", "m", "0m", "-5m", "1d", "1h30m", 5])
def test_an_invalid_lifetime_is_rejected(lifetime: Any) -> None:
    with pytest.raises(RequestError, match="lifetime"):
        CacheHint(lifetime)


def test_a_hint_is_no_text() -> None:
    """Models and people do not see it, and it does not separate the texts around it."""
    hint = CacheHint()
    assert UserCanister(["a", hint]).text == "a"
    assert AssistantCanister(["a", hint, "b"]).text == "ab"
    assert is_input_blank([UserCanister([" ", hint])])
    with_hint, without = UserCanister(["a", hint]), UserCanister("a")
    assert count_canister(with_hint, None) == count_canister(without, None)
