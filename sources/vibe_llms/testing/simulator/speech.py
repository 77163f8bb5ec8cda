"""Speech and transcription of OpenAI, Mistral, ElevenLabs and Deepgram.

Spoken audio contains its text, so that a transcription can find it again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from vibe_llms.testing.simulator.chat_completions import CHAT
from vibe_llms.testing.simulator.credentials import WRONG, check_model
from vibe_llms.testing.simulator.forms import UploadedFile
from vibe_llms.testing.simulator.prompts import count_tokens
from vibe_llms.testing.simulator.protocols import (
    SimulatedFrame,
    SimulatedMedia,
    SimulatedProtocol,
    SimulatedRequest,
)
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require

_MAGIC: Final = {
    "aac": b"\xff\xf1",
    "flac": b"fLaC",
    "mp3": b"ID3",
    "ogg": b"OggS",
    "opus": b"OggS",
    "pcm": b"",
    "wav": b"RIFF",
}
_TYPES: Final = {
    "aac": "audio/aac",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "pcm": "audio/pcm",
    "wav": "audio/wav",
}
_VOICES: Final = ("alloy", "ash", "coral", "nova", "sage", "verse", "marin", "cedar")


def hide(text: str, audio_format: str) -> bytes:
    """Return audio of a format, with the text as its data."""
    if audio_format == "wav":
        samples = text.encode()
        head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16,
                           1, 1, 24_000, 48_000, 2, 16)  # fmt: skip
        return head + struct.pack("<4sI", b"data", len(samples)) + samples
    return _MAGIC[audio_format] + text.encode()


def hear(data: bytes) -> str:
    """Return the text in audio of :func:`hide`."""
    if data.startswith(b"RIFF"):
        data = data[44:]
    else:
        found = next((each for each in _MAGIC.values() if each and data.startswith(each)), b"")
        data = data.removeprefix(found)
    return data.decode(errors="replace")


def speak_openai(request: SimulatedRequest) -> SimulatedMedia | Iterator[SimulatedFrame]:
    """Answer ``/audio/speech``."""
    body = request.body
    check_model(str(body.get("model")))
    text, voice = body.get("input"), body.get("voice")
    require(isinstance(text, str) and text, "input is required", param="input")
    require(len(str(text)) <= 4096, "input is too long", param="input")
    is_openai_model = str(body.get("model")).startswith(("tts", "gpt"))
    is_known = voice in _VOICES or isinstance(voice, Mapping)
    require(is_known or (voice and not is_openai_model), "Invalid voice.", param="voice")
    audio_format = body.get("response_format") or "mp3"
    require(audio_format in _TYPES, "Invalid response_format.", param="response_format")
    speed = body.get("speed", 1.0)
    require(isinstance(speed, int | float) and 0.25 <= speed <= 4, "Invalid speed.", param="speed")
    data = hide(str(text), str(audio_format))
    if body.get("stream_format") == "sse":
        return _stream_speech(data, str(text))
    return SimulatedMedia(data, _TYPES[str(audio_format)])


def _stream_speech(data: bytes, text: str) -> Iterator[SimulatedFrame]:
    import base64

    for piece in (data[:8], data[8:]):
        event = {"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()}
        yield SimulatedFrame(event, "speech.audio.delta")
    tokens = count_tokens(text)
    usage = {"input_tokens": tokens, "output_tokens": 20, "total_tokens": tokens + 20}
    yield SimulatedFrame({"type": "speech.audio.done", "usage": usage}, "speech.audio.done")


def _read_file(body: Mapping[str, Any]) -> bytes:
    file = body.get("file")
    require(isinstance(file, UploadedFile), "file is required", param="file")
    assert isinstance(file, UploadedFile)
    require(file.data, "Audio file is too short.", param="file")
    suffix = file.name.rpartition(".")[2]
    known = ("aac", "flac", "mp3", "mp4", "m4a", "ogg", "wav", "webm")
    require(suffix in known, "Invalid file format.", param="file")
    return file.data


def transcribe_openai(
    request: SimulatedRequest,
) -> Mapping[str, Any] | SimulatedMedia | Iterator[SimulatedFrame]:
    """Answer ``/audio/transcriptions`` and ``/audio/translations``."""
    body = request.body
    model = str(body.get("model"))
    check_model(model)
    text = hear(_read_file(body))
    if request.path.endswith("translations"):
        require("language" not in body, "Unknown parameter: 'language'.", param="language")
        text = f"In English: {text}"
    if "voxtral" in model:
        return _transcribe_mistral(body, model, text)
    response_format = body.get("response_format") or "json"
    if "transcribe" in model:
        require(response_format == "json", f"response_format {response_format!r} is not supported.")
    if body.get("stream") == "true" and "whisper" not in model:
        return _stream_text(text)
    if response_format == "text":
        return SimulatedMedia(f"{text}\n".encode(), "text/plain")
    if response_format == "json":
        return {"text": text, "usage": _count(text)}
    times = [{"id": 0, "start": 0.0, "end": 1.5, "text": text}]
    wanted = body.get("timestamp_granularities") or ["segment"]
    words = text.split() if "word" in wanted else []
    return {
        "task": "transcribe",
        "language": "english",
        "duration": 1.5,
        "text": text,
        "segments": times,
        "words": [
            {"word": word, "start": float(index), "end": index + 0.5}
            for index, word in enumerate(words)
        ],
        "usage": {"type": "duration", "seconds": 2},
    }


def _count(text: str) -> dict[str, Any]:
    tokens = count_tokens(text)
    details = {"text_tokens": 0, "audio_tokens": 30}
    return {
        "type": "tokens",
        "input_tokens": 30,
        "input_token_details": details,
        "output_tokens": tokens,
        "total_tokens": 30 + tokens,
    }


def _stream_text(text: str) -> Iterator[SimulatedFrame]:
    for word in text.split(" "):
        name = "transcript.text.delta"
        yield SimulatedFrame({"type": name, "delta": word + " "}, name)
    name = "transcript.text.done"
    yield SimulatedFrame({"type": name, "text": text, "usage": _count(text)}, name)
    yield SimulatedFrame("[DONE]")


def _transcribe_mistral(
    body: Mapping[str, Any], model: str, text: str
) -> Mapping[str, Any] | Iterator[SimulatedFrame]:
    for name in ("prompt", "response_format"):
        require(name not in body, f"Extra inputs are not permitted: {name}")
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 387,
             "prompt_audio_seconds": 2}  # fmt: skip
    segments = []
    if body.get("timestamp_granularities"):
        segments = [{"text": text, "start": 0.0, "end": 1.5, "type": "transcription_segment"}]
    whole = {"model": model, "text": text, "language": None, "segments": segments, "usage": usage}
    if body.get("stream") != "true":
        return whole
    delta, done = "transcription.text.delta", "transcription.done"
    return iter(
        [
            *(SimulatedFrame({"type": delta, "text": f"{word} "}, delta) for word in text.split()),
            SimulatedFrame({"type": done, **whole}, done),
        ]
    )


def speak_elevenlabs(request: SimulatedRequest) -> SimulatedMedia:
    """Answer ``/v1/text-to-speech``."""
    body, output_format = request.body, request.query.get("output_format", "mp3_44100_128")
    check_model(str(body.get("model_id")))
    require(body.get("text"), "text is required")
    kind = output_format.partition("_")[0]
    require(kind in ("mp3", "pcm", "opus"), "Invalid output_format.")
    return SimulatedMedia(hide(str(body["text"]), kind), _TYPES[kind])


def transcribe_elevenlabs(request: SimulatedRequest) -> Mapping[str, Any]:
    """Answer ``/v1/speech-to-text``."""
    body = request.body
    check_model(str(body.get("model_id")))
    text = hear(_read_file(body))
    words = text.split() if body.get("timestamps_granularity") == "word" else []
    spaces: list[dict[str, Any]] = [{"text": " ", "type": "spacing"}] if words else []
    return {
        "language_code": "eng",
        "language_probability": 0.98,
        "text": text,
        "words": [
            {"text": word, "start": float(index), "end": index + 0.5, "type": "word",
             "speaker_id": "speaker_0"}
            for index, word in enumerate(words)
        ] + spaces,
        "transcription_id": "t1",
        "audio_duration_secs": 1.5,
    }  # fmt: skip


def speak_deepgram(request: SimulatedRequest) -> SimulatedMedia:
    """Answer ``/v1/speak``."""
    query = request.query
    check_model(query.get("model", ""))
    require(request.body.get("text"), "text is required")
    encoding, container = query.get("encoding", "mp3"), query.get("container")
    forms = {"linear16": "wav" if container == "wav" else "pcm"}
    audio_format = forms.get(encoding, encoding)
    require(audio_format in _TYPES, "Unsupported encoding.")
    return SimulatedMedia(hide(str(request.body["text"]), audio_format), _TYPES[audio_format])


def transcribe_deepgram(request: SimulatedRequest) -> Mapping[str, Any]:
    """Answer ``/v1/listen``: the body is the audio, or names its URL."""
    query, data = request.query, request.data
    check_model(query.get("model", ""))
    require(data, "The request has no audio.")
    text = f"audio at {request.body['url']}" if request.body else hear(data)
    words = [
        {"word": word.lower(), "punctuated_word": word, "start": float(index), "end": index + 0.5}
        for index, word in enumerate(text.split())
    ]
    alternative = {"transcript": text, "confidence": 0.99, "words": words}
    channel: dict[str, Any] = {"alternatives": [alternative]}
    if query.get("detect_language") == "true":
        channel["detected_language"] = "en"
    results: dict[str, Any] = {"channels": [channel]}
    if query.get("utterances") == "true":
        results["utterances"] = [{"start": 0.0, "end": 1.5, "transcript": text, "speaker": 0}]
    return {"metadata": {"request_id": "d1", "duration": 1.5, "channels": 1}, "results": results}


def _check_elevenlabs(request: SimulatedRequest) -> None:
    _check_key(request.headers.get("xi-api-key", ""))


def _check_deepgram(request: SimulatedRequest) -> None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    _check_key(key if scheme.lower() == "token" else "")


def _check_key(key: str) -> None:
    if not key or any(word in key for word in WRONG):
        raise SimulatedRefusal(401, "authentication", "Invalid API key")


def _complain_elevenlabs(refusal: SimulatedRefusal, request: SimulatedRequest) -> dict[str, Any]:
    if refusal.kind == "invalid":
        return {"detail": [{"loc": ["body"], "msg": refusal.message, "type": "value_error"}]}
    return {"detail": {"status": refusal.kind, "message": refusal.message}}


def _complain_deepgram(refusal: SimulatedRefusal, request: SimulatedRequest) -> dict[str, Any]:
    code = refusal.kind.upper()
    return {"err_code": code, "err_msg": refusal.message, "request_id": request.identity}


ELEVENLABS: Final[SimulatedProtocol] = attrs.evolve(
    CHAT, write_error=_complain_elevenlabs, check_credentials=_check_elevenlabs
)
DEEPGRAM: Final[SimulatedProtocol] = attrs.evolve(
    CHAT, write_error=_complain_deepgram, check_credentials=_check_deepgram
)
