"""What is kept of answers stays within its bounds, and is what was kept last."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vibe_llms.daemons.gateway.answer_cache import AnswerRecorder
from vibe_llms.daemons.gateway.faces.responses import FACE


@pytest.mark.parametrize(
    ("status", "body", "is_kept"),
    [
        (200, b'{"status": "completed"}', True),
        (200, b'{"status": "failed"}', False),
        (200, b'{"status":"in_progress"}', False),
        (500, b'{"status": "completed"}', False),
        (200, b"x" * 101, False),
    ],
)
def test_what_is_no_answer_is_not_kept(status: int, body: bytes, is_kept: bool) -> None:
    recording = AnswerRecorder(FACE, limit=100)
    recording.begin(status, {"content-type": "application/json", "x-request-id": "a"})
    recording.feed(body)
    kept = recording.finish(is_streamed=False)
    assert (kept is not None) == is_kept
    if kept is not None:
        assert kept.headers == {"content-type": "application/json"}


@pytest.mark.slow
def test_nobody_loads_it_without_a_file() -> None:
    code = (
        "import sys, vibe_llms.daemons.gateway.making\n"
        "lazy = ('routing.router', 'routing.fallback', 'gateway.caching', 'answer_cache',"
        " 'gateway.completing', 'chat_completions.serving.streams')\n"
        "print([name for name in sys.modules if name.endswith(lazy)])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert printed.stdout.strip() == b"[]"
