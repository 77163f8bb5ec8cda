"""Access log: one line of JSON for each request.

Bodies are logged only if the daemon is configured to keep them. Texts that clients choose are
bounded, and what looks like a key is hidden.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from vibe_llms.daemons.records import CallRecord
from vibe_llms.foundation.secrets import redact_name

_BATCH_SECONDS: Final = 0.1
"""Delay in which lines are gathered and written together."""

_BATCH_BYTES: Final = 65_536

_MOST_CHARACTERS: Final = 2_000
"""Longest text of a line, but for bodies."""


class AccessLog:
    """Listener that writes a line for each request.

    Args:
        write: Writes lines; by default, to standard error.
    """

    def __init__(self, write: Callable[[bytes], object] | None = None) -> None:
        self._write = write or _write_to_stderr
        self._lines: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, record: CallRecord) -> None:
        """Log a completed request; see :data:`.records.Listener`."""
        line = msgspec.json.encode(describe(record)) + b"\n"
        self._lines.append(line)
        self._size += len(line)
        if self._size > _BATCH_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_BATCH_SECONDS, self.flush)

    def flush(self) -> None:
        """Write pending lines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines, self._size = self._lines, [], 0
        if lines:
            self._write(b"".join(lines))


def describe(record: CallRecord) -> dict[str, Any]:
    """Return the fields of a log line, without unknown ones."""
    usage = record.usage
    fields = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request": record.request_id,
        "method": record.method,
        "path": _clean(record.path),
        "status": record.status,
        "seconds": round(record.seconds, 6),
        "first_seconds": None if record.first_seconds is None else round(record.first_seconds, 6),
        "client": record.client,
        "subject": _clean(record.subject),
        "face": record.face,
        "way": record.way,
        "model": _clean(record.model),
        "address": _clean(record.address),
        "streamed": record.streamed,
        "bytes": record.sent_bytes,
        "input_tokens": usage and usage.total_input_tokens,
        "output_tokens": usage and usage.total_output_tokens,
        "estimated": record.is_estimated,
        "cents": None if record.cents is None else str(record.cents),
        "attempts": [_clean(str(each)) for each in record.attempts],
        "cache": record.cache,
        "losses": [_clean(str(loss)) for loss in record.losses],
        "error": record.error,
        "detail": _clean(record.detail),
        "trace": _clean(record.trace),
        **_describe_contents(record),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [], False)}


def _clean(text: str) -> str:
    return redact_name(text, _MOST_CHARACTERS)


def _describe_contents(record: CallRecord) -> dict[str, str]:
    contents = record.contents
    if contents is None or not record.face:  # health and metrics are not conversations
        return {}
    key = contents.credential
    return {"asked": contents.request.show(key), "answered": contents.response.show(key)}


def _write_to_stderr(lines: bytes) -> None:
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()
