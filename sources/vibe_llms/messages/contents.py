"""Contents of a message: text, media, reasoning, refusals, a vendor's own blocks, cache hints.

Every class is a frozen value and stores the name of its kind in ``type``. The shipped classes
form the closed union :data:`AnyContent`, to be read with ``match``; code that only reads may
use the protocol :class:`Content`. Media data are identified by their SHA-256 (``content_id``);
the bytes are in ``data`` until a store has saved them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.slotted_classes import slotted
from vibe_llms.messages.field_types import conform_fields, ensure_members


@runtime_checkable
class Content(Protocol):
    """Interface of all contents, for code that reads them."""

    @property
    def type(self) -> str:
        """The kind of content, as stored: ``text``, ``image`` and so on."""


@slotted(kw_only=True, field_transformer=conform_fields)
class Native:
    """Vendor data without a common field, which is sent back to the same vendor.

    In a content or a canister, it has only the fields of the vendor's object that have no common
    field, so that nothing is stored twice and edits take effect. For a block without any common
    field, and for calls that the vendor executed itself, it has the whole object.

    Attributes:
        protocol: The protocol, such as ``messages``.
        data: A JSON object.
    """

    protocol: str
    data: str


@slotted(kw_only=True, field_transformer=conform_fields)
class Citation:
    """A citation: a span of a text and its source.

    Attributes:
        start: Start of the span: the index of a character of the text, from 0; ``None`` if the
            vendor gave no span.
        end: The index after its last character, or ``None``.
        cited_text: The cited text of the source.
        title: The title of the source.
        url: The address of the source.
        file_id: The vendor's id of the source, if it is an uploaded file.
        native: The vendor's citation, verbatim.
    """

    start: int | None = None
    end: int | None = None
    cited_text: str | None = None
    title: str | None = None
    url: str | None = None
    file_id: str | None = None
    native: Native | None = None


def _ensure_citations(citations: Iterable[Citation]) -> tuple[Citation, ...]:
    return ensure_members(citations, (Citation,), "citations")


def _ensure_summary(summary: Iterable[str]) -> tuple[str, ...]:
    return ensure_members(summary, (str,), "summary")


@slotted(field_transformer=conform_fields)
class TextualContent:
    """Text, with citations.

    Attributes:
        text: The text.
        mime_type: ``text/plain`` by default.
        citations: The citations, in the vendor's order.
        native: Vendor data without a common field.
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
    """Return the SHA-256 of content, as 64 lower-case hexadecimal digits."""
    import hashlib  # imports OpenSSL, and most conversations are text

    return hashlib.sha256(data).hexdigest()


def _ensure_content_id(content_id: str | None, data: bytes | None) -> str | None:
    """Compute the id of the data, and check the id from the caller, if there is one.

    Stores make paths from ids, so that an invalid one must be rejected.
    """
    if data is not None:
        computed = compute_content_id(data)
        if content_id in (None, computed):
            return computed
        detail = f"The content_id {content_id!r} is not the SHA-256 of the data, {computed}."
    elif content_id is None or _CONTENT_ID.fullmatch(content_id):
        return content_id
    else:
        detail = (
            f"The content_id {content_id!r} is not a SHA-256 in 64 lower-case hexadecimal digits."
        )
    raise RequestError(
        path="content_id", detail=detail, remedy="Leave it out; it is computed from the data."
    )


def _conform_media_fields(
    cls: type, fields: list[attrs.Attribute[object]]
) -> list[attrs.Attribute[object]]:
    """Put ``type`` before the inherited fields: it is written first."""
    return sorted(conform_fields(cls, fields), key=lambda field: field.name != "type")


