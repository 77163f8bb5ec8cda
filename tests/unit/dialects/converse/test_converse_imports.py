"""A client reads events and errors without importing the serving side, and without imports by
chance.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from vibe_llms.dialects import converse
from vibe_llms.events.stream import (
    ContentFinishedEvent,
    ContentStartedEvent,
    LossEvent,
    RetryEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, ProviderError
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.losses import Loss, LossKind

PROGRAM = """
import sys
from vibe_llms.dialects.converse import Decoder, produce_error
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.wire.sse import SseFramer

decoder = Decoder(provider="remote", request=Request(canisters=[UserCanister("Hi.")]))
for frame in SseFramer(Limits()).feed(sys.stdin.buffer.read()):
    try:
        print(*(event.type for event in decoder.decode(frame.data, frame.event)))
    except Exception as error:
        print(type(error).__name__)
print(*(name for name in sys.modules if ".serving" in name))
"""


@pytest.mark.slow
def test_a_stream_is_read_by_a_process_that_has_imported_nothing_else() -> None:
    """Events with contents, canisters and errors, and an error at the end."""
    error = ProviderError(provider="vendor", detail="Busy.")
    events: list[StreamEvent] = [
        LossEvent(loss=Loss(kind=LossKind.DROPPED, path="x", reason="so")),
        RetryEvent(attempt=2, after_seconds=1.0, error=error),
        ContentStartedEvent(index=0, kind="text"),
        ContentFinishedEvent(index=0, item=TextualContent("Yes.")),
    ]
    writer = converse.StreamWriter({})
    frames = b"".join(map(writer.write, events)) + writer.fail(error)

    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=frames,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(converse.__file__ or "").parents[3])},
        check=False,
    )

    lines = outcome.stdout.decode().splitlines()
    assert lines == ["", *(event.type for event in events), "ProviderError", ""], outcome.stderr


def test_an_error_is_read_by_such_a_process() -> None:
    """With its class, not only its text."""
    body = msgspec.json.encode(converse.nativize_error(ConverseError(detail="Why.")).body)
    program = (
        "import json, sys\n"
        "from vibe_llms.dialects.converse import produce_error\n"
        "error = produce_error(json.load(sys.stdin), provider='remote', status=500)\n"
        "print(type(error).__name__, error.detail)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program], input=body, capture_output=True, check=False
    )

    assert outcome.stdout.decode().strip() == "ConverseError Why.", outcome.stderr
