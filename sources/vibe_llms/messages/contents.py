"""What a message can hold: text, media, reasoning, refusals, and a vendor's own blocks.

Every class is a frozen value and carries its stable word in ``type``. The shipped classes
form the closed union :data:`AnyContent`, to be read with ``match``; code that only reads may
rely on the protocol :class:`Content`. Data of media are named by their SHA-256
(``content_id``); the bytes travel in ``data`` until a store has taken them over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.field_types import conform_fields, ensure_members


@runtime_checkable
class Content(Protocol):
    """What code that only reads may rely on: the stable word of a content's kind."""

    @property
    def type(self) -> str:
        """The stable word, as it is stored."""


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class Native:
    """What a vendor said beyond the common words, kept beside them, to be said to it again.

    Beside a content or a canister it holds those fields of the vendor's object which have no
    common word, so that nothing stands twice and an edit of the common fields holds. Of a
    block without any common word, and of what the vendor executed itself, it holds all.

    Attributes:
        protocol: The dialect in which it was said, such as ``messages``.
        data: A JSON object.
    """

    protocol: str
    data: str


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class Citation:
    """A span of a text that rests on a source.

    Attributes:
        start: Where the span begins: an index of a character of the text, from 0; ``None`` where
            the vendor gave no span.
        end: The index behind its last character, or ``None``.
        cited_text: What the source says there.
        title: The title of the source.
        url: The address of the source.
        file_id: The vendor's name of the source, where it is an uploaded file.
        native: The vendor's citation, verbatim.
    """

    start: int | None = None
    end: int | None = None
    cited_text: str | None = None
    title: str | None = None
    url: str | None = None
    file_id: str | None = None
    native: Native | None = None


def _ensure_citations(given: Iterable[Citation]) -> tuple[Citation, ...]:
    return ensure_members(given, (Citation,), "citations")


def _ensure_summary(given: Iterable[str]) -> tuple[str, ...]:
    return ensure_members(given, (str,), "summary")


@frozen(slots=False, field_transformer=conform_fields)
class TextualContent:
    """Text, with the spans of it that rest on sources.

    Attributes:
        text: The words.
        mime_type: ``text/plain`` unless something else is known.
        citations: The spans that rest on sources, in the vendor's order.
        native: What the vendor said of it beyond the common words.
    """

    type: Literal["text"] = attrs.field(default="text", init=False)
    text: str
    mime_type: str = attrs.field(default="text/plain", kw_only=True)
    citations: tuple[Citation, ...] = attrs.field(
        default=(), converter=_ensure_citations, kw_only=True
    )
    native: Native | None = attrs.field(default=None, kw_only=True)


ANY_TYPE: Final = "application/octet-stream"
"""The media type of unknown bytes."""

_CONTENT_ID = re.compile("[0-9a-f]{64}")


def compute_content_id(data: bytes) -> str:
    """Returns the whole SHA-256 of content, in lower-case hexadecimal digits."""
    import hashlib  # it brings OpenSSL, and most conversations are words

    return hashlib.sha256(data).hexdigest()


def _ensure_content_id(given: str | None, data: bytes | None) -> str | None:
    """Names the data where they are given, and lets nothing else pass for a name.

    Stores make paths of these names, so that a strange one must not get that far.
    """
    if data is not None:
        computed = compute_content_id(data)
        if given in (None, computed):
            return computed
        detail = f"The content_id {given!r} is not the SHA-256 of the data, {computed}."
    elif given is None or _CONTENT_ID.fullmatch(given):
        return given
    else:
        detail = f"The content_id {given!r} is not a SHA-256 in 64 lower-case hexadecimal digits."
    raise RequestError(
        path="content_id", detail=detail, remedy="Leave it out; it is computed from the data."
    )


def _conform_media_fields(
    cls: type, fields: list[attrs.Attribute[object]]
) -> list[attrs.Attribute[object]]:
    """Puts the stable word before the fields that a class inherits: it is written first."""
    return sorted(conform_fields(cls, fields), key=lambda field: field.name != "type")


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class _MediaContent:
    """Data that are not text: inline, in a content store, at a URL, or held by the vendor.

    Attributes:
        mime_type: Such as ``image/png``. Left out, the first bytes of the data tell; where
            these do not tell it is ``image/*`` and the like, or that of the content store.
        content_id: The SHA-256 of the data; computed where the data are given.
        data: The bytes, until a store has taken them over; then ``None``.
        url: Where the vendor shall fetch it.
        file_id: The vendor's own name for an uploaded file. Which vendor's, the native says, be
            it empty; without one, whoever answers next. No other vendor is told of it.
        name: The name it was uploaded or generated with, if it had one.
        native: What the vendor said of it beyond the common words.
    """

    mime_type: str = ""
    data: bytes | None = attrs.field(default=None, repr=False)
    content_id: str | None = None
    url: str | None = None
    file_id: str | None = None
    name: str | None = None
    native: Native | None = None

    def __attrs_post_init__(self) -> None:
        content_id = _ensure_content_id(self.content_id, self.data)
        object.__setattr__(self, "content_id", content_id)  # frozen for all others
        if not self.mime_type:
            object.__setattr__(self, "mime_type", self._find_mime_type())
        if content_id is None and self.url is None and self.file_id is None:
            raise RequestError(
                path="content_id",
                detail=f"This {type(self).__name__} has no source.",
                remedy="Give data, content_id, url or file_id.",
            )

    @property
    def is_vague(self) -> bool:
        """Whether the type is not known any closer than the kind of content."""
        return self.mime_type.endswith("/*") or self.mime_type == ANY_TYPE

    def _find_mime_type(self) -> str:
        from vibe_llms.messages.signatures import recognize

        kind = str(getattr(self, "type", "file"))
        if kind == "file":
            return recognize(self.data or b"") or ANY_TYPE
        return recognize(self.data or b"", f"{kind}/") or f"{kind}/*"


