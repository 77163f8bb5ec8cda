"""The named limits of what may wait or grow, with their defaults."""

from __future__ import annotations

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Limits:
    """What may wait or grow so far and no further; a name tells its unit.

    They are set in the ``[limits]`` table of the configuration, and the error of whoever
    reaches one names it.

    Attributes:
        attachment_bytes: One file that the command line is told to send.
        content_characters: One content of an answer.
        response_contents: How many contents and invocations one answer may have.
        reactor_queue_events: What waits for asynchronous reactors before the stream waits.
        waiting_requests: How many requests may wait for one model in this process.
        request_bytes: The body of one request to a vendor.
        response_bytes: The body of one response, streamed or whole.
        event_bytes: One event of a stream, and what is held back until it is complete.
        arguments_characters: The arguments of one invocation.
        attempts: How often one request may be sent, the first time included.
        retry_seconds: How long one wait between two attempts may be.
        prompt_characters: What one prompt may come to when it is rendered.
        prompt_seconds: How much time of the processor rendering one prompt may take.
        run_steps: How often the model may be asked in one run.
        run_invocations: How many invocations one run may execute.
        run_seconds: How long one run may work; waiting for approvals does not count.
        run_tokens: What all answers of one run may use, input and output.
        run_cents: What all answers of one run may cost, in US cents, as far as prices are known.
        run_faults: How many invocations of one run may fail or make no sense.
        log_days: How long the log of a run that has ended keeps what does not explain it.
    """

    attachment_bytes: int = 20_000_000
    content_characters: int = 67_108_864
    response_contents: int = 10_000
    reactor_queue_events: int = 256
    waiting_requests: int = 64
    request_bytes: int = 67_108_864
    response_bytes: int = 268_435_456
    event_bytes: int = 33_554_432
    arguments_characters: int = 4_194_304
    attempts: int = 3
    retry_seconds: int = 60
    prompt_characters: int = 4_194_304
    prompt_seconds: int = 5
    run_steps: int = 50
    run_invocations: int = 200
    run_seconds: int = 3_600
    run_tokens: int = 5_000_000
    run_cents: int = 1_000
    run_faults: int = 50
    log_days: int = 30
