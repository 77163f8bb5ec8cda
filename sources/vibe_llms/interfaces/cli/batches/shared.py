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

from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.batches.channels import STANDARD, produce_channel
from vibe_llms.interfaces.cli.batches.display import (
    BatchNotes,
    describe_use,
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
    from vibe_llms.instruments.models import Model

_OWN: Final = ("concurrency", "retries", "cap", "priority")
"""Options of the command that a batch on a runner takes, some of them also elsewhere."""

_LOOK_SECONDS: Final = 0.5
_SAMPLES: Final = 60
"""Number of samples for the rate: half a minute."""


class Pace:
    """Recent rate of a batch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)

    def note(self, found: BatchSummary) -> None:
        """Record the current progress."""
        self._seen.append((self._clock(), found.done))

    @property
    def rate(self) -> float:
        """Items per second; 0 while unknown."""
        if len(self._seen) < 2:
            return 0.0
        (begun, first), (ended, last) = self._seen[0], self._seen[-1]
        return (last - first) / max(ended - begun, 0.001)

    def describe(self, found: BatchSummary) -> str:
        """Describe the progress of a batch: items, rate, tokens, cost and time left."""
        words = [f"{found.done:,}/{_total(found):,}", f"{self.rate:,.1f}/s"]
        if found.failed:
            words.append(f"{found.failed:,} failed")
        if tokens := found.input_tokens + found.output_tokens:
            words.append(f"{tokens:,} tokens")
        if found.cost:
            of = "" if found.cap is None else f" of {write_dollars(found.cap)}"
            words.append(f"{write_dollars(found.cost)}{of}")
        if self.rate > 0 and found.state == "open":
            words.append(f"{_tell_time((_total(found) - found.done) / self.rate)} left")
        return "  ".join(words)


async def perform(
    prompts: str,
    source: Inputs,
    output: str,
    options: dict[str, Any],
    model: Model,
    *,
    as_json: bool,
) -> int:
    """Submit a batch, process it, and write the results when all is done."""
    from vibe_llms.agents.batches import open_batches
    from vibe_llms.agents.queues import BATCHES
    from vibe_llms.batches.channel import BatchChannel
    from vibe_llms.batches.exporting import ensure_form

    url, key = options["runner"], options["key"]
    is_left = options["detach"]
    if output != STANDARD:
        ensure_form(Path(output))  # before anything is submitted
    if not key and prompts != STANDARD:
        key = await asyncio.to_thread(_digest_file, Path(prompts))
    queues = () if is_left else (BATCHES,)
    await _check(model, options["cap"])  # before the database or any of its rows exist
    async with open_batches(url, application=model.application, queues=queues) as runner:
        assert runner is not None
        own = {"runner": runner, "key": key, **{name: options[name] for name in _OWN}}
        channel: BatchChannel[Any]
        channel = produce_channel(BatchChannel, model, output, options, **own)
        batch = await channel.submit(source)
        told = describe_runner(url)
        if is_left:
            note(
                f"Submitted batch {batch}. Follow it with `vibe batches watch {batch[:8]} {told}`."
            )
            return ExitCode.SUCCESS
        return await follow_to_end(runner, batch, output, told, as_json=as_json)


async def follow_to_end(
    runner: Batches, batch: str, output: str, told: str, *, as_json: bool
) -> int:
    """Show a batch's progress until it is idle, then write the results."""
    from vibe_llms.batches.exporting import ensure_form

    if output != STANDARD:
        ensure_form(Path(output))  # fail now, not hours later
    try:
        await watch(runner, batch)
    except BaseException:  # including Ctrl-C
        note(f"Batch {batch} continues while a worker is running.")
        note(f"Follow it with the same command, or with `vibe batches watch {batch[:8]} {told}`.")
        raise
    await write_output(runner, batch, output)
    return await tell_end(runner, batch, None if output == STANDARD else output, as_json=as_json)


async def watch(runner: Batches, batch: str) -> None:
    """Show a batch's progress on a terminal until no worker processes it."""
    from vibe_llms.batches.tables import WORKING
    from vibe_llms.exceptions import StoreError

    pace = Pace()
    with open_bar() as draw:
        while True:
            try:
                found = await runner.find(batch)
            except StoreError:  # it recovers, or the user stops the command
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            pace.note(found)
            draw(found.done, _total(found), pace.describe(found))
            if found.state not in WORKING:
                return
            await asyncio.sleep(_LOOK_SECONDS)


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


async def tell_end(runner: Batches, batch: str, output: str | None, *, as_json: bool) -> int:
    """Report the result of a batch, and list its failures by kind."""
    from vibe_llms.batches.item_lines import decode_item
    from vibe_llms.batches.runner_backend import explain_end

    found = await runner.find(batch)
    account = BatchNotes()
    async with aclosing(runner.survey_failures(batch)) as failures:
        async for line in failures:
            account.add(decode_item(line))
    if as_json:
        summary = {**export_summary(found), "output": output, "failures": account.export()}
        write_summary(summary, output)
    else:
        note(describe(found))
        if found.doubted:
            note(
                f"Up to {found.doubted:,} inputs were asked again after a worker died or "
                "left; the first requests may be billed, too."
            )
        list_failures(account)
        if found.failed:
            note("Run the same command with --retry-failed to ask the failed ones again.")
    if found.state != "done":
        raise explain_end(found)
    return ExitCode.INCOMPLETE if found.failed else ExitCode.SUCCESS


def describe_runner(url: str) -> str:
    """Return the command option that names this runner, without its password."""
    return "--runner URL" if "@" in url else f"--runner {url}"


def describe(found: BatchSummary) -> str:
    """Describe the state of a batch in a sentence."""
    seconds = "" if found.ended is None else f", in {found.ended - found.created:,.1f} s"
    words = f"{found.done:,} of {_total(found):,} done, {found.failed:,} failed{seconds}"
    used = describe_use(found.input_tokens, found.output_tokens, found.cost, found.unpriced)
    return f"{words}{used}."


def export_summary(found: BatchSummary) -> dict[str, Any]:
    """Return the progress of a batch as plain data."""
    return {
        "batch": found.id,
        "state": found.state,
        "model": found.model,
        "total": found.total,
        "done": found.done,
        "failed": found.failed,
        "input_tokens": found.input_tokens,
        "output_tokens": found.output_tokens,
        "doubted": found.doubted,
        "cost_usd": float(found.cost) if found.cost else None,
        "cap_usd": None if found.cap is None else float(found.cap),
    }


async def _check(model: Model, cap: Decimal | None) -> None:
    """Reject requests that would fail for every input. Raises ConverseError."""
    from vibe_llms.instruments.estimates import Estimator
    from vibe_llms.instruments.inputs import PLACEHOLDER

    accessed = await model.access()
    if cap is not None:
        Estimator(accessed.descriptor, model.request(PLACEHOLDER))


def _total(found: BatchSummary) -> int:
    return found.known if found.total is None else found.total


def _tell_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _digest_file(path: Path) -> str:
    """Hash the questions of a file, so that the same command is the same batch on any machine."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