@frozen(kw_only=True, slots=False, field_transformer=_conform_media_fields)
class ImageContent(_MediaContent):
    """A picture, with the attributes that all media have: see :class:`FileContent`.

    Attributes:
        detail: How closely the model shall look at it, in the vendor's words, such as ``high``;
            ``None`` leaves that to the vendor.
    """

    type: Literal["image"] = attrs.field(default="image", init=False)
    detail: str | None = None


@frozen(kw_only=True, slots=False, field_transformer=_conform_media_fields)
class AudioContent(_MediaContent):
    """Sound, with the attributes that all media have: see :class:`FileContent`.

    Attributes:
        transcript: Its words, where they are known.
    """

    type: Literal["audio"] = attrs.field(default="audio", init=False)
    transcript: str | None = None


@frozen(kw_only=True, slots=False, field_transformer=_conform_media_fields)
class VideoContent(_MediaContent):
    """A film, with the attributes that all media have: see :class:`FileContent`."""

    type: Literal["video"] = attrs.field(default="video", init=False)


@frozen(kw_only=True, slots=False, field_transformer=_conform_media_fields)
class FileContent(_MediaContent):
    """A PDF or another document.

    Attributes:
        mime_type: Such as ``application/pdf``; left out, the first bytes of the data tell.
        data: The bytes, until a store has taken them over; then ``None``.
        content_id: The SHA-256 of the bytes, in lower-case hexadecimal digits; computed from the
            bytes where they are given.
        url: The address from which the vendor shall fetch it.
        file_id: The vendor's own name of an uploaded file.
        name: The name of the file, such as ``report.pdf``.
        native: What the vendor said of it beyond the common words.
        title: What the model is told that it is called.
        context: What the model is told about it, besides.
    """

    type: Literal["file"] = attrs.field(default="file", init=False)
    title: str | None = None
    context: str | None = None


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class ReasoningContent:
    """What a model thought before it spoke.

    Attributes:
        text: The reasoning itself; empty where the vendor keeps it to itself.
        summary: The vendor's summaries, in order.
        signature: The vendor's proof or encrypted form, byte for byte.
        native: What the vendor said of it beyond the common words.
    """

    type: Literal["reasoning"] = attrs.field(default="reasoning", init=False)
    text: str = ""
    summary: tuple[str, ...] = attrs.field(default=(), converter=_ensure_summary)
    signature: str | None = attrs.field(default=None, repr=False)
    native: Native | None = None


@frozen(slots=False, field_transformer=conform_fields)
class RefusalContent:
    """The model's words for not answering.

    Attributes:
        text: The words.
        native: What the vendor said of it beyond the common words.
    """

    type: Literal["refusal"] = attrs.field(default="refusal", init=False)
    text: str
    native: Native | None = attrs.field(default=None, kw_only=True)


@frozen(kw_only=True, slots=False, field_transformer=conform_fields)
class NativeContent:
    """A vendor's own block for which there is no common word, kept verbatim.

    Attributes:
        kind: The vendor's word for it, such as ``compaction``.
        native: The block itself.
        text: What a reader may be shown in its place; empty where there is nothing to show.
    """

    type: Literal["native"] = attrs.field(default="native", init=False)
    kind: str
    native: Native
    text: str = ""


MediaContent: TypeAlias = ImageContent | AudioContent | VideoContent | FileContent
AnyContent: TypeAlias = (
    TextualContent | MediaContent | ReasoningContent | RefusalContent | NativeContent
)

MEDIA_CLASSES = (ImageContent, AudioContent, VideoContent, FileContent)
CONTENT_CLASSES: dict[str, type[AnyContent]] = {
    "text": TextualContent,
    "image": ImageContent,
    "audio": AudioContent,
    "video": VideoContent,
    "file": FileContent,
    "reasoning": ReasoningContent,
    "refusal": RefusalContent,
    "native": NativeContent,
}
"""From the stable word of each kind of content to its class."""

_KNOWN_CLASSES = tuple(CONTENT_CLASSES.values())


def choose_media(mime_type: str) -> type[MediaContent]:
    """Returns the class of media of a type: a picture, sound, a film, and else a file."""
    word = mime_type.partition("/")[0].lower()
    known = CONTENT_CLASSES.get(word)
    return next((each for each in MEDIA_CLASSES if each is known), FileContent)


def ensure_contents(
    given: str | AnyContent | Iterable[str | AnyContent],
) -> tuple[AnyContent, ...]:
    """Makes contents from what a caller may conveniently give: a text, a content, or several.

    A text stands for a :class:`TextualContent`.

    Raises:
        RequestError: Something among them is not a content.
    """
    if isinstance(given, str):
        return (TextualContent(given),)
    if given.__class__ is tuple:  # most were made by ourselves
        for item in given:
            if item.__class__ not in _KNOWN_CLASSES:
                break
        else:
            return cast("tuple[AnyContent, ...]", given)
    several = isinstance(given, Iterable) and not isinstance(given, Mapping)
    items: Iterable[str | AnyContent] = given if several else (given,)  # type: ignore[assignment]
    contents = [TextualContent(item) if isinstance(item, str) else item for item in items]
    return ensure_members(contents, _KNOWN_CLASSES, "content")
