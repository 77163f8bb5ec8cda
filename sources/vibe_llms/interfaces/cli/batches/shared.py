"""Batches on a runner: submission, progress, and writing the results."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from collections import deque
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.foundation.files import open_reader
from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.batches.channels import STANDARD, produce_channel
from vibe_llms.interfaces.cli.batches.display import (
    BatchNotes,
    describe_usage,
    list_failures,
    open_bar,
    write_summary,
)
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from vibe_llms.batches.batch_specs import BatchSummary
    from vibe_llms.batches.batches import Batches
    from vibe_llms.batches.runs import Inputs
    from vibe_llms.batches.text_work import Instrument
    from vibe_llms.instruments.models import Model

_CHANNEL_OPTIONS: Final = ("concurrency", "retries", "cap", "priority")
"""Options of the command that are arguments of the channel."""

_POLL_SECONDS: Final = 0.5
_SAMPLES: Final = 60
"""Number of samples for the rate: those of half a minute."""


class RecentRate:
    """Recent rate of a batch, for its progress display."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)

    def record(self, summary: BatchSummary) -> None:
        """Record the current progress."""
        self._samples.append((self._clock(), summary.done))

    @property
    def rate(self) -> float:
        """Items per second; 0 while unknown."""
        if len(self._samples) < 2:
            return 0.0
        (start, first), (end, last) = self._samples[0], self._samples[-1]
        return (last - first) / max(end - start, 0.001)

    def describe(self, summary: BatchSummary) -> str:
        """Describe the progress of a batch: items, rate, tokens, cost and time left."""
        parts = [f"{summary.done:,}/{_find_total(summary):,}", f"{self.rate:,.1f}/s"]
        if summary.failed:
            parts.append(f"{summary.failed:,} failed")
        if tokens := summary.input_tokens + summary.output_tokens:
            parts.append(f"{tokens:,} tokens")
        if summary.cost:
            of_cap = "" if summary.cap is None else f" of {write_dollars(summary.cap)}"
            parts.append(f"{write_dollars(summary.cost)}{of_cap}")
        if self.rate > 0 and summary.state == "open":
            seconds = (_find_total(summary) - summary.done) / self.rate
            parts.append(f"{_write_duration(seconds)} left")
        return "  ".join(parts)


async def perform(
    prompts: str,
    source: Inputs,
    output: str,
    options: dict[str, Any],
    model: Model | Instrument,
    *,
    as_json: bool,
) -> int:
    """Submit a batch, process it, and write the results at its end."""
    from vibe_llms.agents.batches import open_batches
    from vibe_llms.agents.queues import BATCHES
    from vibe_llms.batches.channel import BatchChannel
    from vibe_llms.batches.exporting import ensure_form

    url, key = options["runner"], options["key"]
    is_detached = options["detach"]
    if output != STANDARD:
        ensure_form(Path(output))  # before anything is submitted
    if not key and prompts != STANDARD:
        key = await asyncio.to_thread(_digest_file, Path(prompts))
    # A detached command only submits: other workers process the batch.
    queues = () if is_detached else (BATCHES,)
    await _check(model, options["cap"])  # before the database is created
    async with open_batches(url, application=model.application, queues=queues) as runner:
        assert runner is not None
        settings = {name: options[name] for name in _CHANNEL_OPTIONS}
        channel: BatchChannel[Any]
        channel = produce_channel(
            BatchChannel, model, output, options, runner=runner, key=key, **settings
        )
        batch = await channel.submit(source)
        runner_option = describe_runner(url)
        if is_detached:
            note(
                f"Submitted batch {batch}. Follow it with "
                f"`vibe batches watch {batch[:8]} {runner_option}`."
            )
            return ExitCode.SUCCESS
        return await follow_to_end(runner, batch, output, runner_option, as_json=as_json)


async def follow_to_end(
    runner: Batches, batch: str, output: str, runner_option: str, *, as_json: bool
) -> int:
    """Show a batch's progress until it is idle, then write the results."""
    from vibe_llms.batches.exporting import ensure_form

    if output != STANDARD:
        ensure_form(Path(output))  # checked now, because the batch may take hours
    try:
        await watch(runner, batch)
    except BaseException:  # including Ctrl-C
        note(f"Batch {batch} continues while a worker is running.")
        watch_command = f"vibe batches watch {batch[:8]} {runner_option}"
        note(f"Follow it with the same command, or with `{watch_command}`.")
        raise
    await write_output(runner, batch, output)
    return await report_end(runner, batch, None if output == STANDARD else output, as_json=as_json)


