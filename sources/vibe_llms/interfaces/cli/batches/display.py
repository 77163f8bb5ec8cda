"""Progress of a batch: a bar on a terminal, and a final summary, on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.output import note, shorten, write_json

if TYPE_CHECKING:
    from vibe_llms.batches.items import BatchItem, BatchTally
    from vibe_llms.exceptions import ConverseError, Finding
    from vibe_llms.messages.canisters import Origin

Draw: TypeAlias = "Callable[[int, int | None, str], object]"
"""Function that draws a bar, from the number done, the total, and the text after the bar."""

_INTERVAL_SECONDS = 0.2
_GROUPS_LIMIT = 10
_SHOWN_IDS = 5
_MESSAGE_COLUMNS = 100


class Channel(Protocol):
    """Channel of a batch of any kind."""

    @property
    def tally(self) -> BatchTally:
        """Progress counts."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Problems that were found and repaired."""


@define
class FailureGroup:
    """Failures of one kind.

    Attributes:
        count: Their number.
        items: The ids, or else the numbers, of the first failed items.
        message: The message of the first failure.
    """

    count: int = 0
    items: list[str] = attrs.field(factory=list)
    message: str = ""


@define
class BatchNotes:
    """Failures and costs of a batch, in addition to its tally.

    Attributes:
        failures: The failures by kind, up to a maximum number of kinds.
        others: Number of failures of further kinds.
        cost: Cost of the answers of this run, as far as prices are known.
        unpriced: Number of answers without a price.
    """

    failures: dict[str, FailureGroup] = attrs.field(factory=dict)
    others: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0

    def add(self, item: BatchItem[Any]) -> None:
        """Count an item of this run."""
        if item.error is not None:
            self._add_failure(item, item.error)
        elif item.origin is not None:
            self._add_price(item.origin, item.tier)

    def export(self) -> list[dict[str, Any]]:
        """Return the failures by kind, as plain data."""
        return [
            {"kind": kind, "count": group.count, "items": group.items, "message": group.message}
            for kind, group in self.failures.items()
        ]

    def _add_failure(self, item: BatchItem[Any], error: ConverseError) -> None:
        from vibe_llms.exceptions import AccessError, ProviderError

        kind = error.WORD
        if isinstance(error, AccessError | ProviderError):
            kind = f"{kind} ({error.fault})"
        if kind not in self.failures and len(self.failures) >= _GROUPS_LIMIT:
            self.others += 1
            return
        group = self.failures.setdefault(kind, FailureGroup(message=str(error)))
        group.count += 1
        if len(group.items) < _SHOWN_IDS:
            group.items.append(str(item.index) if item.id is None else item.id)

    def _add_price(self, origin: Origin, tier: str) -> None:
        from vibe_llms.telemetry.prices import Price, price_usage

        provider, model = origin.provider, origin.model
        price = price_usage(origin.usage, provider=provider, model=model, tier=tier)
        if isinstance(price, Price):
            self.cost += price.amount
        else:
            self.unpriced += 1


@asynccontextmanager
async def show_progress(
    channel: Channel, notes: BatchNotes, describe_more: Callable[[], str] | None = None
) -> AsyncIterator[None]:
    """Show a progress bar during the block if standard error is a terminal.

    Args:
        describe_more: Returns text to show after the counts.
    """
    if not sys.stderr.isatty():
        yield
        return
    with open_bar(shows_time=True) as draw:
        drawing = asyncio.ensure_future(_draw(draw, channel, notes, describe_more or str))
        try:
            yield
        finally:
            drawing.cancel()
            # Wait for its end, so that nothing is drawn after the bar is removed.
            await asyncio.gather(drawing, return_exceptions=True)


async def _draw(
    draw: Draw, channel: Channel, notes: BatchNotes, describe_more: Callable[[], str]
) -> None:
    """Redraw the current counts at intervals, until cancelled."""
    while True:
        tally = channel.tally
        text = f"{describe_counts(tally, notes)}  {describe_more()}".rstrip()
        draw(tally.done + tally.stored, tally.total, text)
        await asyncio.sleep(_INTERVAL_SECONDS)


