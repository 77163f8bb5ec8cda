"""Errors of ``local``: exceptions for llama.cpp's error messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vibe_llms.dialects.chat_completions.calling.errors import (
    produce_error as produce_dialect_error,
)
from vibe_llms.exceptions import (
    CapabilityError,
    ContextOverflowError,
    ConverseError,
    RequestError,
)
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.local.inference import NOT_ENFORCED, EngineFault


def produce_error(fault: EngineFault, model: ModelDescriptor) -> ConverseError:
    """Make the exception for llama.cpp's error message; the most specific match wins."""
    message = str(fault)
    for words, produce in _PRODUCERS.items():
        if words in message:
            return produce(fault, str(model))
    return produce_dialect_error(fault.facts, provider=model.provider, model=str(model))


def _produce_overflow(fault: EngineFault, model: str) -> ConverseError:
    tokens, limit = fault.facts.get("n_prompt_tokens"), fault.facts.get("n_ctx")
    sizes = "" if tokens is None else f": it has {tokens} tokens, the window has {limit}"
    return ContextOverflowError(
        model=model,
        tokens=tokens,
        limit=limit,
        path="canisters",
        detail=f"The conversation does not fit into the window of {model}{sizes}.",
        remedy=f"{ContextOverflowError.remedy} If the weights allow more, raise context_tokens in "
        f"[providers.{model.partition(':')[0]}].",
    )


def _produce_schema_error(fault: EngineFault, model: str) -> ConverseError:
    reason = str(fault).partition("JSON schema error")[2].removeprefix(" at #: ")
    return RequestError(
        path="schema",
        detail=f"llama.cpp cannot enforce this schema: {reason}.",
        remedy="Change the schema.",
    )


def _produce_grammar_error(fault: EngineFault, model: str) -> ConverseError:
    return RequestError(
        path="schema",
        detail="llama.cpp cannot enforce this schema, or that of an invocable.",
        remedy="Use simpler types, references that exist, and bounds that can be met.",
    )


def _produce_capability_error(fault: EngineFault, model: str) -> ConverseError:
    return CapabilityError(
        model=model,
        detail=f"The model {model} does not support this: {str(fault).partition(' - ')[0]}.",
        remedy="Remove it, or use a model that does.",
    )


_PRODUCERS: Final[dict[str, Callable[[EngineFault, str], ConverseError]]] = {
    "exceeds the available context size": _produce_overflow,
    "Context size has been exceeded": _produce_overflow,
    "JSON schema error": _produce_schema_error,
    "failed to parse grammar": _produce_grammar_error,
    NOT_ENFORCED: _produce_grammar_error,
    "input is not supported": _produce_capability_error,
}
"""Exceptions by a part of the message: most errors do not have a type."""
