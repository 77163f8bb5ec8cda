"""Usage of conversations: measures tokens, money and time, and never changes a conversation.

May import the messages, events and models. Must not know how requests are sent.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.telemetry.accounts import Account, ModelAccount, StateAccount, ToolAccount
    from vibe_llms.telemetry.measuring import add_times, measure_canisters
    from vibe_llms.telemetry.odometer import Odometer, measure_events
    from vibe_llms.telemetry.prices import Price, Unpriced, price_usage

_MODULES = {
    "Account": "accounts",
    "ModelAccount": "accounts",
    "StateAccount": "accounts",
    "ToolAccount": "accounts",
    "add_times": "measuring",
    "measure_canisters": "measuring",
    "Odometer": "odometer",
    "measure_events": "odometer",
    "Price": "prices",
    "Unpriced": "prices",
    "price_usage": "prices",
}

__all__ = [
    "Account",
    "ModelAccount",
    "Odometer",
    "Price",
    "StateAccount",
    "ToolAccount",
    "Unpriced",
    "add_times",
    "measure_canisters",
    "measure_events",
    "price_usage",
]

__getattr__, __dir__ = produce_attribute_access(__name__, _MODULES)
