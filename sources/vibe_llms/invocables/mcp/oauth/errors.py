"""Responses of an authorization server: limited, parsed, and not repeated in errors or logs."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Final

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthTokenError
from mcp.shared.auth import AuthorizationCodeResult

from vibe_llms.invocables.mcp.http import bound

_BODY_BYTES: Final = 1_000_000
_DETAIL_CHARACTERS: Final = 300


class _Discretion(logging.Filter):
    """Keep responses of an authorization server out of the log: the error is raised anyway."""

    def filter(self, record: logging.LogRecord) -> bool:
        # The package logs a failure with its traceback, whose last line quotes the server's body.
        return record.exc_info is None


logging.getLogger("mcp.client.auth.oauth2").addFilter(_Discretion())


def is_challenge(response: httpx2.Response) -> bool:
    """Return whether a server requires an authorization, or a wider one."""
    said = response.headers.get("www-authenticate", "")
    # Any other 403 is a plain refusal, which an authorization would not change.
    is_wider = response.status_code == 403 and "insufficient_scope" in said
    return response.status_code == 401 or is_wider


async def receive(response: httpx2.Response) -> httpx2.Response:
    """Read the body of a response, within limits. Raises StreamError beyond them."""
    said = f"{_BODY_BYTES:,} bytes about authorization"
    response.stream = bound(response.stream, _BODY_BYTES, said)
    await response.aread()
    return response


def read_answer(parameters: Mapping[str, str]) -> AuthorizationCodeResult:
    """Read the parameters of the browser's redirect.

    Raises:
        OAuthFlowError: The authorization was refused.
    """
    if error := parameters.get("error"):
        told = parameters.get("error_description", "")
        raise OAuthFlowError(f"the answer was {_clean(error)} {_clean(told)}".rstrip())
    return AuthorizationCodeResult(
        code=parameters.get("code", ""),
        state=parameters.get("state"),
        iss=parameters.get("iss"),
    )


def _clean(text: str) -> str:
    printable = "".join(each for each in text if each.isprintable())
    return printable[:_DETAIL_CHARACTERS]


def explain(error: Exception) -> str:
    """Describe a failure, without repeating possible secrets of an answer."""
    text = str(error)
    if isinstance(error, OAuthTokenError) or "registration" in text.lower():
        head = text.partition(": ")[0]
        return f"{_clean(head)}{_find_error_word(text)}"
    if isinstance(error, (OAuthFlowError, httpx2.StreamError)):
        return _clean(text).rstrip(".")
    return f"its authorization metadata are invalid ({type(error).__name__})"


_WORD: Final = re.compile(r'"error"\s*:\s*("[\w .-]{1,60}")')


def _find_error_word(text: str) -> str:
    found = _WORD.search(text)
    return f" ({json.loads(found[1])})" if found else ""


def redact(error: Exception) -> Exception:
    """Create a cause that repeats no body either."""
    return type(error)(explain(error)) if isinstance(error, OAuthFlowError) else error
