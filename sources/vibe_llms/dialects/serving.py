"""Shared parts of dialects that serve clients. Not imported to call vendors.

An incomplete answer is marked as incomplete, if necessary as truncated by a limit, so that clients
do not treat it as complete. If a stop reason has no counterpart in the protocol, that is a loss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from vibe_llms.dialects.broken_requests import explain_missing_message
from vibe_llms.dialects.executions import restore_executions
from vibe_llms.dialects.extras import BODY, keep_native, make_native
from vibe_llms.dialects.invocations import (
    NO_ARGUMENTS,
    TakenNames,
    keep_parameters,
    wrap_own_tool,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.signatures import have_envelopes, unwrap_signatures
from vibe_llms.exceptions import ControlError, ConverseError, RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import AnyCanister, Origin, StopReason, Usage
from vibe_llms.messages.contents import CacheHint, Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.json_values import ensure_controls, ensure_schema
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, ensure_valid_choice, is_answerable
from vibe_llms.messages.trusting import trusted
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import Control, check_control
from vibe_llms.models.genera import Genus

UNKNOWN_MODEL: Final = ModelAttributes(
    address=ModelAddress("client", "client"), genus=Genus.CONVERSER, controls=(), traced_values=()
)
"""Attributes that stand for a client, which accepts everything."""


_T = TypeVar("_T")
_make_request: Final = trusted(Request)


@frozen(slots=False)
class PlainTranslation(Translation[_T]):
    """The translation of a client's conversation, or of its request, that has only plain texts.

    None of the canisters has media, reasoning or native data, so that no code need look for them.
    """


DECODING_ERRORS: Final = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""Exceptions that are raised when invalid data are decoded."""


@contextmanager
def refuse_invalid(subject: str, protocol: str, path: str = "") -> Iterator[None]:
    """Convert errors of decoding a client's data to RequestError.

    Args:
        subject: The name of the data, for the error.
        protocol: The protocol whose reference defines them.
    """
    try:
        yield
    except ConverseError:
        raise
    except DECODING_ERRORS as error:
        raise explain_invalid(subject, protocol, path, error) from error


def explain_invalid(subject: str, protocol: str, path: str, error: Exception) -> RequestError:
    """Return the error for a client's data that could not be decoded."""
    return RequestError(
        path=path,
        detail=f"{subject} is invalid: {_explain(error)}.",
        remedy=f"Compare it with the reference of {protocol}.",
    )


def _explain(error: Exception) -> str:
    """Explain an error in terms of the request, not of our code."""
    match error:
        case KeyError():
            return f"{error.args[0]!r} is missing" if error.args else "a field is missing"
        case msgspec.ValidationError():
            return str(error)
        case RecursionError():
            return "it nests too deeply"
        case _:
            return "a value has the wrong type"


def compose_request(
    canisters: Translation[tuple[AnyCanister, ...]],
    controls: Mapping[str, JsonValue],
    invocables: Translation[tuple[tuple[InvocableDescription, ...], str]],
    schema: Translation[JsonObject | None],
    *,
    native: Native | None,
    model: str = "",
    cache: CacheHint | None = None,
) -> Translation[Request]:
    """Compose the request of a client from its separately decoded parts, with all losses.

    Args:
        native: The other fields of the client's request.
        cache: The client's hint for the whole request.
    """
    is_plain = isinstance(canisters, PlainTranslation)
    unwrapped = canisters.value
    if not is_plain and have_envelopes(unwrapped):
        unwrapped = unwrap_signatures(restore_executions(unwrapped))
    descriptions, choice = invocables.value
    if not unwrapped:
        raise explain_missing_message("canisters")
    request = _make_request(
        canisters=unwrapped,
        model=model,
        controls=ensure_controls(controls),
        invocables=descriptions,
        invocation_choice=choice,
        schema=ensure_schema(schema.value),
        continuation=not is_answerable(unwrapped[-1]),
        native=native,
        cache=cache,
    )
    ensure_valid_choice(request)
    losses = (*canisters.losses, *invocables.losses, *schema.losses)
    return PlainTranslation(request, losses) if is_plain else Translation(request, losses)


_MAX_TOOLS: Final = 256
_MAX_TOOL_BYTES: Final = 4_096
"""Limits on the tools that are cached for a dialect: how many, and how long."""


def read_once(read: Callable[..., InvocableDescription]) -> Callable[..., InvocableDescription]:
    """Decorate a function that describes a client's tool from plain data: equal data are read once.

    Clients send their tools with each request. If the descriptions are the same objects, their
    translation is also cached. Data are compared as MessagePack: in JSON, numbers that are not
    finite would be null, and bytes would be texts, instead of being refused.
    """

    @functools.lru_cache(maxsize=_MAX_TOOLS)
    def read_encoded(data: bytes) -> InvocableDescription:
        return read(*msgspec.msgpack.decode(data))

    @functools.wraps(read)
    def read_known(*arguments: Any) -> InvocableDescription:
        try:
            data = msgspec.msgpack.encode(arguments)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return read(*arguments)
        return read_encoded(data) if len(data) <= _MAX_TOOL_BYTES else read(*arguments)

    return read_known


