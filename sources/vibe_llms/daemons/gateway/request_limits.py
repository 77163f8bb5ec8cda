"""Limits on the counts in a translated request, checked before it is translated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from vibe_llms.daemons.admission import ServiceLimits
from vibe_llms.daemons.bodies import refuse_count
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count

# Names of fields in the protocols of all clients.
_MESSAGES: Final = frozenset({"messages", "input", "contents", "canisters"})
_PARTS: Final = frozenset(
    {"content", "parts", "tool_calls", "images", "summary", "reasoning_details"}
)
_TOOLS: Final = ("tools", "functions", "invocables")
_TOOL_GROUPS: Final = ("functionDeclarations", "function_declarations", "tools")
_CONFIGS: Final = ("generationConfig", "generation_config")
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_CHOICES: Final = ("candidateCount", "candidate_count")
_ANSWER_SCHEMAS: Final = (
    "response_format",
    "text",
    "output_config",
    "output_format",
    "format",
    "schema",
)
_OTHERS: Final = frozenset((*_TOOLS, *_ANSWER_SCHEMAS, *_CONFIGS, "n"))
"""Fields with anything that is counted, except messages."""


@frozen(kw_only=True)
class GatewayLimits(ServiceLimits):
    """Limits on concurrent requests, and on the counts in a translated request.

    Attributes:
        messages: Maximum number of messages, items or contents of the conversation.
        parts: Maximum number of parts of all messages together.
        tools: Maximum number of tools, including tools of the vendor.
        choices: Maximum number of requested answers.
        schema_properties: Maximum number of properties in the schemas of all tools and of the
            answer together.
        schema_nodes: Maximum number of JSON values in these schemas, at any depth.
    """

    messages: Count = 20_000
    parts: Count = 100_000
    tools: Count = 2_000
    choices: Count = 128
    schema_properties: Count = 20_000
    schema_nodes: Count = 100_000


def ensure_bounds(native: Mapping[str, Any], limits: GatewayLimits, body: bytes = b"") -> None:
    """Check the counts in a request of any protocol.

    Args:
        body: Its JSON, if it has one.

    Raises:
        LimitError: A count exceeds its limit.
    """
    request = native.get("request")
    if request.__class__ is dict:  # our own protocol
        native = request
    fields = native.keys()
    messages: list[Any] = []
    for name in _MESSAGES & fields:
        messages += _list(native, name)
    tools: list[object] = []
    nodes = properties = choices = 0
    if not fields.isdisjoint(_OTHERS):  # unlike most requests
        tools, choices = list(_list_tools(native)), _count_choices(native)
        answer_schemas = [native.get(name) for name in _ANSWER_SCHEMAS]
        nodes, properties = _measure([*tools, *answer_schemas, *_list_configs(native)])
    # A part has two bytes, with the bracket or comma before it. Most bodies are too short for many.
    is_short = 0 < len(body) <= 2 * limits.parts
    parts = 0 if is_short else _count_parts([*messages, native.get("system")])
    counts = (
        ("messages", limits.messages, len(messages)),
        ("parts", limits.parts, parts),
        ("tools", limits.tools, len(tools)),
        ("choices", limits.choices, choices),
        ("schema_properties", limits.schema_properties, properties),
        ("schema_nodes", limits.schema_nodes, nodes),
    )
    for limit, maximum, count in counts:
        if count > maximum:
            raise refuse_count(limit, maximum, f"{count:,} {limit.replace('_', ' ')}")


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    return value if isinstance(value, list) else []


def _list_configs(native: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in _CONFIGS:
        if isinstance(config := native.get(name), Mapping):
            yield config


def _list_tools(native: Mapping[str, Any]) -> Iterator[object]:
    """Yield all tools, including those in groups."""
    for name in _TOOLS:
        for tool in _list(native, name):
            group: list[Any] = []
            if isinstance(tool, Mapping):
                group = [each for field in _TOOL_GROUPS for each in _list(tool, field)]
            yield from group or (tool,)


def _count_parts(messages: Iterable[object]) -> int:
    count = 0
    for message in messages:
        if isinstance(message, dict):
            is_text = message.get("content").__class__ is str
            if is_text and len(message) == 2 and "role" in message:
                continue  # most messages
            for name, value in message.items():
                if value.__class__ is list and name in _PARTS:
                    count += len(value)
        elif isinstance(message, list):
            count += len(message)
    return count


def _count_choices(native: Mapping[str, Any]) -> int:
    values = [native.get("n")]
    for config in _list_configs(native):
        values += [config.get(name) for name in _CHOICES]
    return max((each for each in values if isinstance(each, int)), default=0)


def _measure(schemas: list[Any]) -> tuple[int, int]:
    """Count the values at any depth, and the properties."""
    nodes = properties = 0
    pending = [each for each in schemas if each is not None]
    while pending:
        value = pending.pop()
        nodes += 1
        if value.__class__ in _SCALARS:  # most values; the next two questions are slow for them
            continue
        if isinstance(value, Mapping):
            inner = value.get("properties")
            properties += len(inner) if isinstance(inner, Mapping) else 0
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return nodes, properties
