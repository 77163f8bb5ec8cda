"""Bodies of requests about keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from vibe_llms.daemons.bodies import decode_body
from vibe_llms.daemons.keys.descriptions import is_name, read_expiry
from vibe_llms.daemons.keys.register import LIMITS, MOST_COUNT
from vibe_llms.exceptions import ConfigurationError, RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.tables.annotations import Amount, Count, Strings
from vibe_llms.tables.reading import read_table

_MOST_NAME: Final = 200
_MOST_MODELS: Final = 100
_MOST_PATTERN: Final = 300


@frozen(kw_only=True)
class KeyLimits:
    """Limits of a key.

    Attributes:
        expires: A date, a timestamp, or a duration such as ``30d``.
        models: Patterns of allowed models; none for all.
        requests_per_minute, tokens_per_minute, cents_per_day: Limits.
    """

    expires: str | None = None
    models: Strings = ()
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    cents_per_day: Amount | None = None


def read_new_key(body: bytes, now: datetime) -> tuple[str, dict[str, Any]]:
    """Read the request for a key: its name and its limits. Raises RequestError."""
    fields = dict(decode_body(body))
    name = fields.pop("name", None)
    if not isinstance(name, str) or not is_name(name) or len(name) > _MOST_NAME:
        raise refuse("name", f"It must be one line of visible text, up to {_MOST_NAME} characters.")
    return name, _read_limits(fields, now)


def read_limits(body: bytes, now: datetime) -> dict[str, Any]:
    """Read new values of a key's limits; ``null`` removes a limit. Raises RequestError."""
    limits = _read_limits(decode_body(body), now)
    if not limits:
        raise refuse("", f"Name at least one of: {', '.join(LIMITS)}.")
    return limits


def _read_limits(fields: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    removed = {name for name, value in fields.items() if value is None and name in LIMITS}
    given = {name: value for name, value in fields.items() if name not in removed}
    try:
        limits = read_table(KeyLimits, given, "body")
    except ConfigurationError as error:
        finding = error.findings[0]
        raise refuse(finding.place.removeprefix("body."), finding.message) from error
    values = {name: getattr(limits, name) for name in LIMITS if name in given}
    if "expires" in values:
        try:
            values["expires"] = read_expiry(values["expires"], now)
        except ValueError as error:
            raise refuse("expires", str(error)) from error
    models = values.get("models", ())
    if len(models) > _MOST_MODELS or not all(0 < len(each) <= _MOST_PATTERN for each in models):
        rule = f"Use at most {_MOST_MODELS} patterns of 1 to {_MOST_PATTERN} characters."
        raise refuse("models", rule)
    for name in LIMITS[2:]:
        if values.get(name, 0) > MOST_COUNT:
            raise refuse(name, f"It must be at most {MOST_COUNT}.")
    return values | dict.fromkeys(removed - {"models"}) | dict.fromkeys(removed & {"models"}, ())


def refuse(path: str, detail: str) -> RequestError:
    """Return the error for an invalid request."""
    where = f"{path}: " if path else ""
    return RequestError(path=path, detail=where + detail, stage=Stage.FRAME)


_COUNT: Final[JsonObject] = {"type": ["integer", "null"], "minimum": 1, "maximum": MOST_COUNT}
_LIMITS: Final[JsonObject] = {
    "expires": {"type": ["string", "null"]},
    "models": {
        "type": ["array", "null"],
        "items": {"type": "string", "minLength": 1, "maxLength": _MOST_PATTERN},
        "maxItems": _MOST_MODELS,
    },
    "requests_per_minute": _COUNT,
    "tokens_per_minute": _COUNT,
    "cents_per_day": {**_COUNT, "minimum": 0},
}
NEW_KEY: Final[JsonObject] = {
    "title": "NewKey",
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": _MOST_NAME},
        **_LIMITS,
    },
    "additionalProperties": False,
}
KEY_LIMITS: Final[JsonObject] = {
    "title": "KeyLimits",
    "type": "object",
    "minProperties": 1,
    "properties": _LIMITS,
    "additionalProperties": False,
}
