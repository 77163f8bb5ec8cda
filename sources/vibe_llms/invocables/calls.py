"""One call as data: its arguments in one form, its digest, and the canister of its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import ParseError, RequestError, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.validation import ArgumentFault
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.trusting import trusted

if TYPE_CHECKING:
    from vibe_llms.invocables.outcomes import Outcome


_make_result: Final = trusted(ResultCanister)  # an outcome and a call have checked it all

# Without NaN, which is no JSON, and not even equal to itself.
_write = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
).encode


def canonicalize(arguments: JsonObject) -> str:
    """Writes arguments so that equal ones have equal texts: keys sorted, no blanks, 1.0 as 1.

    Raises:
        RequestError: They are beyond JSON, or nest too deeply.
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
    """Makes numbers that are equal alike."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {name: _normalize(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normalize(each) for each in value]
    return value


def digest_call(name: str, arguments: JsonObject, *, in_doubt: bool = False) -> str:
    """Names a call by its meaning: a SHA-256, in lower-case hexadecimal digits.

    Args:
        in_doubt: It may have taken effect already, so that it means something else.

    Raises:
        RequestError: The arguments are beyond JSON.
    """
    # As a list: no end of a name can pass for the beginning of arguments.
    text = json.dumps([name, canonicalize(arguments), *(["in doubt"] if in_doubt else [])])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_arguments(canister: InvocationCanister) -> JsonObject | ArgumentFault:
    """Reads what a model wrote for arguments; a fault where they are no JSON object."""
    if canister.form == "text":
        return ArgumentFault(
            path="arguments", rule=f"{canister.name} takes a JSON object, not free text"
        )
    try:
        return canister.parse_arguments()
    except ParseError as error:
        return ArgumentFault(path="arguments", rule=error.detail)


def compose_result(canister: InvocationCanister, outcome: Outcome) -> ResultCanister:
    """Makes the canister that answers an invocation."""
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
    """Groups the calls of a turn that one execution can answer.

    Args:
        calls: The invocations of one turn, in order.
        is_pure: Tells by a name whether executing it twice brings the same and does nothing.

    Returns:
        Groups of indexes into the calls, each index in one of them, in the order of their first;
        the first of a group is executed, and each of it gets a result of its own.
    """
    groups: dict[object, list[int]] = {}
    for index, call in enumerate(calls):
        groups.setdefault(_identify(call, index, is_pure), []).append(index)
    return tuple(tuple(group) for group in groups.values())


def _identify(call: InvocationCanister, index: int, is_pure: Callable[[str], bool]) -> object:
    """Returns what is equal for calls that one execution answers."""
    if not is_pure(call.name):
        return index
    arguments = read_arguments(call)
    if not isinstance(arguments, Mapping):
        return index
    try:
        return call.name, canonicalize(arguments)
    except ValueError:  # beyond what has a canonical form: nothing is identical to it
        return index