@slotted(kw_only=True, field_transformer=conform_fields)
class _MediaContent:
    """Data that are not text: inline, in a content store, at a URL, or uploaded to the vendor.

    Attributes:
        mime_type: MIME type, such as ``image/png``. By default it is detected from the first bytes
            of the data; if these are unknown or missing, it is ``image/*`` or similar, or the type
            in the content store.
        content_id: The SHA-256 of the data; computed from ``data`` if given.
        data: The bytes; ``None`` once a store has saved them.
        url: The URL from which the vendor downloads it.
        file_id: The vendor's id of an uploaded file. ``native``, even if empty, tells which vendor;
            without it, the file belongs to the vendor that answers next. It is never sent to
            another vendor.
        name: The name of the uploaded or generated file, if it has one.
        native: Vendor data without a common field.
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
        object.__setattr__(self, "content_id", content_id)  # frozen outside of this method
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
        """True if only the kind of content is known, not the exact type."""
        return self.mime_type.endswith("/*") or self.mime_type == ANY_TYPE

    def _find_mime_type(self) -> str:
        from vibe_llms.messages.signatures import recognize

        kind = str(getattr(self, "type", "file"))
        if kind == "file":
            return recognize(self.data or b"") or ANY_TYPE
        return recognize(self.data or b"", f"{kind}/") or f"{kind}/*"


@slotted(kw_only=True, field_transformer=_conform_media_fields)
class ImageContent(_MediaContent):
    """An image, with the attributes of all media: see :class:`FileContent`.

    Attributes:
        detail: The vendor's level of detail, such as ``high``; ``None`` for its default.
    """

    type: Literal["image"] = attrs.field(default="image", init=False)
    detail: str | None = None


@slotted(kw_only=True, field_transformer=_conform_media_fields)
class AudioContent(_MediaContent):
    """Audio, with the attributes of all media: see :class:`FileContent`.

    Attributes:
        transcript: The transcript, if known.
    """

    type: Literal["audio"] = attrs.field(default="audio", init=False)
    transcript: str | None = None


@slotted(kw_only=True, field_transformer=_conform_media_fields)
class VideoContent(_MediaContent):
    """A video, with the attributes of all media: see :class:`FileContent`."""

    type: Literal["video"] = attrs.field(default="video", init=False)


@slotted(kw_only=True, field_transformer=_conform_media_fields)
class FileContent(_MediaContent):
    """A file, such as a PDF.

    Attributes:
        mime_type: MIME type, such as ``application/pdf``; by default detected from the first bytes.
        data: The bytes; ``None`` once a store has saved them.
        content_id: The SHA-256 of the bytes in lower-case hexadecimal; computed from ``data`` if
            given.
        url: The URL from which the vendor downloads it.
        file_id: The vendor's id of an uploaded file.
        name: The name of the file, such as ``report.pdf``.
        native: Vendor data without a common field.
        title: The title that the model sees.
        context: Further information for the model.
    """

    type: Literal["file"] = attrs.field(default="file", init=False)
    title: str | None = None
    context: str | None = None


@slotted(kw_only=True, field_transformer=conform_fields)
class ReasoningContent:
    """Reasoning of a model.

    Attributes:
        text: The reasoning; empty if the vendor does not disclose it.
        summary: The vendor's summaries, in order.
        signature: The vendor's signature or encrypted reasoning, unchanged.
        native: Vendor data without a common field.
    """

    type: Literal["reasoning"] = attrs.field(default="reasoning", init=False)
    text: str = ""
    summary: tuple[str, ...] = attrs.field(default=(), converter=_ensure_summary)
    signature: str | None = attrs.field(default=None, repr=False)
    native: Native | None = None


@slotted(field_transformer=conform_fields)
class RefusalContent:
    """A refusal of the model.

    Attributes:
        text: The text of the refusal.
        native: Vendor data without a common field.
    """

    type: Literal["refusal"] = attrs.field(default="refusal", init=False)
    text: str
    native: Native | None = attrs.field(default=None, kw_only=True)


@slotted(kw_only=True, field_transformer=conform_fields)
class NativeContent:
    """A vendor's block without a common counterpart, kept unchanged.

    Attributes:
        kind: The vendor's name of the block, such as ``compaction``.
        native: The block itself.
        text: A text to display in its place; may be empty.
    """

    type: Literal["native"] = attrs.field(default="native", init=False)
    kind: str
    native: Native
    text: str = ""


_LIFETIME: Final = re.compile(r"([1-9][0-9]{0,6})(s|m|h)")
_UNIT_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}


def _ensure_lifetime(lifetime: str | None) -> str | None:
    """Return a lifetime in its largest unit, so that equal lifetimes are equal texts."""
    if lifetime is None:
        return None
    match = _LIFETIME.fullmatch(lifetime) if isinstance(lifetime, str) else None
    if match is None:
        raise RequestError(
            path="lifetime",
            detail=f"Invalid lifetime of a cache hint: {lifetime!r}.",
            remedy="Use a number with a unit, such as '5m' or '1h'.",
        )
    seconds = int(match[1]) * _UNIT_SECONDS[match[2]]
    unit, size = next(each for each in _UNIT_SECONDS.items() if seconds % each[1] == 0)
    return f"{seconds // size}{unit}"


@slotted(field_transformer=conform_fields)
class CacheHint:
    """A mark for prompt caches: the request up to this mark will be sent again.

    Put it behind a content, or into the list of tools. In a request's ``cache``, it covers the
    whole conversation as it grows. Models do not see it.

    Attributes:
        lifetime: How long the vendor should keep the prefix after its last use, such as ``5m`` or
            ``1h``; the vendor's default if ``None``.
        key: A name that requests with the same prefix share. OpenAI sends requests with the same
            key to the same machine.

    Raises:
        RequestError: The lifetime is not a number of seconds, minutes or hours.
    """

    type: Literal["cache"] = attrs.field(default="cache", init=False)
    lifetime: str | None = attrs.field(default=None, converter=_ensure_lifetime)
    key: str | None = attrs.field(default=None, kw_only=True)

    @property
    def seconds(self) -> int | None:
        """The lifetime in seconds; ``None`` for the vendor's default."""
        if self.lifetime is None:
            return None
        return int(self.lifetime[:-1]) * _UNIT_SECONDS[self.lifetime[-1]]


