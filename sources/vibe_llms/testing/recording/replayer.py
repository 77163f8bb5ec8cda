"""Replayer: a transport that answers only from recordings."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from vibe_llms.exceptions import Stage, TransportError
from vibe_llms.foundation.secrets import Secret
from vibe_llms.testing.recording.recorder import find_content_type, find_secrets
from vibe_llms.testing.recording.recordings import Recording, read_body, read_recordings
from vibe_llms.wire.exchanges import Exchange, WireRequest
from vibe_llms.wire.memory import MemoryAnswer, MemoryTransport
from vibe_llms.wire.scrubbing import Scrubber


class UnrecordedRequestError(LookupError):
    """No recording matches a request; the message names the most similar one and the differences.

    This is not a ConverseError, so that no provider handles the error and a test sees it.
    """


class Replayer:
    """Answers requests from recordings with the same method, path and body.

    Hosts, headers and queries are ignored. Several matching recordings are used in their order; the
    last recording is repeated. An answer that was not recorded to its end fails at the same place.

    Args:
        path: A file of recordings, as :class:`Recorder` writes it; or the recordings.
        chunk_bytes: Size of the delivered pieces of bodies, instead of the original ones.
        secrets: Secrets that the recorder has redacted in bodies.

    Raises:
        ValueError: The file does not contain recordings.
    """

    def __init__(
        self,
        path: Path | Iterable[Recording],
        *,
        chunk_bytes: int | None = None,
        secrets: Iterable[Secret | str] = (),
    ) -> None:
        self._name = str(path) if isinstance(path, Path) else "the recordings"
        self._recordings = read_recordings(path) if isinstance(path, Path) else list(path)
        self._chunk_bytes = chunk_bytes
        self._scrubber = Scrubber(secrets)
        self._queues: dict[tuple[str, str, str], deque[Recording]] = {}
        for recording in self._recordings:
            key = (recording.method, unquote(recording.path), self._digest(recording.request))
            self._queues.setdefault(key, deque()).append(recording)

    async def send(self, request: WireRequest) -> Exchange:
        """Answer from a recording; see :class:`Transport`.

        Raises:
            UnrecordedRequestError: No recording matches.
        """
        recording = self.match(request)

        async def answer(_: WireRequest) -> MemoryAnswer:
            headers = {**recording.headers, "content-type": recording.content_type}
            chunks = _deliver(recording, self._chunk_bytes)
            return MemoryAnswer(status=recording.status, headers=headers, chunks=chunks)

        return await MemoryTransport(answer).send(request)

    async def close(self) -> None:
        """Do nothing."""

    def match(self, request: WireRequest) -> Recording:
        """Return the recording that matches a request, and mark it as used.

        Raises:
            UnrecordedRequestError: No recording matches.
        """
        # Redact the request as well, because recordings contain no secrets.
        self._scrubber.add(*find_secrets(request))
        path = self._scrubber.scrub_text(unquote(urlsplit(request.url).path))
        body = read_body(self._scrubber.scrub(request.body), find_content_type(request))
        matching = self._queues.get((request.method, path, self._digest(body)))
        if not matching:
            raise UnrecordedRequestError(self._explain(request.method, path, body))
        return matching.popleft() if len(matching) > 1 else matching[0]

    def _digest(self, request: Any) -> str:
        """Return a key that is equal for equivalent requests, in any order of their fields."""
        text = json.dumps(request, sort_keys=True)
        return hashlib.sha256(self._scrubber.scrub(text.encode())).hexdigest()

    def _explain(self, method: str, path: str, body: Any) -> str:
        subject = f"No recording in {self._name} matches {method} {path}"
        if not self._recordings:
            return f"{subject}: there are none. Record the exchange first."
        same_path = [r for r in self._recordings if (r.method, r.path) == (method, path)]
        if not same_path:
            paths = sorted({f"{r.method} {r.path}" for r in self._recordings})
            near = difflib.get_close_matches(f"{method} {path}", paths, n=1, cutoff=0)
            return f"{subject}; the nearest path is {near[0]}. Record the exchange first."
        nearest = max(same_path, key=lambda recording: _measure_similarity(recording.request, body))
        differences = ", ".join(_survey_differences(nearest.request, body)) or "its type"
        return (
            f"{subject} with this body; the nearest is {nearest.id!r}, which differs in "
            f"{differences}. Record the exchange again."
        )


def _deliver(recording: Recording, chunk_bytes: int | None) -> Iterator[bytes]:
    chunks: Iterable[bytes] = recording.chunks
    if chunk_bytes is not None:
        body = recording.body
        chunks = (body[start : start + chunk_bytes] for start in range(0, len(body), chunk_bytes))
    yield from chunks
    if not recording.is_complete:
        raise TransportError(
            detail="The recording breaks off here.", address=recording.host, stage=Stage.FRAME
        )


def _measure_similarity(first: Any, second: Any) -> float:
    # Comparing long texts is slow, so only their beginnings are compared.
    texts = [json.dumps(value, sort_keys=True)[:20_000] for value in (first, second)]
    similarity = difflib.SequenceMatcher(a=texts[0], b=texts[1], autojunk=True).quick_ratio()
    return similarity - len(_survey_differences(first, second))


def _survey_differences(first: Any, second: Any) -> list[str]:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return [] if first == second else ["the whole body"]
    absent = object()
    names = [*first, *(name for name in second if name not in first)]
    return [name for name in names if first.get(name, absent) != second.get(name, absent)]
