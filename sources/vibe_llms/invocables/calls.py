"""Calls as data: canonical arguments, digests, and canisters of results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import ParseError, RequestError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.argument_faults import ArgumentFault
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.trusting import trusted

if TYPE_CHECKING:
    from vibe_llms.invocables.outcomes import Outcome


_make_result: Final = trusted(ResultCanister)  # the outcome and the call are already validated

# Without NaN, which is not JSON, and not even equal to itself.
_write = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
).encode


def canonicalize(arguments: JsonObject) -> str:
    """Write arguments as canonical JSON: keys sorted, no spaces, 1.0 as 1.

    Raises:
        RequestError: The arguments cannot be written as JSON, or are nested too deeply.
    """
    try:
        return _write(_normalize(arguments))
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(
            path="arguments",
            detail=f"The arguments have no canonical form: {error}.",
            remedy="Pass plain JSON that nests less deeply.",
            stage=Stage.EXECUTE,
        ) from error


def _normalize(value: Any) -> Any:
    """Replace floats that are integers, so that equal numbers are written identically."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {name: _normalize(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normalize(each) for each in value]
    return value


def digest_call(name: str, arguments: JsonObject, *, in_doubt: bool = False) -> str:
    """Identify a call by its meaning: a SHA-256, in lower-case hexadecimal digits.

    Args:
        in_doubt: The call may already have taken effect, so that it needs a separate approval.

    Raises:
        RequestError: The arguments cannot be written as JSON.
    """
    # A list separates the name from the arguments unambiguously.
    parts = [name, canonicalize(arguments)]
    if in_doubt:
        parts.append("in doubt")
    text = json.dumps(parts)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_arguments(canister: InvocationCanister) -> JsonObject | ArgumentFault:
    """Parse a model's arguments; return a fault if they are not a JSON object."""
    if canister.form == "text":
        return ArgumentFault(
            path="arguments", rule=f"{canister.name} takes a JSON object, not free text"
        )
    try:
        return canister.parse_arguments()
    except ParseError as error:
        return ArgumentFault(path="arguments", rule=error.detail)


def compose_result(canister: InvocationCanister, outcome: Outcome) -> ResultCanister:
    """Create the canister that answers an invocation."""
    return _make_result(
        timestamp=access_now(),
        content=outcome.contents,
        id=produce_identity(),
        invocation_id=canister.invocation_id,
        name=canister.name,
        is_error=bool(outcome.is_error),
    )


def group_identical(
    calls: Sequence[InvocationCanister], is_pure: Callable[[str], bool]
) -> tuple[tuple[int, ...], ...]:
    """Group the calls of a turn that can share one execution.

    Args:
        calls: The invocations of one turn, in order.
        is_pure: Returns whether the invocable of this name has no effect, so that identical calls
            can share one execution.

    Returns:
        Groups of indexes into the calls, ordered by their first index. The first call of a group is
        executed, and each call gets a copy of the result.
    """
    groups: dict[object, list[int]] = {}
    for index, call in enumerate(calls):
        groups.setdefault(_identify(call, index, is_pure), []).append(index)
    return tuple(tuple(group) for group in groups.values())


def _identify(call: InvocationCanister, index: int, is_pure: Callable[[str], bool]) -> object:
    """Return a key that is equal for calls that can share one execution."""
    if not is_pure(call.name):
        return index
    arguments = read_arguments(call)
    if not isinstance(arguments, Mapping):
        return index
    try:
        return call.name, canonicalize(arguments)
    except ValueError:  # without a canonical form, a call is identical to no other
        return index
