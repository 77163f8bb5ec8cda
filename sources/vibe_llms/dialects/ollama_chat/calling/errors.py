"""Classification of errors, which have a status and a sentence, but no codes.

The sentences are those of Ollama's server, and have been stable for years; if none matches, the
status alone decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.errors import ErrorData, ErrorProducer, find_fault, find_overflow
from vibe_llms.exceptions import (
    CapabilityError,
    ContextOverflowError,
    ConverseError,
    ProviderFault,
    Stage,
)

FAULTS_BY_SENTENCE: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), fault, remedy)
    for pattern, fault, remedy in (
        (
            r"model .* not found|no such model|pull.*(it )?first|manifest.* does not exist",
            ProviderFault.NOT_FOUND,
            "Download it: ollama pull {model}",
        ),
        (
            r"requires more system memory|out of memory|insufficient memory",
            ProviderFault.INVALID_REQUEST,
            "Use a smaller model, or a smaller num_ctx.",
        ),
        (
            r"server busy|maximum pending requests|server overloaded|model is overloaded",
            ProviderFault.OVERLOADED,
            "Try again later.",
        ),
        (
            r"usage limit|subscription|usage credits|quota",
            ProviderFault.QUOTA,
            "Check the account at ollama.com.",
        ),
        (r"too many requests|rate limit", ProviderFault.RATE_LIMITED, "Try again later."),
        (
            r"unauthorized|signin|sign in|invalid (api )?key",
            ProviderFault.AUTHENTICATION,
            "Sign in with `ollama signin`, or set OLLAMA_API_KEY.",
        ),
        (r"content policy", ProviderFault.BLOCKED, ""),
        (r"^forbidden", ProviderFault.PERMISSION, ""),
        (r"^not found", ProviderFault.NOT_FOUND, ""),
        (r"^unknown error", ProviderFault.UNKNOWN, ""),
        (r"timed out|deadline exceeded", ProviderFault.TIMEOUT, "Ask again."),
        (
            r"invalid options?|invalid format|option .* must be of type|think value|"
            r"missing request body|is required|invalid tool|failed to parse",
            ProviderFault.INVALID_REQUEST,
            "",
        ),
        (
            r"runner process|unexpectedly stopped|terminated|EOF|upstream|bad gateway",
            ProviderFault.SERVER,
            "Check the server's log, and try again.",
        ),
    )
)
"""Patterns of sentences, each with the fault and the remedy; the first match decides."""

_OVERFLOW: Final = re.compile(
    r"prompt (is )?too long|exceed\w* (the )?(max(imum)? |available )?context|"
    r"input length exceeds|exceed_context_size|context (length|window|size) exceeded",
    re.IGNORECASE,
)
_INCAPABLE: Final = re.compile(
    r"does not support (?P<what>tools|thinking|chat|vision|images?|audio|generate|insert)|"
    r"(?P<images>only supports one image|missing data required for image|"
    r"image input is not supported)",
    re.IGNORECASE,
)
_CAPABILITIES: Final = {
    "audio": "supports_audio",
    "image": "supports_images",
    "images": "supports_images",
    "thinking": "supports_reasoning",
    "tools": "supports_invocations",
    "vision": "supports_images",
}


def _read_error(body: object, status: int | None, model: str) -> ErrorData | ConverseError:
    message, code = _find_message(body)
    if _OVERFLOW.search(message) or find_overflow(message, model):
        return ContextOverflowError(
            model=model,
            detail=f"{message.rstrip('.')}.",
            remedy=f"{ContextOverflowError.remedy} The control num_ctx sets the window.",
            path="canisters",
            stage=Stage.PROVIDER,
        )
    if match := _INCAPABLE.search(message):
        what = (match.group("what") or "images").lower()
        return CapabilityError(
            model=model,
            capability=_CAPABILITIES.get(what, what),
            detail=f"{message.rstrip('.')}.",
            remedy="Remove it, or use another model.",
            stage=Stage.PROVIDER,
        )
    fault, remedy = _find_fault(message, status)
    return ErrorData(
        fault=fault,
        message=f"{message.rstrip('.')}.",
        status=status,
        code=code,
        remedy=remedy.format(model=model or "MODEL"),
    )


produce_error: Final = ErrorProducer(_read_error)


def _find_message(body: object) -> tuple[str, Any]:
    """Return the sentence, and the code if a proxy or the cloud has added one."""
    inner: Any = body
    code = None
    while isinstance(inner, Mapping):
        code = inner.get("code") or code
        inner = inner.get("error") or inner.get("message") or inner.get("detail") or ""
    message = str(inner or "").strip() or "no reason given"
    return message, code


def _find_fault(message: str, status: int | None) -> tuple[ProviderFault, str]:
    for pattern, fault, remedy in FAULTS_BY_SENTENCE:
        if pattern.search(message):
            return fault, remedy
    # Without a status, the error came in a stream that the server had begun with status 200.
    return ProviderFault.SERVER if status is None else find_fault(status), ""
