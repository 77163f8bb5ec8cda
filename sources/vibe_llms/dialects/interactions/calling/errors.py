"""Classification of errors: Google's, or one whose code names its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.google_errors import produce_google_error
from vibe_llms.exceptions import ConverseError

_STATUSES: Final = {
    "invalid_request": "INVALID_ARGUMENT",
    "rate_limit_exceeded": "RESOURCE_EXHAUSTED",
}
"""Names of ``google.rpc.Code`` for codes with other words."""


def produce_error(
    body: object,
    *,
    provider: str,
    model: str = "",
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> ConverseError:
    """Return the exception for an error; a textual code, perhaps a URI, is read as its status."""
    inner = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(inner, Mapping) and isinstance(inner.get("code"), str):
        body = {"error": _name_status(inner)}
    return produce_google_error(
        body, provider=provider, model=model, status=status, headers=headers
    )


def _name_status(error: Mapping[str, Any]) -> dict[str, Any]:
    word = str(error["code"]).rstrip("/").rpartition("/")[2].lower()
    status_name = _STATUSES.get(word, word.upper())
    fields = {name: value for name, value in error.items() if name != "code"}
    return {"status": status_name, **fields}
