"""How large a window a request needs, so that the server never cuts it in silence.

A server whose window is too small leaves the oldest messages out and answers all the same. So
each request says the window that it needs, in steps, because another size makes the server load
the model again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.exceptions import ContextOverflowError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.counting import estimate_request
from vibe_llms.models.tokens import TokenCount
from vibe_llms.tables.kinds import COUNT

LEAST_WINDOW: Final = 4096
"""The server's own default on a small machine."""

UNSAID_OUTPUT: Final = 4096
"""Room for an answer whose length nobody bounds; less where the model has no more."""


def choose_window(
    request: Request,
    attributes: ModelAttributes,
    options: Mapping[str, JsonValue],
    estimate: TokenCount | None = None,
) -> int:
    """Returns the window in tokens, input and output together.

    Args:
        options: Of the native request: ``num_ctx`` is the user's own choice, and ``num_predict``
            the longest answer.
        estimate: Of the request's tokens; it is made here where none is given.

    Raises:
        ContextOverflowError: The request surely does not fit into the model's window; or, most
            likely, not into a smaller one that the user chose and can as well enlarge.
    """
    estimate = estimate or estimate_request(request, attributes)
    least = count_least(estimate)
    asked, limit = _count(options.get("num_predict")), read_limit(attributes)
    chosen = _count(options.get("num_ctx"))
    if chosen is not None:
        if estimate.tokens + (asked or 1) > chosen:
            raise _refuse(estimate, asked, chosen, attributes, "num_ctx")
        return chosen
    if limit is not None and least + (asked or 1) > limit:
        raise _refuse(estimate, asked, limit, attributes, "")
    # At its worst: a window that is too small would be cut in silence, one too large costs memory.
    wanted = estimate.tokens + estimate.error_tokens + (asked or UNSAID_OUTPUT)
    window = round_up(wanted)
    return window if limit is None else min(window, limit)


def round_up(tokens: int) -> int:
    """Returns the next step: a power of two, or one and a half times one."""
    step = LEAST_WINDOW
    while step < tokens:
        if step + step // 2 >= tokens:
            return step + step // 2
        step *= 2
    return step


def count_least(estimate: TokenCount) -> int:
    """Returns how many tokens a request is at least."""
    return max(estimate.tokens - estimate.error_tokens, 0)


def read_limit(attributes: ModelAttributes) -> int | None:
    """Returns the model's own window, where it is known."""
    return _count(attributes.access_value("context_window_tokens"))


def _count(value: Any) -> int | None:
    return value if COUNT.is_right(value) else None


def _refuse(
    estimate: TokenCount, asked: int | None, limit: int, attributes: ModelAttributes, control: str
) -> ContextOverflowError:
    model = str(attributes.address)
    wanted = f" and the {asked:,} of the answer" if asked else ""
    window = f"the control num_ctx = {limit:,}" if control else f"the window of {limit:,} tokens"
    remedy = ContextOverflowError.remedy
    if control:
        remedy = "Leave num_ctx out, to have it computed, or set it higher."
    return ContextOverflowError(
        model=model,
        tokens=estimate.tokens,
        limit=limit,
        path="controls.num_ctx" if control else "canisters",
        detail=(
            f"The input of {estimate.tokens:,} tokens (give or take {estimate.error_tokens:,})"
            f"{wanted} exceeds {window} of {model}."
        ),
        remedy=remedy,
    )
