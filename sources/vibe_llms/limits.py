"""The named limits of what may wait or grow, with their defaults."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Limits:
    """What may wait or grow so far and no further; a name tells its unit.

    They are set in the ``[limits]`` table of the configuration, and the error of whoever
    reaches one names it.

    Attributes:
        attachment_bytes: One file that the command line is told to send.
        content_characters: One content of an answer, or the arguments of one invocation.
        response_contents: How many contents and invocations one answer may have.
        reactor_queue_events: What waits for asynchronous reactors before the stream waits.
        waiting_requests: How many requests may wait for one model in this process.
    """

    attachment_bytes: int = 20_000_000
    content_characters: int = 67_108_864
    response_contents: int = 10_000
    reactor_queue_events: int = 256
    waiting_requests: int = 64
