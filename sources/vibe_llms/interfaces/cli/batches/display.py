"""How far a batch has come: a bar on a terminal, and a summary at the end, on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from vibe_llms.interfaces.cli.output import note, shorten, write_json
from vibe_llms.values import define

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from vibe_llms.exceptions import ConverseError, Finding
    from vibe_llms.instruments.channels.batches.items import BatchItem, BatchTally
    from vibe_llms.messages.canisters import Origin

_INTERVAL_SECONDS = 0.2
_GROUPS_LIMIT = 10
_PLACES_SHOWN = 5
_MESSAGE_COLUMNS = 100


class Channel(Protocol):
    """A batch of whichever kind."""

    @property
    def tally(self) -> BatchTally:
        """How far it has come."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found amiss, and mended."""


@define
class Group:
    """Failures of one kind: how many, where the first ones are, and what one of them says."""

    count: int = 0
    places: list[str] = attrs.field(factory=list)
    message: str = ""


@define
class Account:
    """What is told of a batch besides its tally: kinds of failures, and money.

    Attributes:
        failures: By kind, at most so many kinds; ``others`` counts the rest.
        cost: What the answers of this run cost, as far as prices are known.
        unpriced: How many answers have no price.
    """

    failures: dict[str, Group] = attrs.field(factory=dict)
    others: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0

    def add(self, item: BatchItem[Any]) -> None:
        """Takes account of an item of this run."""
        if item.error is not None:
            self._add_failure(item, item.error)
        elif item.origin is not None:
            self._add_price(item.origin, item.tier)

    def export(self) -> list[dict[str, Any]]:
        """Returns the failures by their kinds, as plain data."""
        return [
            {"kind": kind, "count": group.count, "items": group.places, "message": group.message}
            for kind, group in self.failures.items()
        ]

    def _add_failure(self, item: BatchItem[Any], error: ConverseError) -> None:
        kind = error.WORD
        if fault := getattr(error, "fault", None):
            kind = f"{kind} ({fault})"
        if kind not in self.failures and len(self.failures) >= _GROUPS_LIMIT:
            self.others += 1
            return
        group = self.failures.setdefault(kind, Group(message=str(error)))
        group.count += 1
        if len(group.places) < _PLACES_SHOWN:
            group.places.append(str(item.index) if item.id is None else item.id)

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
    channel: Channel, account: Account, tell_more: Callable[[], str] | None = None
) -> AsyncIterator[None]:
    """Shows a bar while the block runs, where standard error is a terminal.

    Args:
        tell_more: Returns what is shown behind the counts.
    """
    if not sys.stderr.isatty():
        yield
        return
    bar = _Bar(channel, account, tell_more or str)
    drawing = asyncio.ensure_future(bar.draw())
    try:
        yield
    finally:
        drawing.cancel()
        # So that nothing is drawn when the bar is gone.
        await asyncio.gather(drawing, return_exceptions=True)
        bar.stop()


class _Bar:
    """A bar that rich draws, from counts that others change."""

    def __init__(self, channel: Channel, account: Account, tell_more: Callable[[], str]) -> None:
        from rich.progress import TimeRemainingColumn

        self._channel, self._account, self._tell_more = channel, account, tell_more
        self._progress = _produce_progress(TimeRemainingColumn(compact=True))
        self._task = self._progress.add_task("", total=None, counts="")
        self._progress.start()

    async def draw(self) -> None:
        """Draws it now and then, until it is cancelled."""
        while True:
            tally = self._channel.tally
            self._progress.update(
                self._task,
                total=tally.total,
                completed=tally.done + tally.stored,
                counts=f"{describe_counts(tally, self._account)}  {self._tell_more()}".rstrip(),
                refresh=True,
            )
            await asyncio.sleep(_INTERVAL_SECONDS)

    def stop(self) -> None:
        """Takes it away."""
        self._progress.stop()


