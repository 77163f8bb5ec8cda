"""Answers of models through their vendors' batches, at a lower price.

Each model has a journal in the folder of the cache while its batch is open, so that an interrupted
run continues with what the vendor has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from vibe_llms.batches.items import BatchInput
from vibe_llms.batches.submitting import ChunkNews
from vibe_llms.batches.vendor_backend import find_batches
from vibe_llms.batches.vendor_channel import VendorBatchChannel
from vibe_llms.evals.costs import EvalBudget, price_item
from vibe_llms.evals.inputs import PreparedCase
from vibe_llms.evals.subjects import ModelSubject, read_item
from vibe_llms.evals.trials import SubjectAnswer
from vibe_llms.exceptions import CapabilityError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.estimates import write_input
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.telemetry.discounts import BATCH_DISCOUNTS

News: TypeAlias = Callable[[ChunkNews], None]


@frozen(kw_only=True)
class BatchRequestPlan:
    """Request to be sent in a batch: an input of a subject, with the key of its answer."""

    key: str
    prepared: PreparedCase


class _KnownInputs(Composing):
    """Composes canisters by the key of their answer.

    Journals identify inputs by the key and the texts, because canisters have random ids.
    """

    def __init__(self, canisters: Mapping[str, tuple[AnyCanister, ...]]) -> None:
        self._canisters = canisters

    @property
    def variables(self) -> tuple[str, ...]:
        """The key."""
        return ("key",)

    def compose(self, /, **values: Any) -> tuple[AnyCanister, ...]:
        """Return the canisters of a key."""
        return self._canisters[values["key"]]


async def find_discount(subject: ModelSubject) -> Decimal | None:
    """Return the price of a subject's batches as a share; ``None`` if its vendor has none."""
    model = await subject.model.access()
    try:
        find_batches(model)
    except CapabilityError:
        return None
    discount = BATCH_DISCOUNTS.get(model.descriptor.provider)
    return Decimal(1) if discount is None else discount.share


async def answer_by_batch(
    subject: ModelSubject,
    plans: list[BatchRequestPlan],
    budget: EvalBudget,
    *,
    share: Decimal,
    folder: Path,
    news: News | None,
) -> AsyncGenerator[tuple[str, SubjectAnswer | None]]:
    """Yield the key of each answer with the answer, or with ``None`` if the budget is exhausted.

    Args:
        share: Price of the batch as a share of the usual one.
        folder: Folder of the cache.
        news: Called when a batch is submitted, found again, or ended.

    Raises:
        ConverseError: The vendor refuses the batch, or it is unknown whether it has the batch.
    """
    reserved: dict[str, int] = {}
    for plan in plans:
        amount = await _estimate(subject, plan, share)
        # Nothing is settled before the batch is submitted, so that waiting would not end.
        if await budget.reserve(amount, waits=False):
            reserved[plan.key] = amount
        else:
            yield plan.key, None
    canisters = {each.key: each.prepared.value for each in plans if each.key in reserved}
    if not canisters:
        return
    options: dict[str, Any] = {"controls": dict(subject.subject.controls)}
    journal = folder / f"batch-{subject.describe_settings()[:32]}.jsonl"
    channel: VendorBatchChannel[str] = VendorBatchChannel(
        subject.model,
        journal=journal,
        prompt=_KnownInputs(canisters),
        retry_failed=True,
        listener=news,
        **options,
    )
    inputs = [BatchInput({"key": key}, id=key) for key in canisters]
    async with aclosing(channel.run(inputs)) as items:
        async for item in items:
            assert item.id is not None
            # A batch that an earlier run submitted may have answers that this run does not need.
            cost = price_item(item)
            if item.id in reserved:
                await budget.settle(reserved.pop(item.id), cost)
            else:
                budget.add(cost)
            yield item.id, read_item(item)
    # The answers are in the cache.
    await asyncio.to_thread(journal.unlink, missing_ok=True)


async def _estimate(subject: ModelSubject, plan: BatchRequestPlan, share: Decimal) -> int:
    estimator = await subject.find_estimator(plan.prepared)
    if estimator is None:
        return 0
    return int(estimator.estimate(write_input(plan.prepared.value)) * share) + 1
