"""Responses of an authorization server, which are limited and not repeated in errors or logs."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Final

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthTokenError
from mcp.shared.auth import AuthorizationCodeResult

from vibe_llms.invocables.mcp.http import limit_stream

_BODY_BYTES: Final = 1_000_000
_DETAIL_CHARACTERS: Final = 300


class _ResponseFilter(logging.Filter):
    """Keeps responses of an authorization server out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        # The package logs a failure, which it also raises, with a traceback that quotes the body.
        return record.exc_info is None


logging.getLogger("mcp.client.auth.oauth2").addFilter(_ResponseFilter())


def is_challenge(response: httpx2.Response) -> bool:
    """Return whether a server requires an authorization, or a wider one."""
    challenge = response.headers.get("www-authenticate", "")
    # An authorization would not change any other 403.
    is_wider = response.status_code == 403 and "insufficient_scope" in challenge
    return response.status_code == 401 or is_wider


async def receive(response: httpx2.Response) -> httpx2.Response:
    """Read the body of a response, within limits. Raises StreamError beyond them."""
    description = f"{_BODY_BYTES:,} bytes about authorization"
    response.stream = limit_stream(response.stream, _BODY_BYTES, description)
    await response.aread()
    return response


def read_answer(parameters: Mapping[str, str]) -> AuthorizationCodeResult:
    """Read the parameters of the browser's redirect.

    Raises:
        OAuthFlowError: The authorization was refused.
    """
    if error := parameters.get("error"):
        description = parameters.get("error_description", "")
        raise OAuthFlowError(f"the answer was {_clean(error)} {_clean(description)}".rstrip())
    return AuthorizationCodeResult(
        code=parameters.get("code", ""),
        state=parameters.get("state"),
        iss=parameters.get("iss"),
    )


def _clean(text: str) -> str:
    printable = "".join(each for each in text if each.isprintable())
    return printable[:_DETAIL_CHARACTERS]


def explain(error: Exception) -> str:
    """Describe a failure, without possible secrets of a response."""
    text = str(error)
    if isinstance(error, OAuthTokenError) or "registration" in text.lower():
        head = text.partition(": ")[0]
        return f"{_clean(head)}{_find_error_code(text)}"
    if isinstance(error, (OAuthFlowError, httpx2.StreamError)):
        return _clean(text).rstrip(".")
    return f"its authorization metadata are invalid ({type(error).__name__})"


_ERROR_CODE: Final = re.compile(r'"error"\s*:\s*("[\w .-]{1,60}")')


def _find_error_code(text: str) -> str:
    match = _ERROR_CODE.search(text)
    return f" ({json.loads(match[1])})" if match else ""


def redact(error: Exception) -> Exception:
    """Return an error without the response's body, as the cause of another error."""
    return type(error)(explain(error)) if isinstance(error, OAuthFlowError) else error
