"""Choice of the window for a request, so that the server never truncates it silently.

If the window is too small, the server silently omits the oldest messages. So each request sets the
window that it needs. Windows grow in steps, because the server reloads the model for another size.
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

MIN_WINDOW: Final = 4096
"""The server's default on a small machine."""

UNSAID_OUTPUT: Final = 4096
"""Tokens reserved for an answer without a maximum; fewer if the model has a smaller window."""


def choose_window(
    request: Request,
    attributes: ModelAttributes,
    options: Mapping[str, JsonValue],
    estimate: TokenCount | None = None,
) -> int:
    """Return the window in tokens, input and output together.

    Args:
        options: Options of the native request: ``num_ctx`` is chosen by the user, and
            ``num_predict`` is the maximum answer.
        estimate: Tokens of the request; by default they are estimated.

    Raises:
        ContextOverflowError: The request certainly exceeds the model's window, or it probably
            exceeds the smaller window that the user chose and can enlarge.
    """
    estimate = estimate or estimate_request(request, attributes)
    min_tokens = count_minimum(estimate)
    answer_tokens, limit = _count(options.get("num_predict")), read_limit(attributes)
    chosen = _count(options.get("num_ctx"))
    if chosen is not None:
        if estimate.tokens + (answer_tokens or 1) > chosen:
            raise _refuse(estimate, answer_tokens, chosen, attributes, "num_ctx")
        return chosen
    if limit is not None and min_tokens + (answer_tokens or 1) > limit:
        raise _refuse(estimate, answer_tokens, limit, attributes, "")
    # Use the upper bound of the estimate: a window that is too small truncates silently, while one
    # that is too large only costs memory.
    needed = estimate.tokens + estimate.error_tokens + (answer_tokens or UNSAID_OUTPUT)
    window = round_up(needed)
    return window if limit is None else min(window, limit)


def round_up(tokens: int) -> int:
    """Return the next step: a power of two, or 1.5 times a power of two."""
    step = MIN_WINDOW
    while step < tokens:
        if step + step // 2 >= tokens:
            return step + step // 2
        step *= 2
    return step


def count_minimum(estimate: TokenCount) -> int:
    """Return the lower bound of the tokens of a request."""
    return max(estimate.tokens - estimate.error_tokens, 0)


def read_limit(attributes: ModelAttributes) -> int | None:
    """Return the window of the model itself, if known."""
    return _count(attributes.access_value("context_window_tokens"))


def _count(value: Any) -> int | None:
    return value if COUNT.is_valid(value) else None


def _refuse(
    estimate: TokenCount,
    answer_tokens: int | None,
    limit: int,
    attributes: ModelAttributes,
    control: str,
) -> ContextOverflowError:
    model = str(attributes.address)
    needed = f" and the {answer_tokens:,} of the answer" if answer_tokens else ""
    window = f"the control num_ctx = {limit:,}" if control else f"the window of {limit:,} tokens"
    remedy = ContextOverflowError.remedy
    if control:
        remedy = "Remove num_ctx, so that it is computed, or raise it."
    return ContextOverflowError(
        model=model,
        tokens=estimate.tokens,
        limit=limit,
        path="controls.num_ctx" if control else "canisters",
        detail=(
            f"The input of {estimate.tokens:,} tokens (± {estimate.error_tokens:,})"
            f"{needed} exceeds {window} of {model}."
        ),
        remedy=remedy,
    )
