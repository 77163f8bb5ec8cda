"""The contract of stores: inherit it, say how the store is made, and let pytest run it."""

from __future__ import annotations

from vibe_llms.testing.contracts.histories import HistoryPromises
from vibe_llms.testing.contracts.keeping import KeepingPromises


class StoreContract(HistoryPromises, KeepingPromises):
    """What every store of conversations keeps; ``produce_store`` says which one is tried."""
