"""Items as lines of JSON, in journals and outputs."""

from __future__ import annotations

import hashlib
from array import array
from typing import Any

import msgspec

from vibe_llms.batches.items import BatchItem, read_buckets
from vibe_llms.exceptions import CodecError, ConverseError, RequestError, StoreError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import Origin, StopReason, Usage
from vibe_llms.messages.trusting import trusted

DIGEST_CHARACTERS = 16

_NULL = msgspec.Raw(b"null")


# Not tracked by Python's garbage collector: each line has one, and none is part of a cycle.
class LineHead(msgspec.Struct, gc=False):
    """Head of a line: the index of the item in the batch, and the item's error.

    Attributes:
        batch: Digest of the settings under which it was processed.
        input: Digest of the input.
        index: Place of the input, from 0.
        id: Name of the item, if it has one.
        error: Error of a failure, as JSON; null for a result.
    """

    batch: str
    input: str
    index: int
    id: str | None = None
    error: msgspec.Raw = _NULL

    @property
    def has_failed(self) -> bool:
        """True if the item has an error instead of a result."""
        return self.error != _NULL

    @property
    def key(self) -> str | int:
        """Key of the input: its name, or its place if it has none."""
        return self.index if self.id is None else self.id


class LineCounts(msgspec.Struct, omit_defaults=True, gc=False):
    """Token counts by bucket; the vendor did not report a count that is missing or null."""

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_long_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    output_audio_tokens: int | None = None


class JournalLine(msgspec.Struct, gc=False, kw_only=True):
    """Line of one item. Missing values are null, except that fields that are unset are left out."""

    batch: str | msgspec.UnsetType = msgspec.UNSET
    input: str | msgspec.UnsetType = msgspec.UNSET
    index: int
    id: str | None
    text: str | None
    value: Any = msgspec.UNSET
    usage: LineCounts | None
    origin: dict[str, str | None] | None
    losses: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    seconds: float
    tier: str | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw = _NULL


def _plainify(value: Any) -> Any:
    """Return a value unknown to msgspec as plain data; pydantic values dump themselves."""
    if isinstance(value, array):
        return value.tolist()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"Unsupported type {type(value).__name__}")


class _Source(msgspec.Struct, gc=False):
    provider: str | None = None
    model: str | None = None
    response_id: str | None = None
    stop_reason: StopReason | None = None


class _ReadLine(JournalLine, gc=False, kw_only=True):
    """A line to read: unlike in :class:`JournalLine`, the fields of the origin are validated."""

    origin: _Source | None  # type: ignore[assignment]


_encode = msgspec.json.Encoder(enc_hook=_plainify).encode
_decode_line = msgspec.json.Decoder(_ReadLine).decode
_decode_head = msgspec.json.Decoder(LineHead).decode
_make_item = trusted(BatchItem)
_make_origin = trusted(Origin)
_make_usage = trusted(Usage)


_STRING_PREFIX_HASH = hashlib.sha256(b'"')
"""Hash of the quotation mark that begins a JSON string; each text is added to a copy of it."""


def digest(value: Any) -> str:
    """Return the digest of a JSON value, independent of the order of its keys.

    Raises:
        RequestError: JSON cannot represent it.
    """
    if value.__class__ is str:
        text_hash = _STRING_PREFIX_HASH.copy()
        text_hash.update(value.encode("utf-8", "surrogatepass"))
        return text_hash.hexdigest()[:DIGEST_CHARACTERS]
    try:
        data = msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise RequestError(
            path="inputs",
            detail=f"Cannot write an input as JSON: {error}.",
            remedy="A journal compares inputs as JSON: pass JSON values, or no journal.",
        ) from error
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS]


