"""Parts as contents, in requests and responses, and contents as parts.

A signature (``thoughtSignature``) stays on the content of its part. All other fields of a part
become the extras of its content, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from vibe_llms.dialects.decoding import is_blank
from vibe_llms.dialects.extras import keep_native, make_native, merge, without, write_json
from vibe_llms.dialects.generate_content.calling.media import read_media, write_media
from vibe_llms.dialects.generate_content.fields import open_object
from vibe_llms.dialects.generate_content.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import admit_medium, read_unsupported_file
from vibe_llms.dialects.server_results import read_pages
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    CacheHint,
    MediaContent,
    ModelContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.trusting import make_text
from vibe_llms.models.attributes import ModelAttributes

WrittenContent: TypeAlias = dict[str, Any]
"""A content that is being written: its role, its parts, and its native fields."""

SIGNATURE: Final = "thoughtSignature"
VENDOR_CALLS: Final = ("executableCode", "toolCall")
VENDOR_RESULTS: Final = ("codeExecutionResult", "toolResponse")
"""Fields of calls that the vendor executes itself, and of their results."""

_TOOL_NAMES: Final = {
    "google_maps": "maps",
    "google_search_image": "web_search",
    "google_search_web": "web_search",
    "url_context": "web_fetch",
}
"""Common names of the vendor's tools whose names differ."""

_DATA_FIELDS: Final = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    *VENDOR_CALLS,
    *VENDOR_RESULTS,
)


