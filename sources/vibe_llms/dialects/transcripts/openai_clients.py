"""Requests for transcripts of clients with OpenAI's form, and the answers for them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from vibe_llms.dialects.calls import ClientFormat, Piece, PieceWriter
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.speeches.openai import write_event
from vibe_llms.dialects.transcripts import openai
from vibe_llms.dialects.transcripts.subtitles import list_parts, write_srt, write_vtt
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.forms import EncodedBody, FormFile
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.transcripts import Transcript, TranscriptionRequest, TranscriptPart

PROTOCOL: Final = openai.PROTOCOL
_FORMATS: Final = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
_TIMED: Final = ("srt", "vtt", "verbose_json", "diarized_json")
"""Formats with the times of segments."""
_READ: Final = frozenset(
    {
        *("file", "model", "language", "prompt", "temperature", "response_format", "stream"),
        "timestamp_granularities",
    }
)


def normalize(
    native: Mapping[str, Any], *, translates: bool = False
) -> Translation[TranscriptionRequest]:
    """Read a client's request. Raises RequestError."""
    ledger = Ledger(protocol=PROTOCOL)
    ledger.drop_unknown(native, _READ)
    request = TranscriptionRequest(
        audio=_read_audio(native.get("file")),
        language=_read_text(native, "language"),
        prompt=_read_text(native, "prompt"),
        translates=translates,
        timestamps=_read_timestamps(native),
        temperature=_read_number(native.get("temperature")),
    )
    return Translation(request, ledger.losses)


normalize_translation: Final = partial(normalize, translates=True)
"""Read a client's request for a translation into English. Raises RequestError."""


def _read_audio(value: Any) -> AudioContent:
    if not isinstance(value, FormFile):
        raise RequestError(path="file", detail="There is no audio.", remedy="Upload a file.")
    if not value.data:
        raise RequestError(path="file", detail="The file is empty.", remedy="Upload audio.")
    is_known = value.media_type.startswith(("audio/", "video/"))
    return AudioContent(data=value.data, mime_type=value.media_type if is_known else "")


def _read_text(native: Mapping[str, Any], name: str) -> str | None:
    value = native.get(name)
    if value is None or isinstance(value, str):
        return value or None
    raise RequestError(path=name, detail="Expected a text.", remedy="Send it once.")


def _read_number(value: Any) -> float | None:
    if value in (None, ""):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        detail = f"Expected a number, not {value!r}."
        raise RequestError(path="temperature", detail=detail, remedy="Send 0.2.") from None


def _read_format(native: Mapping[str, Any]) -> str:
    """Return the wanted format. Raises RequestError."""
    value = native.get("response_format") or "json"
    if value not in _FORMATS:
        raise RequestError(
            path="response_format",
            detail=f"Unknown format {value!r}.",
            remedy=f"Known: {', '.join(_FORMATS)}.",
        )
    return str(value)


def _read_timestamps(native: Mapping[str, Any]) -> Any:
    wanted = native.get("timestamp_granularities") or ()
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if "word" in wanted:
        return "word"
    return "segment" if wanted or _read_format(native) in _TIMED else None


def nativize_result(
    transcript: Transcript, native: Mapping[str, Any], model: str
) -> JsonObject | EncodedBody:
    """Write a transcript for a client, in the wanted format."""
    match _read_format(native):
        case "text":
            return EncodedBody(f"{transcript.text}\n".encode(), "text/plain; charset=utf-8")
        case "srt":
            return EncodedBody(write_srt(list_parts(transcript)), "application/x-subrip")
        case "vtt":
            return EncodedBody(write_vtt(list_parts(transcript)), "text/vtt; charset=utf-8")
        case "json":
            return {"text": transcript.text, **_write_usage(transcript)}
    body: dict[str, Any] = {
        "task": "transcribe",
        "language": transcript.language or "",
        "duration": transcript.seconds or 0.0,
        "text": transcript.text,
        "segments": [_write_segment(*each) for each in enumerate(list_parts(transcript))],
        **_write_usage(transcript),
    }
    if transcript.words:
        body["words"] = [
            {"word": word.text, "start": word.start, "end": word.end} for word in transcript.words
        ]
    return body


def _write_segment(index: int, part: TranscriptPart) -> JsonObject:
    speaker = {} if part.speaker is None else {"speaker": part.speaker}
    return {
        "id": index,
        "seek": 0,
        "start": part.start,
        "end": part.end,
        "text": part.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": 0.0,
        "compression_ratio": 0.0,
        "no_speech_prob": 0.0,
        **speaker,
    }


def _write_usage(transcript: Transcript) -> dict[str, Any]:
    usage = transcript.usage
    if usage is not None and usage.total_input_tokens is not None:
        taken, made = usage.total_input_tokens, usage.total_output_tokens or 0
        counts = {"input_tokens": taken, "output_tokens": made, "total_tokens": taken + made}
        return {"usage": {"type": "tokens", **counts}}
    if transcript.seconds is not None:
        return {"usage": {"type": "duration", "seconds": transcript.seconds}}
    return {}


def produce_writer(native: Mapping[str, Any]) -> PieceWriter | None:
    """Make the writer of a stream, if the client wants one."""
    return _EventWriter() if native.get("stream") in (True, "true") else None


class _EventWriter:
    """Writes the events of a stream."""

    content_type = "text/event-stream; charset=utf-8"

    def feed(self, piece: Piece) -> bytes:
        """Return the event of a part of the text."""
        text = piece if isinstance(piece, str) else piece.decode()
        return write_event({"type": "transcript.text.delta", "delta": text})

    def finish(self, result: Transcript) -> bytes:
        """Return the last event, with the whole text."""
        event = {"type": "transcript.text.done", "text": result.text, **_write_usage(result)}
        return write_event(event)


CLIENT_FORMAT: Final = ClientFormat[TranscriptionRequest, Transcript](
    protocol=PROTOCOL,
    path="/audio/transcriptions",
    read=normalize,
    write=nativize_result,
    produce_writer=produce_writer,
)

TRANSLATION_FORMAT: Final = ClientFormat[TranscriptionRequest, Transcript](
    protocol=PROTOCOL,
    path="/audio/translations",
    read=normalize_translation,
    write=nativize_result,
)
