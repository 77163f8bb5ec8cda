"""Timestamps of canisters that are being stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from vibe_llms.messages.canisters import AnyCanister

_LATE: Final = timedelta(minutes=1)
"""Canisters that are stored within this time count as said when they are stored."""


def find_moment(canisters: Sequence[AnyCanister], now: datetime) -> datetime | None:
    """Return the time of the latest stored canister; ``None`` if it is recent.

    It is old if a conversation from elsewhere is imported.
    """
    recent = now - _LATE
    if canisters and canisters[-1].timestamp >= recent:  # usual case: the last is the latest
        return None
    last = max((canister.timestamp for canister in canisters), default=now)
    return last if last < recent else None
