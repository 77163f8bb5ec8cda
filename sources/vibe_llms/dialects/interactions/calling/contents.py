"""Contents of steps: texts with annotations, and media."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.dialects.extras import collect_extras, keep_native, make_native, merge
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.tables import MEDIA_KINDS, RESOLUTIONS
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import admit_medium, read_unsupported_file
from vibe_llms.dialects.payloads import decode_base64, encode_payload
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    CacheHint,
    Citation,
    FileContent,
    ImageContent,
    MediaContent,
    ModelContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.models.attributes import ModelAttributes

CONTENT: Final = "$content"
"""Note on a native content that it is a content within a step, and not a step itself."""

_CLASSES: Final[Mapping[str, type[MediaContent]]] = {
    "image": ImageContent,
    "audio": AudioContent,
    "video": VideoContent,
    "document": FileContent,
}
_DEFAULT_TYPES: Final = {
    "image": "image/*",
    "audio": "audio/*",
    "video": "video/*",
    "document": "application/octet-stream",
}
_FILES_HOST: Final = "generativelanguage.googleapis.com/"
"""Host of uploaded files, whose addresses work only for their owner."""

_MEDIA_FIELDS: Final = frozenset({"type", "data", "uri", "mime_type"})
_CITATION_FIELDS: Final = frozenset({"type", "start_index", "end_index", "title", "url"})
_TEXT_FIELDS: Final = frozenset({"type", "text", "annotations"})


def read_content(content: Mapping[str, Any]) -> ModelContent:
    """Return the content of a step; one of an unknown type is kept as native data."""
    kind = content.get("type")
    if kind == "text" and isinstance(content.get("text"), str):
        return read_text_content(content)
    if kind in _CLASSES:
        medium = _read_medium(str(kind), content)
        if medium is not None:
            return medium
    return NativeContent(
        kind=str(kind or "content"), native=make_native(PROTOCOL, {CONTENT: True, **content})
    )


def read_text_content(content: Mapping[str, Any]) -> TextualContent:
    """Return a text with its citations."""
    text = content["text"]
    citations = [read_citation(each, text) for each in content.get("annotations") or ()]
    extras = collect_extras(content, _TEXT_FIELDS)
    # An empty text would not be sent, unless its native data require it.
    keep = keep_native if text else make_native
    return TextualContent(text, citations=citations, native=keep(PROTOCOL, extras))


def read_citation(annotation: Mapping[str, Any], text: str) -> Citation:
    """Return the citation of an annotation, whose positions are in bytes of the text."""
    data = text.encode("utf-8", "surrogatepass")
    start, end = (
        _count_characters(data, annotation.get(name)) for name in ("start_index", "end_index")
    )
    if end is None or (start is not None and start > end):
        start = end = None
    elif start is None:
        start = 0
    url, title = annotation.get("url"), annotation.get("title")
    is_plain = annotation.get("type") == "url_citation" and annotation.keys() <= _CITATION_FIELDS
    return Citation(
        start=start,
        end=end,
        title=title if isinstance(title, str) else annotation.get("file_name"),
        url=url if isinstance(url, str) and url else None,
        native=None if is_plain else make_native(PROTOCOL, annotation),
    )


def _count_characters(data: bytes, index: object) -> int | None:
    """Return the number of characters before an index in bytes; ``None`` without a valid one."""
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        return None
    return len(data[:index].decode("utf-8", "ignore"))


def _read_medium(kind: str, content: Mapping[str, Any]) -> MediaContent | None:
    data, uri = content.get("data"), content.get("uri")
    mime_type = content.get("mime_type") or _DEFAULT_TYPES[kind]
    fields: dict[str, Any] = {}
    if isinstance(data, str) and data:
        fields["data"] = decode_base64(data)
        if fields["data"] is None:
            return None
    elif not isinstance(uri, str) or "/" not in uri:
        return None
    elif uri.startswith(("http://", "https://")) and _FILES_HOST not in uri:
        fields["url"] = uri
    else:
        fields["file_id"] = uri
    if not isinstance(mime_type, str):
        return None
    extras = collect_extras(content, _MEDIA_FIELDS)
    if kind == "image" and extras.get("resolution") in RESOLUTIONS:
        fields["detail"] = RESOLUTIONS[extras.pop("resolution")]
    if kind == "video":
        fields["name"] = extras.pop("name", None)
    # Uploaded files keep even empty native data: these show which vendor has the file.
    keep = make_native if "file_id" in fields else keep_native
    return _CLASSES[kind](mime_type=mime_type, native=keep(PROTOCOL, extras), **fields)


@frozen(kw_only=True)
class StepContentsWriter:
    """Writes contents, and records losses.

    Attributes:
        attributes: The model's attributes; ``None`` to accept everything.
        cites: Whether texts are sent with their citations, as in answers.
    """

    attributes: ModelAttributes | None
    ledger: Ledger
    cites: bool = False

    def write(self, content: AnyContent, path: str, canister: AnyCanister) -> dict[str, Any] | None:
        """Return a content of a step; ``None``, with a loss, if there can be none.

        Raises:
            CapabilityError: The model is known not to support it.
            RequestError: The bytes of a medium are missing.
        """
        match content:
            case TextualContent():
                return self._write_text(content, path, canister)
            case RefusalContent():
                self.ledger.coerce(path, "a refusal is sent as text")
                extras = self.ledger.read_sendable(content.native, path, canister)
                if not content.text and not extras:
                    self.ledger.drop(path, "the vendor rejects an empty text")
                    return None
                return merge({"type": "text", "text": content.text}, extras)
            case ReasoningContent():
                self.ledger.drop(path, "a thought cannot be in this message")
                return None
            case NativeContent():
                return self.write_native(content, path, canister)
            case CacheHint():
                self.ledger.omit_hint(path)
                return None
            case _:
                return self._write_medium(content, path, canister)

    def write_native(
        self, content: NativeContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        """Return a block of this protocol unchanged."""
        if self.ledger.admits(content.native, canister):
            return merge({}, msgspec.json.decode(content.native.data))
        self.ledger.withhold(path, f"only the vendor of {content.kind} can read it")
        return None

    def omit_type(self, content: TextualContent, path: str) -> None:
        """Record the loss of a text's type, unless it is plain text."""
        self.ledger.omit(
            content, path, "mime_type", reason="this protocol has no field for the type of a text"
        )

    def _write_text(
        self, content: TextualContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        self.omit_type(content, path)
        extras = self.ledger.read_sendable(content.native, path, canister)
        if not content.text and not self.ledger.admits(content.native, canister):
            self.ledger.drop(path, "the vendor rejects an empty text")
            return None
        written: dict[str, Any] = {"type": "text", "text": content.text}
        annotations = self._write_annotations(content, path, canister)
        if annotations:
            written["annotations"] = annotations
        return merge(written, extras)

    def _write_annotations(
        self, content: TextualContent, path: str, canister: AnyCanister
    ) -> list[dict[str, Any]]:
        is_answer = canister.role == "assistant"
        annotations = []
        for index, citation in enumerate(content.citations):
            place = f"{path}.citations[{index}]"
            if not is_answer:
                self.ledger.withhold(place, "only answers have citations in this protocol")
            elif self.ledger.admits(citation.native, canister):
                annotations.append(msgspec.json.decode(citation.native.data))
            else:
                annotations.append(self._write_annotation(citation, content.text, place))
        return annotations

    def _write_annotation(self, citation: Citation, text: str, path: str) -> dict[str, Any]:
        self.ledger.omit(
            citation, path, "cited_text", "file_id", reason="an annotation has no such field"
        )
        if citation.native is not None:
            self.ledger.coerce(f"{path}.native", "only the page and the span are sent")
        start, end = citation.start, citation.end
        if end is None:
            self.ledger.omit(citation, path, "start", reason="a span needs an end in this protocol")
            start = None
        elif start is None:
            start = 0  # as the vendor reads a missing one
        fields = {
            "type": "url_citation",
            "start_index": _count_bytes(text, start),
            "end_index": _count_bytes(text, end),
            "title": citation.title,
            "url": citation.url,
        }
        return {name: value for name, value in fields.items() if value not in (None, "")}

    def _write_medium(
        self, content: MediaContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        text = read_unsupported_file(content, self.attributes, path, self.ledger)
        if text is not None:
            return {"type": "text", "text": text}
        admitted = admit_medium(content, self.attributes, path, canister, self.ledger)
        if admitted is None:
            return None
        extras = self.ledger.read_sendable(content.native, path, canister)
        written = self._write_source(admitted, path)
        if written is None:
            return None
        self._report_unsupported_fields(content, path)
        kind = next(name for name, ours in MEDIA_KINDS.items() if ours == content.type)
        fields: dict[str, Any] = {"type": kind, **written}
        if isinstance(content, ImageContent):
            fields |= self._write_resolution(content, path)
        if isinstance(content, VideoContent) and content.name:
            fields["name"] = content.name
        return merge(fields, extras)

    def _write_source(self, content: MediaContent, path: str) -> dict[str, Any] | None:
        kind = {"mime_type": content.mime_type} if _is_exact(content.mime_type) else {}
        if content.data is not None:
            return {**kind, "data": encode_payload(content, path)}
        is_stored_here = content.file_id is not None and "/" in content.file_id
        address = content.file_id if is_stored_here else content.url
        if address is not None:
            return {**kind, "uri": address}
        if content.file_id is None:
            raise RequestError(
                path=path,
                detail=f"The {content.type} content at {path} has no data.",
                remedy="Pass its data, or load them from the store by the content_id.",
            )
        self.ledger.withhold(path, f"the file {content.file_id} is stored by another vendor")
        return None

    def _write_resolution(self, content: ImageContent, path: str) -> dict[str, Any]:
        if content.detail in (None, "auto"):
            return {}
        for resolution, detail in RESOLUTIONS.items():
            if detail == content.detail:
                return {"resolution": resolution}
        self.ledger.drop(f"{path}.detail", f"{content.detail!r} has no counterpart")
        return {}

    def _report_unsupported_fields(self, content: MediaContent, path: str) -> None:
        """Record the fields of a medium that this protocol does not have."""
        names = ["transcript", "title", "context"]
        names += [] if isinstance(content, VideoContent) else ["name"]
        for name in names:
            if getattr(content, name, None):
                self.ledger.drop(f"{path}.{name}", f"{content.type} content has no such field")


def _is_exact(mime_type: str) -> bool:
    return not mime_type.endswith("/*") and mime_type != "application/octet-stream"


def _count_bytes(text: str, index: int | None) -> int | None:
    return None if index is None else len(text[:index].encode("utf-8", "surrogatepass"))


def join_texts(contents: Sequence[Any]) -> str:
    """Return the texts of a list of contents as one."""
    texts = [each.get("text") for each in contents if isinstance(each, Mapping)]
    return "".join(text for text in texts if isinstance(text, str))


def read_summary(step: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text of a thought's summary, and the extras of the thought.

    A summary with other contents than text is kept as a whole, so that it is sent back unchanged.
    """
    summary = step.get("summary") or []
    extras = collect_extras(step, frozenset({"type", "summary", "signature"}))
    if any(not isinstance(each, Mapping) or each.get("type") != "text" for each in summary):
        extras["summary"] = summary
    return join_texts(summary), extras