MediaContent: TypeAlias = ImageContent | AudioContent | VideoContent | FileContent
ModelContent: TypeAlias = (
    TextualContent | MediaContent | ReasoningContent | RefusalContent | NativeContent
)
"""Contents that can come from a model."""

AnyContent: TypeAlias = ModelContent | CacheHint

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
    "cache": CacheHint,
}
"""Class of each kind of content."""

_KNOWN_CLASSES = tuple(CONTENT_CLASSES.values())


def choose_media(mime_type: str) -> type[MediaContent]:
    """Return the class for a media type: image, audio, video, or otherwise file."""
    kind = mime_type.partition("/")[0].lower()
    content_class = CONTENT_CLASSES.get(kind)
    return next((each for each in MEDIA_CLASSES if each is content_class), FileContent)


def ensure_contents(
    value: str | AnyContent | Iterable[str | AnyContent],
) -> tuple[AnyContent, ...]:
    """Return contents from a text, a content, or several of them.

    A text becomes a :class:`TextualContent`.

    Raises:
        RequestError: One of them is not a content.
    """
    if isinstance(value, str):
        return (TextualContent(value),)
    if value.__class__ is tuple:  # fast path: usually a tuple of contents already
        for item in value:
            if item.__class__ not in _KNOWN_CLASSES:
                break
        else:
            return cast("tuple[AnyContent, ...]", value)
    is_several = isinstance(value, Iterable) and not isinstance(value, Mapping)
    items: Iterable[str | AnyContent] = value if is_several else (value,)  # type: ignore[assignment]
    contents = [TextualContent(item) if isinstance(item, str) else item for item in items]
    return ensure_members(contents, _KNOWN_CLASSES, "content")
