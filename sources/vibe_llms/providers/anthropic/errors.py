"""Errors of ``anthropic``: the dialect knows what they mean."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_llms.dialects.messages import produce_error
from vibe_llms.exceptions import ConverseError
from vibe_llms.plain import JsonObject


def explain_answer(
    body: JsonObject | str, provider: str, model: str, status: int, headers: Mapping[str, str]
) -> ConverseError:
    """Makes the exception for an answer with the status of an error."""
    return produce_error(body, provider=provider, model=model, status=status, headers=headers)
