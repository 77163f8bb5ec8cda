"""Classification of errors from the many hosts of this dialect.

OpenAI's two dialects share one table; this module adds the formats of other hosts: lists of errors,
HTML pages, and a dozen texts for a conversation that is too long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.errors import ErrorData, ErrorProducer, produce_overflow
from vibe_llms.dialects.openai_errors import read_openai_error
from vibe_llms.exceptions import ConverseError, ProviderFault

_OVERFLOW: Final = re.compile(
    r"(?:longer than|exceeds) the maximum (?:model|allowed token|number of tokens)"
    r"|context length is only"
    r"|`inputs` tokens \+ `max_new_tokens` must be"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|(?:input|prompt|length of all messages) is too long"
    r"|too large for model with",
    re.IGNORECASE,
)
"""Messages for a conversation that is too long.

In the order of the alternatives: vLLM, vLLM, text-generation-inference, Groq and Cerebras, Bedrock
and Perplexity, Mistral.
"""

_VAGUE: Final = (ProviderFault.INVALID_REQUEST, ProviderFault.SERVER, ProviderFault.UNKNOWN)
"""Faults that the message can make more specific."""

_SIZES: Final = (  # the length of the input, and the limit
    re.compile(r"(?:length|passed|contains|Given:|count \(|long:) ?(\d+)"),
    re.compile(r"(?:maximum model length of|length is only|limit is|must be <=|allowed \() ?(\d+)"),
)
_ERROR_FIELDS: Final = (
    "message",
    "detail",
    "error_message",
    "errorMessage",
    "error_msg",
    "err_msg",
    "msg",
    "errors",
)
"""Fields other than ``error`` in which hosts report errors."""
_SUCCESS_WORDS: Final = frozenset({"ok", "success"})
_MINIMAX_ERROR_TYPES: Final = {
    "1001": "timeout",
    "1002": "rate_limit_exceeded",
    "1004": "authentication_error",
    "1008": "insufficient_balance",
    "1026": "content_filter",
    "1027": "content_filter",
    "1039": "context_length_exceeded",
    "2013": "badrequesterror",
    "2049": "authentication_error",
}
"""MiniMax's codes, and the types that other hosts use for these errors."""
_TITLE: Final = re.compile(r"<(?:title|h1)[^>]*>([^<]+)<", re.IGNORECASE)
_TAG: Final = re.compile(r"<[^>]*>")


def _read_error(body: object, status: int | None, model: str) -> ErrorData | ConverseError:
    complaint = read_openai_error(_simplify(body), status, model)
    if isinstance(complaint, ConverseError) or complaint.fault not in _VAGUE:
        return complaint
    message = complaint.message
    if not _OVERFLOW.search(message):
        return complaint
    tokens, limit = (pattern.search(message) for pattern in _SIZES)
    return produce_overflow(model, message, tokens and tokens[1], limit and limit[1])


produce_error: Final = ErrorProducer(_read_error)


def reports_error(body: Mapping[str, Any], *, within_answer: bool = False) -> bool:
    """Return whether a body that is not an answer reports an error in any format.

    Args:
        within_answer: Whether it comes within an answer, in which other fields have other meanings.
    """
    base = body.get("base_resp")
    # MiniMax always sends status 200, and reports the real status in the body; 0 is success.
    if isinstance(base, Mapping) and base.get("status_code"):
        return True
    if within_answer:
        return False
    values = (body.get(name) for name in ("error", *_ERROR_FIELDS))
    return any(value and str(value).lower() not in _SUCCESS_WORDS for value in values)


def _simplify(body: object) -> object:
    """Return the body with a readable message, if it is a list or a page."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str):
        return _read_page(body)
    if not isinstance(body, Mapping):
        return body
    base = body.get("base_resp")
    if isinstance(base, Mapping) and base.get("status_code"):
        code = base["status_code"]
        message = str(base.get("status_msg") or "")
        kind = _MINIMAX_ERROR_TYPES.get(str(code))
        return {"error": {"message": message, "type": kind, "code": str(code)}}
    inner = body.get("error")
    if isinstance(inner, Mapping):
        return {**body, "error": _simplify(inner)}
    if isinstance(inner, str):
        return {**body, "error": _read_page(inner)}
    report = next((body[name] for name in _ERROR_FIELDS if body.get(name)), None)
    if isinstance(report, Mapping):
        report = report.get("detail", report.get("message", report))
    if isinstance(report, list):
        report = "; ".join(map(_format_item, report))
    return body if report is None else {**body, "message": report}


def _format_item(item: Any) -> str:
    """Format an entry in a list of errors in FastAPI's format: the path and the message."""
    if not isinstance(item, Mapping) or "msg" not in item:
        return str(item)
    place = ".".join(str(step) for step in item.get("loc") or ())
    return f"{place}: {item['msg']}" if place else str(item["msg"])


def _read_page(text: str) -> str:
    if not text.lstrip().startswith("<"):
        return text
    title = _TITLE.search(text)
    plain = title[1] if title else _TAG.sub(" ", text)
    return " ".join(plain.split())
