"""What a conversation cost: listens and reckons, and never steers.

May import the messages, events and models. Refuses to know how requests are sent.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.telemetry.prices import BucketPrice, Price, PriceResult, Unpriced, price_usage

_HOMES = {
    "BucketPrice": "prices",
    "Price": "prices",
    "PriceResult": "prices",
    "Unpriced": "prices",
    "price_usage": "prices",
}

__all__ = [
    "BucketPrice",
    "Price",
    "PriceResult",
    "Unpriced",
    "price_usage",
]

__getattr__, __dir__ = produce_attribute_access(__name__, _HOMES)
