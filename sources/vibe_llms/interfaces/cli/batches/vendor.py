"""``vibe batch --channel vendor``: confirmation before, progress during, and report after."""

from __future__ import annotations

from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.batches.channels import produce_channel, produce_work
from vibe_llms.interfaces.cli.batches.inputs import InputFormat, check_file, read_file
from vibe_llms.interfaces.cli.output import note

if TYPE_CHECKING:
    from vibe_llms.batches.submitting import ChunkNews
    from vibe_llms.batches.vendor_backend import Forecast
    from vibe_llms.batches.vendor_channel import VendorBatchChannel

_MILLION: Final = 1_000_000


@define
class VendorReporter:
    """Reporter of a vendor's batches, on standard error.

    Attributes:
        states: Number of completed requests and of all, by the vendor's id of the batch.
    """

    states: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    _is_looking: bool = False

    def report(self, news: ChunkNews) -> None:
        """Report an event of a batch."""
        from vibe_llms.batches.submitting import ChunkCourse

        count = f"{news.requests:,} requests"
        match news.course:
            case ChunkCourse.SUBMITTED:
                note(f"Submitted {count} as {news.vendor}.")
            case ChunkCourse.FOUND:
                note(f"Found {count} at the vendor, as {news.vendor} (submitted earlier).")
            case ChunkCourse.ABSENT:
                note(f"The vendor did not receive the earlier {count}; nothing was billed.")
            case ChunkCourse.WAITING if not news.vendor and not self._is_looking:
                self._is_looking = True
                note(f"Checking whether the vendor received {count} that may have been submitted …")
            case ChunkCourse.ENDED:
                note(f"{news.vendor} has ended.")
            case ChunkCourse.LOST:
                note(f"The vendor no longer has {news.vendor}.")
        if news.course in (ChunkCourse.ENDED, ChunkCourse.LOST):
            self.states.pop(news.vendor, None)
        elif news.vendor:
            self.states[news.vendor] = news.done, news.requests

    def describe(self) -> str:
        """Describe the vendor's batches in a few words."""
        if not self.states:
            return ""
        done, requests = map(sum, zip(*self.states.values(), strict=True))
        batches = "a batch" if len(self.states) == 1 else f"{len(self.states)} batches"
        return f"{requests:,} in {batches} at the vendor, {done:,} of them answered"


async def perform(
    prompts: str, input_format: InputFormat, output: str, options: dict[str, Any], *, as_json: bool
) -> int:
    """Submit unanswered inputs, wait, and write the answers; or cancel the vendor's batches."""
    from vibe_llms.batches.vendor_channel import VendorBatchChannel
    from vibe_llms.interfaces.cli.batches.display import BatchNotes, report_end, show_progress

    path = Path(prompts)
    total = check_file(path, input_format)
    model = produce_work(options)
    reporter, notes = VendorReporter(), BatchNotes()
    settings = {"listener": reporter.report, "resubmits": options["resubmit"]}
    channel: VendorBatchChannel[Any]
    channel = produce_channel(VendorBatchChannel, model, output, options, **settings)
    try:
        if options["cancel"]:
            return await _cancel(channel, output)
        # Asked before the bar is shown, which would be drawn over the question.
        forecast = await channel.foresee(read_file(path, input_format))
        if forecast.requests:
            _confirm(forecast, is_agreed=options["yes"] or model.application.configuration.yes)
        items = channel.run(read_file(path, input_format), stored=False, total=total)
        async with show_progress(channel, notes, reporter.describe), aclosing(items):
            async for item in items:
                notes.add(item)
    except BaseException:  # including Ctrl-C
        _note_how_to_continue(channel, output)
        raise
    finally:
        await model.application.close()
    return report_end(channel, notes, output, as_json=as_json)


async def _cancel(channel: VendorBatchChannel[Any], output: str) -> int:
    from vibe_llms.interfaces.cli.errors import ExitCode

    count = await channel.cancel()
    batches = "1 batch" if count == 1 else f"{count} batches"
    if count:
        note(
            f"Asked the vendor to stop {batches}. To read the answers so far, run the same command"
        )
        note("without --cancel; the other requests fail and are not billed.")
    else:
        note(f"The vendor has no batch for {output}.")
    return ExitCode.SUCCESS


def _confirm(forecast: Forecast, *, is_agreed: bool) -> None:
    """Show both prices and ask for consent. Raises TrustError."""
    from vibe_llms.interfaces.cli.consent import require_consent

    for line in describe_prices(forecast):
        note(line)
    if not is_agreed:
        require_consent(
            f"Submit {forecast.requests:,} requests as a batch to {forecast.provider}?",
            remedy="Add --yes to confirm in advance.",
        )


def describe_prices(forecast: Forecast) -> list[str]:
    """Describe the submission, with the known cost on both channels."""
    unfit = f"; {forecast.unfit:,} more cannot be asked" if forecast.unfit else ""
    lines = [
        f"{forecast.requests:,} requests to {forecast.provider}:{forecast.name}, about "
        f"{forecast.input_tokens:,} tokens{unfit}."
    ]
    direct_prices, reason = _price(forecast, "")
    batch_prices, _ = _price(forecast, "batch")
    if direct_prices is None or batch_prices is None:
        return [*lines, f"Their cost is unknown: {reason}"]
    channels = (("One by one:", direct_prices), ("As a batch:", batch_prices))
    for label, (requests, answers) in channels:
        more = ""
        if forecast.has_answers:
            more = f", plus {write_dollars(answers)} for each million tokens of answers"
        lines.append(f"{label:<12} about {write_dollars(requests)}{more}.")
    return lines


def _price(forecast: Forecast, tier: str) -> tuple[tuple[Decimal, Decimal] | None, str]:
    """Return the prices of the requests and of a million answer tokens.

    The price of a token can depend on the length of its request; the mean length is used.

    Returns:
        ``None`` and the reason if the prices are unknown.
    """
    from vibe_llms.messages.canisters import Usage
    from vibe_llms.telemetry.prices import Unpriced, price_usage

    mean_tokens = max(round(forecast.input_tokens / max(forecast.requests, 1)), 1)
    price = price_usage(
        Usage(input_tokens=mean_tokens, output_tokens=_MILLION if forecast.has_answers else 0),
        provider=forecast.provider,
        model=forecast.name,
        tier=tier,
    )
    if isinstance(price, Unpriced):
        return None, price.reason
    if not price.is_complete:
        return None, "some of its prices are unknown."
    amounts = {bucket.bucket: bucket.amount for bucket in price.buckets}
    requests = amounts["input_tokens"] * forecast.input_tokens / mean_tokens
    return (requests, amounts.get("output_tokens", Decimal(0))), ""


def _note_how_to_continue(channel: VendorBatchChannel[Any], output: str) -> None:
    """Describe the saved state of a stopped batch, and what continues at the vendor."""
    from vibe_llms.batches.vendor_chunks import find_path

    tally = channel.tally
    if tally.done + tally.stored:
        of_total = "" if tally.total is None else f" of {tally.total:,}"
        note(f"{tally.done + tally.stored:,}{of_total} are in {output}.")
    if find_path(channel.journal).exists():
        note("Submitted requests continue at the vendor. Run the same command to read the answers,")
        note("or with --cancel to stop them.")