async def watch(runner: Batches, batch: str) -> None:
    """Show a batch's progress on a terminal until no worker processes it."""
    from vibe_llms.batches.tables import WORKING
    from vibe_llms.exceptions import StoreError

    rate = RecentRate()
    with open_bar() as draw:
        while True:
            try:
                summary = await runner.find(batch)
            except StoreError:  # the database may recover; the user can stop the command
                await asyncio.sleep(_POLL_SECONDS)
                continue
            rate.record(summary)
            draw(summary.done, _find_total(summary), rate.describe(summary))
            if summary.state not in WORKING:
                return
            await asyncio.sleep(_POLL_SECONDS)


async def write_output(runner: Batches, batch: str, output: str) -> None:
    """Write the available results of a batch, in the order of its inputs."""
    from vibe_llms.batches.exporting import write_results
    from vibe_llms.batches.item_lines import decode_item, encode_item

    if output != STANDARD:
        await write_results(runner, batch, Path(output))
        return
    async with aclosing(runner.follow(batch, ordered=True, waits=False)) as outcomes:
        async for line, _ in outcomes:
            sys.stdout.write(encode_item(decode_item(line)).decode())
    sys.stdout.flush()


async def report_end(runner: Batches, batch: str, output: str | None, *, as_json: bool) -> int:
    """Report the result of a batch, and list its failures by kind."""
    from vibe_llms.batches.item_lines import decode_item
    from vibe_llms.batches.runner_backend import explain_end

    summary = await runner.find(batch)
    notes = BatchNotes()
    async with aclosing(runner.survey_failures(batch)) as failures:
        async for line in failures:
            notes.add(decode_item(line))
    if as_json:
        document = {**export_summary(summary), "output": output, "failures": notes.export()}
        write_summary(document, output)
    else:
        note(describe(summary))
        if summary.doubted:
            note(
                f"Up to {summary.doubted:,} inputs were asked again after a worker died or "
                "left; the first requests may be billed, too."
            )
        list_failures(notes)
        if summary.failed:
            note("Run the same command with --retry-failed to ask the failed ones again.")
    if summary.state != "done":
        raise explain_end(summary)
    return ExitCode.INCOMPLETE if summary.failed else ExitCode.SUCCESS


def describe_runner(url: str) -> str:
    """Return the command option that names this runner, without its password."""
    return "--runner URL" if "@" in url else f"--runner {url}"


def describe(summary: BatchSummary) -> str:
    """Describe the state of a batch in a sentence."""
    seconds = "" if summary.ended is None else f", in {summary.ended - summary.created:,.1f} s"
    counts = f"{summary.done:,} of {_find_total(summary):,} done, {summary.failed:,} failed"
    usage = describe_usage(
        summary.input_tokens, summary.output_tokens, summary.cost, summary.unpriced
    )
    return f"{counts}{seconds}{usage}."


def export_summary(summary: BatchSummary) -> dict[str, Any]:
    """Return the progress of a batch as plain data."""
    return {
        "batch": summary.id,
        "state": summary.state,
        "model": summary.model,
        "total": summary.total,
        "done": summary.done,
        "failed": summary.failed,
        "input_tokens": summary.input_tokens,
        "output_tokens": summary.output_tokens,
        "doubted": summary.doubted,
        "cost_usd": float(summary.cost) if summary.cost else None,
        "cap_usd": None if summary.cap is None else float(summary.cap),
    }


async def _check(model: Model | Instrument, cap: Decimal | None) -> None:
    """Reject requests that would fail for every input. Raises ConverseError."""
    from vibe_llms.instruments.estimates import Estimator, TextEstimator
    from vibe_llms.instruments.inputs import PLACEHOLDER
    from vibe_llms.instruments.models import Model

    descriptor = (await model.access()).descriptor
    if cap is None:
        return
    if isinstance(model, Model):
        Estimator(descriptor, model.request(PLACEHOLDER))
    else:
        TextEstimator(descriptor)


def _find_total(summary: BatchSummary) -> int:
    return summary.known if summary.total is None else summary.total


def _write_duration(seconds: float) -> str:
    minutes, remaining_seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{remaining_seconds:02}"
    return f"{minutes}:{remaining_seconds:02}"


def _digest_file(path: Path) -> str:
    """Hash a file of questions: its digest names the batch, on any machine."""
    with open_reader(str(path)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