def open_part(original: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part in the protocol's own spelling, with one kind of data.

    The protocol allows only one; empty further kinds of some hosts are removed.
    """
    part = open_object(original)
    if len(part) == 1:
        return part
    data = [name for name in _DATA_FIELDS if name in part]
    if len(data) < 2:
        return part
    filled = [name for name in data if not is_blank(part[name])] or data[:1]
    return without(part, *(name for name in data if name not in filled))


def read_content(part: Mapping[str, Any]) -> ModelContent:
    """Return the content of any part that is neither a call nor a result."""
    return read_opened_part(open_part(part))


def read_opened_part(part: dict[str, Any]) -> ModelContent:
    """Return the content of a part that :func:`open_part` returned."""
    data = "text" if "text" in part else next((name for name in _DATA_FIELDS if name in part), None)
    if part.get("thought") and data in ("text", None):  # a thought may have only a signature
        return _read_thought(part)
    if data == "text" and isinstance(part["text"], str):
        if len(part) == 1 and part["text"]:
            return make_text(part["text"])
        extras = read_extras(part)
        # An empty text would not be sent, unless its native data require it.
        keep = keep_native if part["text"] else make_native
        return TextualContent(part["text"], native=keep(PROTOCOL, extras))
    if data in ("inlineData", "fileData"):
        media = read_media(part)
        if media is not None:
            return media
    kind: str = data or next(iter(part), "part")
    return NativeContent(kind=kind, native=make_native(PROTOCOL, part))


def read_extras(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a part of text other than the text; a false ``thought`` is ignored."""
    extras = without(part, "text")
    return extras if extras.get("thought", True) else without(extras, "thought")


def _read_thought(part: Mapping[str, Any]) -> ReasoningContent:
    native = make_native(PROTOCOL, without(part, "thought", "text", SIGNATURE))
    return ReasoningContent(
        text=part.get("text") or "", signature=part.get(SIGNATURE) or None, native=native
    )


def read_vendor_part(
    part: Mapping[str, Any], invocation_id: str, turn_id: str | None = None
) -> InvocationCanister | ResultCanister:
    """Return a call that the vendor executed itself, or its result, with the part as native data.

    Args:
        part: With one of the fields of ``VENDOR_CALLS`` or ``VENDOR_RESULTS``.
        invocation_id: Used if the part has none.
    """
    name = next(name for name in (*VENDOR_CALLS, *VENDOR_RESULTS) if name in part)
    block = open_object(part[name])
    native = make_native(PROTOCOL, part)
    identity = block.get("id") or invocation_id
    tool_type = str(block.get("toolType") or "code_execution").lower()
    kind = _TOOL_NAMES.get(tool_type, tool_type)
    if name in VENDOR_CALLS:
        arguments = block.get("args", {}) if name == "toolCall" else without(block, "id")
        return InvocationCanister(
            invocation_id=identity,
            name=kind,
            arguments=write_json(arguments),
            owner=Owner.VENDOR,
            turn_id=turn_id,
            native=native,
        )
    if name == "toolResponse":
        contents = _read_response(block.get("response"))
    else:
        contents = [TextualContent(block["output"])] if block.get("output") else []
    return ResultCanister(
        contents,
        invocation_id=identity,
        name=kind,
        is_error=block.get("outcome", "OUTCOME_OK") != "OUTCOME_OK",
        owner=Owner.VENDOR,
        turn_id=turn_id,
        native=native,
    )


def _read_response(response: Any) -> list[TextualContent]:
    match response:
        case None:
            return []
        case {"results": [*results]} if pages := read_pages(results):
            return pages
    return [TextualContent(write_json(response), mime_type="application/json")]


@frozen(kw_only=True)
class PartsWriter:
    """Writes contents as parts and records losses."""

    attributes: ModelAttributes | None
    quirks: Quirks
    ledger: Ledger

    def write(self, content: AnyContent, path: str, canister: AnyCanister) -> dict[str, Any] | None:
        """Return the part of a content; ``None``, with a loss, if there can be none.

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
                return merge({"text": content.text}, extras)
            case ReasoningContent():
                return self.write_thought(content, path, canister)
            case NativeContent():
                return self.write_native(content, path, canister)
            case CacheHint():
                self.ledger.omit_hint(path)
                return None
            case _:
                return self.write_media(content, path, canister)

    def write_media(
        self, content: MediaContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        """Write a medium; see :meth:`write`."""
        text = read_unsupported_file(content, self.attributes, path, self.ledger)
        if text is not None:
            return {"text": text}
        admitted = admit_medium(content, self.attributes, path, canister, self.ledger)
        if admitted is None:
            return None
        extras = self.ledger.read_sendable(content.native, path, canister)
        return write_media(admitted, extras, path, self.ledger, self.quirks)

    def write_native(
        self, content: NativeContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        """Return a block of this protocol unchanged."""
        if self.ledger.admits(content.native, canister):
            part: dict[str, Any] = msgspec.json.decode(content.native.data)
            return part
        self.ledger.withhold(path, f"only the vendor of {content.kind} can read it")
        return None

    def _write_text(
        self, content: TextualContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        self.ledger.omit(
            content, path, "mime_type", reason="this protocol has no field for the type of a text"
        )
        self.withhold_citations(content, path)
        extras = self.ledger.read_sendable(content.native, path, canister)
        admitted = self.ledger.admits(content.native, canister)
        if not content.text and not admitted:
            self.ledger.drop(path, "the vendor rejects an empty text")
            return None
        return merge({"text": content.text}, extras)

    def withhold_citations(self, content: TextualContent, path: str) -> None:
        """Record that the citations of a text are not sent."""
        for index, _ in enumerate(content.citations):
            self.ledger.withhold(
                f"{path}.citations[{index}]", "texts have no citations in this protocol"
            )

    def write_thought(
        self, content: ReasoningContent, path: str, canister: AnyCanister
    ) -> dict[str, Any] | None:
        """Write reasoning; see :meth:`write`."""
        if not self.ledger.admits(content.native, canister):
            self.ledger.withhold(path, "the vendor cannot use reasoning of another model")
            return None
        part = {"thought": True, **self.write_thought_text(content, path)}
        if content.signature:
            part[SIGNATURE] = content.signature
        return merge(part, self.ledger.read_sendable(content.native, path, canister))

    def write_thought_text(self, content: ReasoningContent, path: str) -> dict[str, Any]:
        """Return the single text of a thought, if there is any."""
        if content.summary and (content.text or len(content.summary) > 1):
            self.ledger.coerce(
                f"{path}.summary", "reasoning has one text and no summaries in this protocol"
            )
        text = content.text or "\n\n".join(content.summary)
        return {"text": text} if text else {}
