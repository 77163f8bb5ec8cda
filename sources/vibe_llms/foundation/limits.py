"""Configurable limits, with their defaults."""

from __future__ import annotations

from vibe_llms.foundation.attrs_classes import frozen


@frozen(kw_only=True)
class Limits:
    """Limits on sizes, numbers and durations; a name ends with its unit.

    They are set in the ``[limits]`` table of the configuration. An error that reports a limit has
    its name.

    Attributes:
        attachment_bytes: One file that the command line sends.
        content_characters: One content of an answer.
        response_contents: Number of contents and invocations in one answer.
        reactor_queue_events: Events that wait for asynchronous reactors before the stream waits.
        waiting_requests: Number of requests that wait for one model in this process.
        request_bytes: The body of one request to a vendor.
        response_bytes: The body of one response, streamed or whole.
        event_bytes: One event of a stream, and the data held back until it is complete.
        arguments_characters: The arguments of one invocation.
        attempts: Number of attempts of one request, including the first.
        retry_seconds: One wait between two attempts.
        prompt_characters: One rendered prompt.
        prompt_seconds: Processor time for rendering one prompt.
        run_steps: Number of requests to the model in one run.
        run_invocations: Number of invocations that one run executes.
        run_seconds: Duration of one run; waiting for approvals does not count.
        run_tokens: Usage of all answers of one run, input and output.
        run_cents: Cost of all answers of one run, in US cents, as far as prices are known.
        run_faults: Number of invocations of one run that fail or are invalid.
        log_days: Days for which the log of an ended run keeps details.
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
