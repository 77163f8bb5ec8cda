"""Batches: one question to a model, or one call of any function, for each of thousands of inputs.

May import the other instruments and whatever lies below. Refuses to know terminals, and to send
anything again: that is the provider's one policy.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.instruments.channels.batches.channel import BatchChannel as BatchChannel
    from vibe_llms.instruments.channels.batches.items import BatchInput as BatchInput
    from vibe_llms.instruments.channels.batches.items import BatchItem as BatchItem
    from vibe_llms.instruments.channels.batches.items import BatchReport as BatchReport
    from vibe_llms.instruments.channels.batches.items import BatchTally as BatchTally
    from vibe_llms.instruments.channels.batches.synchrony import (
        SyncBatchChannel as SyncBatchChannel,
    )

_HOMES = {
    "BatchChannel": "channel",
    "BatchInput": "items",
    "BatchItem": "items",
    "BatchReport": "items",
    "BatchTally": "items",
    "SyncBatchChannel": "synchrony",
}
__all__ = sorted(_HOMES)

__getattr__, __dir__ = produce_attribute_access(__name__, _HOMES)