def describe_function(
    protocol: str,
    function: Mapping[str, Any],
    schema: JsonObject | None,
    extras: Mapping[str, Any],
    *,
    enforced: bool = False,
    cache: CacheHint | None = None,
) -> InvocableDescription:
    """Return the description of a function in a client's request.

    Args:
        function: The function, with its name and usually a description.
        schema: The schema of its arguments, if any.
        extras: The other fields of the function.
    """
    schema, original_schema = keep_parameters(NO_ARGUMENTS if schema is None else schema)
    extras = {**extras, **original_schema} if original_schema else extras
    description: str = function.get("description") or ""
    # Only we require a description. If it is missing, native data show that this is allowed.
    make = keep_native if description.strip() else make_native
    return InvocableDescription(
        name=function["name"],
        description=description,
        schema=schema,
        enforced=enforced,
        native=make(protocol, extras),
        cache=cache,
    )


def describe_own_tool(
    protocol: str,
    tool: Mapping[str, Any],
    name: str,
    taken: TakenNames,
    body: Mapping[str, Any] = MappingProxyType({}),
) -> InvocableDescription:
    """Return a vendor's tool as an invocable with complete native data and a unique name.

    If it is a server tool, the invocable has its common name, so that calls by any vendor match.

    Args:
        body: The other fields of the request, of which some belong to a tool.
    """
    # Imported only here, as the clients of most requests have only functions.
    from vibe_llms.dialects.server_tools import find_own_fields, read_server_tool

    server_tool = read_server_tool(protocol, tool, body)
    own_fields = find_own_fields(protocol, server_tool, body) if server_tool else {}
    if server_tool is not None:
        name = server_tool.label or server_tool.name
    return InvocableDescription(
        name=taken.find_free(name),
        description=str(tool.get("description") or ""),
        schema=None,
        native=make_native(
            protocol, {**wrap_own_tool(tool), **({BODY: own_fields} if own_fields else {})}
        ),
        server_tool=server_tool,
    )


def repeat_usage(origin: Origin, protocol: str) -> dict[str, Any] | None:
    """Return the vendor's usage data unchanged, if the vendor uses this protocol."""
    native = origin.usage.native if origin.usage is not None else None
    if native is None or origin.protocol != protocol:
        return None
    return msgspec.json.decode(native, type=dict[str, Any])


def report_merged_usage(usage: Usage, merged_buckets: Mapping[str, str], ledger: Ledger) -> None:
    """Record that tokens are included in other counts, as the protocol does not separate them.

    Args:
        merged_buckets: For each bucket, the field in which its tokens are counted.
    """
    for bucket, field in merged_buckets.items():
        if getattr(usage, bucket):
            ledger.coerce(f"usage.{bucket}", f"it is included in {field}")


def report_unknown_usage(usage: Usage, input_name: str, output_name: str, ledger: Ledger) -> None:
    """Record unknown totals: 0 is sent, as the protocol requires a number."""
    totals = ((input_name, usage.total_input_tokens), (output_name, usage.total_output_tokens))
    for field, total in totals:
        if total is None:
            ledger.synthesize(f"usage.{field}", "the vendor did not report it; 0 was inserted")


def nativize_openai_usage(
    usage: Usage, *, input_name: str, output_name: str, ledger: Ledger
) -> dict[str, Any]:
    """Return usage in OpenAI's format.

    Args:
        input_name: The name of the total of the input.
        output_name: The name of the total of the output.
    """
    merged_buckets = {"cache_write_long_tokens": f"{input_name}_details.cache_write_tokens"}
    report_merged_usage(usage, merged_buckets, ledger)
    report_unknown_usage(usage, input_name, output_name, ledger)
    cache_writes = (usage.cache_write_tokens or 0) + (usage.cache_write_long_tokens or 0)
    total_in, total_out = usage.total_input_tokens or 0, usage.total_output_tokens or 0
    return {
        input_name: total_in,
        f"{input_name}_details": {
            "cached_tokens": usage.cache_read_tokens or 0,
            "cache_write_tokens": cache_writes,
            "audio_tokens": usage.input_audio_tokens or 0,
        },
        output_name: total_out,
        f"{output_name}_details": {
            "reasoning_tokens": usage.reasoning_tokens or 0,
            "audio_tokens": usage.output_audio_tokens or 0,
        },
        "total_tokens": total_in + total_out,
    }


def keeps_native_stop_reason(origin: Origin, protocol: str) -> bool:
    """Return whether the vendor uses this protocol, so that its stop reason can be sent.

    A stream that was closed has no stop reason, and must not look complete.
    """
    is_closed = origin.native_stop_reason is None and origin.stop_reason is StopReason.INTERRUPTED
    return origin.protocol == protocol and not is_closed


def report_stop_reason(
    origin: Origin, word: str, stop_reason_of_clients: StopReason, ledger: Ledger
) -> None:
    """Record that the stop reason that is sent differs from the actual one.

    Args:
        stop_reason_of_clients: The stop reason as clients will interpret it.
    """
    if stop_reason_of_clients is not origin.stop_reason:
        reason = f"{origin.stop_reason} is sent as {word!r}: this protocol has no such reason"
        ledger.coerce("metadata.origin.stop_reason", reason)


def is_valid_control(name: str, value: JsonValue, attributes: ModelAttributes | None) -> bool:
    """Return whether a value in a request is valid for a control.

    Args:
        attributes: The model's attributes, which define its controls; by default the common
            controls.
    """
    control = attributes.access_control(name) if attributes else _access_common_control(name)
    if control is None:
        return False
    try:
        check_control(control, value)
    except ControlError:
        return False
    return True


@functools.cache
def _access_common_control(name: str) -> Control | None:
    from vibe_llms.models.definitions import produce_control
    from vibe_llms.models.keys import KEYS_BY_NAME

    key = KEYS_BY_NAME.get(name)
    return None if key is None else produce_control(name, key.definition)
