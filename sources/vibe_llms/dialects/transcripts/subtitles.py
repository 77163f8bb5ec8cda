"""Subtitles: transcripts as SubRip and WebVTT."""

from __future__ import annotations

from collections.abc import Sequence

from vibe_llms.messages.transcripts import Transcript, TranscriptPart


def list_parts(transcript: Transcript) -> Sequence[TranscriptPart]:
    """Return the segments; of a transcript without any, the whole text."""
    if transcript.segments or not transcript.text:
        return transcript.segments
    return [TranscriptPart(start=0.0, end=transcript.seconds or 0.0, text=transcript.text)]


def write_srt(parts: Sequence[TranscriptPart]) -> bytes:
    """Return subtitles in the format SubRip."""
    blocks = [
        f"{number}\n{_write_time(part.start, ',')} --> {_write_time(part.end, ',')}\n"
        f"{part.text.strip()}\n"
        for number, part in enumerate(parts, 1)
    ]
    return "\n".join(blocks).encode()


def write_vtt(parts: Sequence[TranscriptPart]) -> bytes:
    """Return subtitles in the format WebVTT."""
    blocks = [
        f"{_write_time(part.start, '.')} --> {_write_time(part.end, '.')}\n{part.text.strip()}\n"
        for part in parts
    ]
    return "\n".join(["WEBVTT\n", *blocks]).encode()


def _write_time(seconds: float, point: str) -> str:
    total_seconds, milliseconds = divmod(round(seconds * 1000), 1000)
    total_minutes, seconds_part = divmod(total_seconds, 60)
    hours, minutes = divmod(total_minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds_part:02}{point}{milliseconds:03}"