def _produce_progress(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.fields[counts]}"),
        *columns,
        console=Console(stderr=True, highlight=False),
        auto_refresh=False,  # rich would draw in a thread of its own, while counts change
        transient=True,  # the summary takes its place
    )


@contextmanager
def open_bar() -> Iterator[Callable[[int, int, str], object]]:
    """Lends what draws a bar on a terminal, of how many of how many are done, with words."""
    if not sys.stderr.isatty():
        yield lambda done, total, words: None
        return
    progress = _produce_progress()
    task = progress.add_task("", total=None, counts="")

    def draw(done: int, total: int, words: str) -> None:
        progress.update(task, total=total, completed=done, counts=words, refresh=True)

    with progress:
        yield draw


def describe_counts(tally: BatchTally, account: Account) -> str:
    """Says in a few words how far a batch has come."""
    total = "" if tally.total is None else f"/{tally.total:,}"
    words = [f"{tally.done + tally.stored:,}{total}", f"{_rate(tally):,.1f}/s"]
    if tally.failed:
        words.append(f"{tally.failed:,} failed")
    usage = tally.usage
    tokens = (usage.total_input_tokens or 0) + (usage.total_output_tokens or 0)
    if tokens:
        words.append(f"{tokens:,} tokens")
    if account.cost:
        words.append(f"${account.cost:,.2f}")
    return "  ".join(words)


def _rate(tally: BatchTally) -> float:
    return tally.done / max(tally.seconds, 0.001)


def tell_summary(tally: BatchTally, account: Account) -> None:
    """Says at the end what was done, and lists the failures by their kinds."""
    earlier = f", {tally.stored:,} from before" if tally.stored else ""
    failed = tally.failed + tally.stored_failed
    if not tally.done + tally.stored + failed:
        note("Nothing was asked: the input is empty.")
        return
    note(
        f"{tally.done:,} done{earlier}, {failed:,} failed, in {tally.seconds:.1f} s "
        f"({_rate(tally):,.1f}/s){_describe_use(tally, account)}."
    )
    list_failures(account)


def list_failures(account: Account) -> None:
    """Lists failures by their kinds, the most frequent first."""
    for kind, group in sorted(account.failures.items(), key=lambda each: -each[1].count):
        places = ", ".join(group.places) + (", …" if group.count > len(group.places) else "")
        note(f"{group.count:>7,}  {kind}: {shorten(group.message, _MESSAGE_COLUMNS)} ({places})")
    if account.others:
        note(f"{account.others:>7,}  others")


def _describe_use(tally: BatchTally, account: Account) -> str:
    usage = tally.usage
    if usage.total_input_tokens is None and usage.total_output_tokens is None:
        return ""
    words = f"; {usage.total_input_tokens or 0:,} tokens in, {usage.total_output_tokens or 0:,} out"
    if account.cost:
        rest = f" and {account.unpriced:,} answers without a price" if account.unpriced else ""
        words += f", ${account.cost:,.4f}{rest}"
    return words


def encode_summary(tally: BatchTally, account: Account, output: str | None) -> dict[str, Any]:
    """Returns the summary as plain data."""
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
        "cost_usd": float(account.cost) if account.cost else None,
        "failures": account.export(),
    }


def tell_end(channel: Channel, account: Account, output: str | None, *, as_json: bool) -> int:
    """Says what a batch came to; returns the exit code.

    Args:
        output: Where the answers are; ``None`` for standard output.
    """
    import json

    from vibe_llms.interfaces.cli.errors import ExitCode

    tally = channel.tally
    for finding in channel.findings:
        note(str(finding))
    if as_json:
        summary = encode_summary(tally, account, output)
        if output is None:
            # Standard output has the answers.
            sys.stderr.write(json.dumps(summary) + "\n")
        else:
            write_json(summary)
    else:
        tell_summary(tally, account)
    failed = tally.failed + tally.stored_failed
    if failed and output is not None and not as_json:
        note("The same command with --retry-failed asks again what failed.")
    return ExitCode.INCOMPLETE if failed else ExitCode.SUCCESS