def encode_item(item: BatchItem[Any], *, batch: str = "", input_digest: str = "") -> bytes:
    """Encode an item as a line, with its line break.

    Args:
        batch: Digest of the batch's settings; empty in outputs, which have no digests.
        input_digest: Digest of the input; empty in outputs.

    Raises:
        CodecError: The function's return value cannot be written as JSON.
    """
    origin = item.origin
    line = JournalLine(
        batch=batch or msgspec.UNSET,
        input=input_digest or msgspec.UNSET,
        index=item.index,
        id=item.id,
        text=item.text,
        # Without a parser both are the same, and are written once.
        value=msgspec.UNSET if item.value is item.text else item.value,
        usage=None if origin is None or origin.usage is None else _write_counts(origin.usage),
        origin=None if origin is None else _write_origin(origin),
        losses=item.losses or msgspec.UNSET,
        seconds=round(item.seconds, 3),
        tier=item.tier or msgspec.UNSET,
    )
    if item.error is not None:
        from vibe_llms.messages.codec.errors import encode_error

        line.error = msgspec.Raw(encode_error(item.error))
    try:
        return _encode(line) + b"\n"
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise CodecError(
            path="$.value",
            detail=f"Cannot write the result of item {item.index} as JSON: {error}",
            remedy="Return a JSON value, or use no journal.",
        ) from error


def encode(item: BatchItem[Any], batch: str, input_digest: str) -> tuple[BatchItem[Any], bytes]:
    """Return an item and its line; an item that cannot be encoded becomes a failure."""
    try:
        return item, encode_item(item, batch=batch, input_digest=input_digest)
    except ConverseError as error:
        # Keep the item as a failure: without a line it would be paid for again in every run.
        item = BatchItem(index=item.index, id=item.id, error=error, origin=item.origin)
        return item, encode_item(item, batch=batch, input_digest=input_digest)


def decode_head(line: bytes) -> LineHead:
    """Read the head of a line. Raises StoreError."""
    try:
        return _decode_head(line)
    except UNREADABLE as error:
        raise StoreError(detail=f"The line is not of a batch: {error}.") from error


def decode_item(data: bytes, *, is_stored: bool = True) -> BatchItem[Any]:
    """Read a line as an item.

    Args:
        is_stored: Whether the line is from an earlier run.

    Raises:
        StoreError: The line is not an item.
    """
    failure = None
    try:
        line = _decode_line(data)
        if line.error != _NULL:
            from vibe_llms.messages.codec.errors import decode_error

            failure = decode_error(bytes(line.error))
        origin = _read_origin(line)
    except (*UNREADABLE, ValueError) as error:
        raise StoreError(detail=f"The line is not of a batch: {error}.") from error
    value = line.text if line.value is msgspec.UNSET else line.value
    return _make_item(
        index=line.index,
        id=line.id,
        value=value,
        error=failure,
        text=line.text,
        origin=origin,
        losses=() if isinstance(line.losses, msgspec.UnsetType) else line.losses,
        seconds=line.seconds,
        is_stored=is_stored,
        tier="" if isinstance(line.tier, msgspec.UnsetType) else line.tier,
    )


def _write_counts(usage: Usage) -> LineCounts:
    return LineCounts(*read_buckets(usage))


def _write_origin(origin: Origin) -> dict[str, str | None]:
    return {
        "provider": origin.provider,
        "model": origin.model,
        "response_id": origin.response_id,
        "stop_reason": origin.stop_reason,  # written by its value
    }


def _read_origin(line: _ReadLine) -> Origin | None:
    source, counts = line.origin, line.usage
    if source is None:
        return None
    usage = None
    if counts is not None:
        usage = _make_usage(
            input_tokens=counts.input_tokens,
            cache_read_tokens=counts.cache_read_tokens,
            cache_write_tokens=counts.cache_write_tokens,
            cache_write_long_tokens=counts.cache_write_long_tokens,
            input_audio_tokens=counts.input_audio_tokens,
            output_tokens=counts.output_tokens,
            reasoning_tokens=counts.reasoning_tokens,
            output_audio_tokens=counts.output_audio_tokens,
        )
    return _make_origin(
        provider=source.provider or "",
        model=source.model or "",
        response_id=source.response_id,
        stop_reason=source.stop_reason or StopReason.UNKNOWN,
        usage=usage,
    )