@contextmanager
def open_bar(*, shows_time: bool = False) -> Iterator[Draw]:
    """Provide a function that draws a progress bar; it does nothing without a terminal.

    Args:
        shows_time: Whether the bar shows the remaining time.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    progress = Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.fields[counts]}"),
        *([TimeRemainingColumn(compact=True)] if shows_time else []),
        console=Console(stderr=True, highlight=False),
        auto_refresh=False,  # rich would draw in its own thread while counts change
        transient=True,  # the summary replaces it
    )
    task = progress.add_task("", total=None, counts="")

    def draw(done: int, total: int | None, text: str) -> None:
        progress.update(task, total=total, completed=done, counts=text, refresh=True)

    with progress:
        yield draw


def describe_counts(tally: BatchTally, notes: BatchNotes) -> str:
    """Describe the progress of a batch in a few words."""
    total = "" if tally.total is None else f"/{tally.total:,}"
    parts = [f"{tally.done + tally.stored:,}{total}", f"{_find_rate(tally):,.1f}/s"]
    if tally.failed:
        parts.append(f"{tally.failed:,} failed")
    usage = tally.usage
    tokens = (usage.total_input_tokens or 0) + (usage.total_output_tokens or 0)
    if tokens:
        parts.append(f"{tokens:,} tokens")
    if notes.cost:
        parts.append(write_dollars(notes.cost))
    return "  ".join(parts)


def _find_rate(tally: BatchTally) -> float:
    return tally.done / max(tally.seconds, 0.001)


def note_summary(tally: BatchTally, notes: BatchNotes) -> None:
    """Write the final counts, and list the failures by kind."""
    earlier = f", {tally.stored:,} earlier" if tally.stored else ""
    failed = tally.failed + tally.stored_failed
    if not tally.done + tally.stored + failed:
        note("Nothing was asked: the input is empty.")
        return
    usage = tally.usage
    input_tokens, output_tokens = usage.total_input_tokens or 0, usage.total_output_tokens or 0
    usage_text = describe_usage(input_tokens, output_tokens, notes.cost, notes.unpriced)
    note(
        f"{tally.done:,} done{earlier}, {failed:,} failed, in {tally.seconds:.1f} s "
        f"({_find_rate(tally):,.1f}/s){usage_text}."
    )
    list_failures(notes)


def list_failures(notes: BatchNotes) -> None:
    """List failures by kind, the most frequent first."""
    for kind, group in sorted(notes.failures.items(), key=lambda each: -each[1].count):
        items = ", ".join(group.items) + (", …" if group.count > len(group.items) else "")
        note(f"{group.count:>7,}  {kind}: {shorten(group.message, _MESSAGE_COLUMNS)} ({items})")
    if notes.others:
        note(f"{notes.others:>7,}  others")


def describe_usage(input_tokens: int, output_tokens: int, cost: Decimal, unpriced: int) -> str:
    """Describe a batch's usage as a suffix of another text; empty if it used nothing.

    Args:
        unpriced: Number of answers without a price.
    """
    has_tokens = input_tokens or output_tokens
    tokens = f"; {input_tokens:,} tokens in, {output_tokens:,} out" if has_tokens else ""
    rest = f" and {unpriced:,} answers without a price" if unpriced else ""
    return f"{tokens}, {write_dollars(cost)}{rest}" if cost else tokens


def encode_summary(tally: BatchTally, notes: BatchNotes, output: str | None) -> dict[str, Any]:
    """Return the summary as plain data."""
    usage = tally.usage
    return {
        "output": output,
        "total": tally.total,
        "done": tally.done,
        "stored": tally.stored,
        "failed": tally.failed + tally.stored_failed,
        "seconds": round(tally.seconds, 3),
        "input_tokens": usage.total_input_tokens,
        "output_tokens": usage.total_output_tokens,
        "cost_usd": float(notes.cost) if notes.cost else None,
        "failures": notes.export(),
    }


def write_summary(summary: dict[str, Any], output: str | None) -> None:
    """Write a summary as JSON; to standard error if the answers go to standard output.

    Args:
        output: The file of the answers; ``None`` for standard output.
    """
    if output is None:
        import json

        sys.stderr.write(json.dumps(summary) + "\n")
    else:
        write_json(summary)


def report_end(channel: Channel, notes: BatchNotes, output: str | None, *, as_json: bool) -> int:
    """Report the result of a batch; return the exit code.

    Args:
        output: The file of the answers; ``None`` for standard output.
    """
    from vibe_llms.interfaces.cli.errors import ExitCode

    tally = channel.tally
    for finding in channel.findings:
        note(str(finding))
    if as_json:
        write_summary(encode_summary(tally, notes, output), output)
    else:
        note_summary(tally, notes)
    failed = tally.failed + tally.stored_failed
    if failed and output is not None and not as_json:
        note("Run the same command with --retry-failed to ask the failed ones again.")
    return ExitCode.INCOMPLETE if failed else ExitCode.SUCCESS
