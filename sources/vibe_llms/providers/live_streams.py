"""Streams of calls whose input is still arriving.

A model that takes only complete input gets audio once it is complete, and a text sentence by
sentence; a loss says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.wav import begin_wav, read_wav_head, wrap_pcm
from vibe_llms.messages.call_results import join_losses, join_origins
from vibe_llms.messages.contents import AudioContent
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.sentences import SentenceSplitter
from vibe_llms.messages.speeches import LiveSpeechRequest, Speech
from vibe_llms.messages.transcripts import LiveTranscriptionRequest
from vibe_llms.providers.piece_streams import Piece, PieceStream, open_stream

_WAV: Final = b"RIFF"


def open_live(model: Any, request: Any, pieces: AsyncIterable[Piece]) -> PieceStream[Any]:
    """Return the stream of a call whose input is still arriving.

    Args:
        request: A live request, such as a ``LiveTranscriptionRequest``.
        pieces: The input; it is read as the vendor takes it.
    """
    if hasattr(model, "stream_live"):
        stream: PieceStream[Any] = model.stream_live(request, pieces)
        return stream
    return open_in_parts(model, request, pieces, "the model takes it only as a whole")


def open_in_parts(
    model: Any,
    request: LiveTranscriptionRequest | LiveSpeechRequest,
    pieces: AsyncIterable[Any],
    obstacle: str,
) -> PieceStream[Any]:
    """Return the stream of a live call at a model that takes only complete input.

    Args:
        obstacle: Reason why the model cannot take the input as it arrives.
    """
    if isinstance(request, LiveSpeechRequest):
        return PieceStream(_speak_sentences(model, request, pieces, obstacle))
    return PieceStream(_transcribe_whole(model, request, pieces, obstacle))


def _tell(request: Any, path: str, reason: str) -> Loss:
    """Return the loss. Raises TranslationLossError if the request is strict."""
    loss = Loss(kind=LossKind.COERCED, path=path, reason=reason)
    if request.strict:
        refuse_losses((loss,))
    return loss


async def _transcribe_whole(
    model: Any, request: LiveTranscriptionRequest, pieces: AsyncIterable[bytes], obstacle: str
) -> AsyncIterator[Any]:
    """Yield the pieces of the transcript, then the transcript."""
    losses = [_tell(request, "audio", f"{obstacle}: it was sent once it was complete")]
    if request.interim:
        reason = "texts of complete audio are final"
        losses.append(Loss(kind=LossKind.DROPPED, path="interim", reason=reason))
    data = await _collect(pieces, model.max_bytes)
    async with open_stream(model, request.complete(data)) as stream:
        async for piece in stream:
            yield piece
        result = await stream.result()
    yield attrs.evolve(result, losses=(*losses, *result.losses))


async def _collect(pieces: AsyncIterable[bytes], max_bytes: int) -> bytes:
    found, size = [], 0
    async for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > max_bytes:
            detail = f"The audio is longer than the {max_bytes:,} bytes that the model takes."
            raise RequestError(path="audio", detail=detail, remedy="Send it in parts.")
    return b"".join(found)


async def _speak_sentences(
    model: Any, request: LiveSpeechRequest, pieces: AsyncIterable[str], obstacle: str
) -> AsyncIterator[Any]:
    """Yield the audio of each sentence as soon as its text is complete, then the whole speech."""
    losses = [_tell(request, "text", f"{obstacle}: it was spoken sentence by sentence")]
    if request.file_format == "flac":
        losses.append(_tell(request, "file_format", "files of this format cannot be joined: wav"))
        request = attrs.evolve(request, file_format="wav")
    joiner = _AudioJoiner()
    texts: list[str] = []
    speeches: list[Speech] = []
    async for sentence in _split(pieces, texts):
        joiner.begin_file()
        async with open_stream(model, request.complete(sentence)) as stream:
            async for data in stream:
                for piece in joiner.add(data):
                    yield piece
            speeches.append(await stream.result())
    if not speeches:
        raise RequestError(path="text", detail="The text is empty or blank.", remedy="Give a text.")
    audio = AudioContent(
        data=joiner.join(), mime_type=speeches[0].audio.mime_type, transcript="".join(texts)
    )
    yield Speech(
        audio=audio, origin=join_origins(speeches), losses=(*losses, *join_losses(speeches))
    )


async def _split(pieces: AsyncIterable[str], texts: list[str]) -> AsyncIterator[str]:
    """Yield the sentences of a text as it arrives, and add its pieces to a list."""
    splitter = SentenceSplitter()
    async for piece in pieces:
        texts.append(piece)
        for sentence in splitter.feed(piece):
            yield sentence
    for sentence in splitter.finish():
        yield sentence


class _AudioJoiner:
    """Joins audio files of one format; of WAV files, only the samples and one header are kept."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._rate = 0
        self._head: bytes | None = b""
        self._left: int | None = None  # bytes of the samples of a WAV file that have not arrived

    def begin_file(self) -> None:
        """Expect the beginning of a file."""
        self._head, self._left = b"", None

    def add(self, data: bytes) -> list[bytes]:
        """Add audio, and return it as it can be played."""
        written_head = b""
        if self._head is not None:
            data = self._head = self._head + data
            if len(data) < len(_WAV):
                return []
            if data.startswith(_WAV):
                head = read_wav_head(data)
                if head is None:
                    return []
                if head.rate:
                    data, self._left = data[head.size :], head.data_size
                    if not self._rate:
                        self._rate, written_head = head.rate, begin_wav(head.rate)
            self._head = None
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._pieces.append(data)
        return [written_head + data] if written_head or data else []

    def join(self) -> bytes:
        """Return the whole file."""
        data = b"".join(self._pieces)
        return wrap_pcm(data, self._rate) if self._rate else data
