"""Options for the requests of instruments: everything except the prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.instruments.inputs import produce_native
from vibe_llms.messages.contents import CacheHint, Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import RequestFields, WindowPolicy

if TYPE_CHECKING:
    from vibe_llms.instruments.parsers.dialogue import Listener
    from vibe_llms.invocables.ensembles import Tools


class EngineOptions(TypedDict, total=False):
    """Options of all requests.

    Attributes:
        controls: Values that override those of the model.
        schema: A JSON Schema to which answers must conform.
        invocation_choice: ``auto``, ``none``, ``required``, or the name of an invocable.
        strict: Raise an error if a request cannot be translated without a loss.
        window: Handling of the oldest turns if the conversation exceeds the model's window:
            ``stop``, ``drop``, ``summarize`` or ``vendor``.
        lenient: Omit a control that the model does not support, and report a loss.
        native: Parameters in the vendor's own format, as the vendor documents them. They override
            fields of the request, which is reported as a loss.
        cache: Let the vendor cache the tools and the conversation, as it grows from request to
            request.
    """

    controls: Mapping[str, JsonValue]
    schema: JsonObject | None
    invocation_choice: str
    strict: bool
    window: WindowPolicy
    lenient: bool
    native: JsonObject | Native
    cache: CacheHint | None


class RequestOptions(EngineOptions, total=False):
    """Options of one request except its prompt, and all of :class:`EngineOptions`.

    Attributes:
        system: Instructions, inserted before the prompt.
        tools: Tools that the model may call: functions, invokers, descriptions, server tools and
            ensembles, or a single tool. A :class:`.CacheHint` marks the function before it. The
            answer contains the model's calls; an :class:`.Engine` executes them, and the vendor
            those of a :class:`.ServerTool`.
        invocables: Descriptions of further tools.
        continuation: Let the model continue its own last turn.
    """

    system: str
    tools: Tools
    invocables: Sequence[InvocableDescription | CacheHint]
    continuation: bool


class ParseOptions(RequestOptions, total=False):
    """Options of a request whose answer is parsed.

    Attributes:
        listener: Called with each :class:`.Attempt`.
    """

    listener: Listener | None


def compose_fields(
    options: EngineOptions,
    *,
    model: str,
    controls: Mapping[str, JsonValue] | None = None,
    strict: bool = False,
    window: WindowPolicy = "stop",
    lenient: bool = False,
    cache: CacheHint | None = None,
) -> RequestFields:
    """Merge the fields of requests: the options override these defaults."""
    return {
        "model": model,
        "controls": {**(controls or {}), **options.get("controls", {})},
        "invocation_choice": options.get("invocation_choice", "auto"),
        "schema": options.get("schema"),
        "strict": options.get("strict", strict),
        "window": options.get("window", window),
        "lenient": options.get("lenient", lenient),
        "native": produce_native(options.get("native")),
        "cache": options.get("cache", cache),
    }


def check_options(options: Mapping[str, object]) -> None:
    """Refuse an unknown option, which is often a control. Raises TypeError."""
    for name in options.keys() - RequestOptions.__optional_keys__:
        hint = suggest(name, RequestOptions.__optional_keys__)
        raise TypeError(f"Unknown option {name!r}{hint} Pass controls as controls={{{name!r}: …}}.")


async def describe_ensembles(options: RequestOptions) -> RequestOptions:
    """Replace ensembles among the tools by descriptions of their tools; connect them for that.

    Raises:
        EnsembleError: An ensemble cannot be connected.
    """
    if options.get("tools") is None:
        return options
    from vibe_llms.invocables.ensembles import gather_ensembles, is_ensemble, list_tools
    from vibe_llms.invocables.registry import Registry

    tools = list_tools(options["tools"])
    if any(map(is_ensemble, tools)):
        async with Registry(gather_ensembles(tools)) as registry:
            tools = registry.describe()
    return {**options, "tools": tools}


def describe_invocables(options: RequestOptions) -> tuple[InvocableDescription, ...]:
    """Return the descriptions of all tools for the model."""
    invocables, tools = options.get("invocables", ()), options.get("tools", ())
    described = [each for each in invocables if isinstance(each, InvocableDescription)]
    if not tools and len(described) == len(invocables):
        return tuple(described)
    from vibe_llms.invocables.ensembles import describe_tools

    return (*describe_tools(invocables), *describe_tools(tools))
