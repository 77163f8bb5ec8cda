"""When something was said that is stored now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from vibe_llms.messages.canisters import AnyCanister

_LATE: Final = timedelta(minutes=1)
"""What is stored within this time was said when it was stored, as far as anybody cares."""


def find_moment(canisters: Sequence[AnyCanister], now: datetime) -> datetime | None:
    """Returns when the last of what is stored was said; ``None`` where that was just now.

    It is long ago where somebody brings in what was said elsewhere.
    """
    recent = now - _LATE
    if canisters and canisters[-1].timestamp >= recent:  # as mostly, and the latest mostly last
        return None
    last = max((canister.timestamp for canister in canisters), default=now)
    return last if last < recent else None
