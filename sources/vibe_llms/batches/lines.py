"""Items as lines of JSON, in journals and outputs."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from vibe_llms.batches.items import BatchItem, read_buckets
from vibe_llms.exceptions import CodecError, ConverseError, RequestError, StoreError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.canisters import Origin, StopReason, Usage
from vibe_llms.messages.trusting import trusted

DIGEST_CHARACTERS = 16

_NOTHING = msgspec.Raw(b"null")


# Not followed by Python's collector: there is one for each line, and none is part of a cycle.
class LineHead(msgspec.Struct, gc=False):
    """What a line says of its place in the batch.

    Attributes:
        batch: The digest of the settings under which it was asked.
        input: The digest of the input.
        index: The place of the input, from 0.
        id: Its name, where it has one.
        error: Why it failed, as JSON; null where it did not.
    """

    batch: str
    input: str
    index: int
    id: str | None = None
    error: msgspec.Raw = _NOTHING

    @property
    def has_failed(self) -> bool:
        """Whether there is no result, for an error."""
        return self.error != _NOTHING

    @property
    def key(self) -> str | int:
        """What the input is known by: its name, or else its place."""
        return self.index if self.id is None else self.id


class LineCounts(msgspec.Struct, omit_defaults=True, gc=False):
    """The buckets of tokens, as everywhere; what is not there, or null, the vendor did not say."""

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_long_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    output_audio_tokens: int | None = None


class JournalLine(msgspec.Struct, gc=False, kw_only=True):
    """One item; what an item does not have is null, so that every line has the same fields."""

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
    error: msgspec.Raw = _NOTHING


def _plainify(value: Any) -> Any:
    """Return what msgspec does not know as plain data: a value of pydantic can say it itself."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"Unsupported type {type(value).__name__}")


class _Source(msgspec.Struct, gc=False):
    provider: str | None = None
    model: str | None = None
    response_id: str | None = None
    stop_reason: StopReason | None = None


class _WrittenLine(JournalLine, gc=False, kw_only=True):
    """The same as it is read, with all of it checked."""

    origin: _Source | None  # type: ignore[assignment]


_encode = msgspec.json.Encoder(enc_hook=_plainify).encode
_decode_line = msgspec.json.Decoder(_WrittenLine).decode
_decode_head = msgspec.json.Decoder(LineHead).decode
_make_item = trusted(BatchItem)
_make_origin = trusted(Origin)
_make_usage = trusted(Usage)


_TEXT = hashlib.sha256(b'"')
"""Of a text that is about to come: a quotation mark alone, as no other value begins."""


def digest(value: Any) -> str:
    """Name a value that JSON can say, whatever the order of its keys.

    Raises:
        RequestError: JSON cannot say it.
    """
    if value.__class__ is str:
        known = _TEXT.copy()
        known.update(value.encode("utf-8", "surrogatepass"))
        return known.hexdigest()[:DIGEST_CHARACTERS]
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
    """Write an item as a line, its end included; without digests for readers.

    Raises:
        CodecError: What the function returned cannot be written as JSON.
    """
    origin = item.origin
    line = JournalLine(
        batch=batch or msgspec.UNSET,
        input=input_digest or msgspec.UNSET,
        index=item.index,
        id=item.id,
        text=item.text,
        # Without a parser both are the same, and written once.
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
    """Return an item as it can be written, and its line."""
    try:
        return item, encode_item(item, batch=batch, input_digest=input_digest)
    except ConverseError as error:
        # Kept as a failure: without a line it would be paid for again in every run.
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
        is_stored: Whether it was done before.

    Raises:
        StoreError: It is none.
    """
    failure = None
    try:
        line = _decode_line(data)
        if line.error != _NOTHING:
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


def _read_origin(line: _WrittenLine) -> Origin | None:
    given, used = line.origin, line.usage
    if given is None:
        return None
    usage = None
    if used is not None:
        usage = _make_usage(
            input_tokens=used.input_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_tokens=used.cache_write_tokens,
            cache_write_long_tokens=used.cache_write_long_tokens,
            input_audio_tokens=used.input_audio_tokens,
            output_tokens=used.output_tokens,
            reasoning_tokens=used.reasoning_tokens,
            output_audio_tokens=used.output_audio_tokens,
        )
    return _make_origin(
        provider=given.provider or "",
        model=given.model or "",
        response_id=given.response_id,
        stop_reason=given.stop_reason or StopReason.UNKNOWN,
        usage=usage,
    )
