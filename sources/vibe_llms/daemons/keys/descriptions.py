"""Keys as plain data, and the texts in which people write their limits."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from vibe_llms.daemons.keys.register import Key
from vibe_llms.foundation.attrs_classes import frozen

_DURATION: Final = re.compile(r"([0-9]{1,6})([hdw])")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}


@frozen(kw_only=True)
class KeyDescription:
    """A key without its digest.

    Attributes:
        name: Its owner.
        id: Its public part.
        state: Whether it can be used.
        operator: Whether its holder may operate the daemon.
        created: Time of creation.
        expires, revoked: Times of expiry and revocation; ``None`` for neither.
        models: Patterns of allowed models; none for all.
        requests_per_minute, tokens_per_minute, cents_per_day: Limits; ``None`` for no limit.
    """

    name: str
    id: str
    state: Literal["good", "expired", "revoked"]
    operator: bool
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    models: tuple[str, ...]
    requests_per_minute: int | None
    tokens_per_minute: int | None
    cents_per_day: int | None


def describe_key(identity: str, key: Key, now: float) -> KeyDescription:
    """Describe a key.

    Args:
        now: Seconds since 1970.
    """
    return KeyDescription(
        name=key.name,
        id=identity,
        state="revoked" if key.revoked else "expired" if key.expires_at <= now else "good",
        operator=key.operator,
        created=key.created,
        expires=key.expires,
        revoked=key.revoked,
        models=key.models,
        requests_per_minute=key.requests_per_minute,
        tokens_per_minute=key.tokens_per_minute,
        cents_per_day=key.cents_per_day,
    )


def read_expiry(text: str, now: datetime) -> datetime:
    """Parse a time of expiry: a date, a timestamp or a duration such as ``30d``.

    Raises:
        ValueError: The text is invalid, or the time is in the past.
    """
    try:
        if duration := _DURATION.fullmatch(text.strip()):
            moment = now + timedelta(hours=_HOURS[duration[2]] * int(duration[1]))
        else:
            moment = datetime.fromisoformat(text.strip())
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"Invalid expiry {text[:100]!r}. Use a date such as 2026-12-31, or 12h, 30d, 8w."
        ) from None
    if moment <= now:
        raise ValueError(f"The expiry {text[:100]!r} is in the past.")
    return moment


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a key: one line of visible text."""
    return bool(text.strip()) and text.isprintable()
