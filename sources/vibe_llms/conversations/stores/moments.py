"""The time of a conversation's last message, when canisters are stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from vibe_llms.messages.canisters import AnyCanister

_RECENT: Final = timedelta(minutes=1)
"""Age up to which canisters are recent: the time of storing counts as their time."""


def find_moment(canisters: Sequence[AnyCanister], now: datetime) -> datetime | None:
    """Return the time of the latest canister that is stored; ``None`` if it is recent.

    Canisters of an imported conversation can be old.
    """
    recent = now - _RECENT
    if canisters and canisters[-1].timestamp >= recent:  # usual case: the last is the latest
        return None
    last = max((canister.timestamp for canister in canisters), default=now)
    return last if last < recent else None
