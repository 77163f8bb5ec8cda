"""Content of an ensemble besides invocables: resources to read, and prompts to choose.

Both are functions with the limits of an invocable; the difference is that a program and its user
decide on them, never a model. So they need no approval.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import attrs

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.bindings import Bound
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Effect, Invoker, produce_invoker
from vibe_llms.invocables.outcomes import Outcome, produce_outcome
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import choose_media

READING_CHARACTERS: Final = 10_000_000
"""Default limit of a resource's text, which is never cut."""

COMPLETIONS: Final = 100
"""Maximum number of suggestions."""

_COMPLETION_SECONDS: Final = 10.0
_ADDRESS_CHARACTERS: Final = 8_192
_GAP: Final = re.compile(r"\{([^{}]*)\}")
_PLAIN_GAP: Final = re.compile(r"\+?[A-Za-z_]\w*")

Completer: TypeAlias = Callable[[str, str, Mapping[str, str]], Any]
"""Called with the name of a gap, the typed prefix, and the other gaps; returns suggestions."""

Watch: TypeAlias = Callable[[str], AbstractAsyncContextManager[AsyncIterator[None]]]
"""Called with an address; its iterator yields at each change of the resource."""

_Message: TypeAlias = UserCanister | AssistantCanister


@frozen(kw_only=True, eq=False)
class Resource:
    """A readable resource, or a template of many.

    Attributes:
        uri: Its address. With gaps in braces, such as ``notes://{name}``, it stands for many;
            ``{+name}`` matches slashes, too.
        reader: Reads it; the resource has its name and description.
        title: Display name.
        mime_type: Media type, if known.
        size_bytes: Size, if known.
        match: Returns the reader's arguments for an address; ``None`` if the address does not
            match.
        completer: Suggests values for the gaps.
        watch: Reports changes.
        is_listed: False for a resource that is not listed, for unlisted addresses.
        source: The object it was made from, for consumers of the same protocol.
    """

    uri: str
    reader: Invoker
    title: str = ""
    mime_type: str = ""
    size_bytes: int | None = None
    match: Callable[[str], JsonObject | None] = attrs.field(repr=False)
    completer: Invoker | None = None
    watch: Watch | None = None
    is_listed: bool = True
    source: object = attrs.field(default=None, repr=False)

    @match.default
    def _match_gaps(self) -> Callable[[str], JsonObject | None]:
        return partial(match_address, self.uri)

    @property
    def is_template(self) -> bool:
        """True if the address has gaps."""
        return bool(_GAP.search(self.uri))


@frozen(kw_only=True, eq=False)
class LibraryPrompt:
    """A prepared beginning of a conversation.

    Attributes:
        writer: Writes it; the prompt has its name, description and schema. All arguments are texts.
        title: Display name.
        completer: Suggests values for the arguments.
        source: The object it was made from, for consumers of the same protocol.
    """

    writer: Invoker
    title: str = ""
    completer: Invoker | None = None
    source: object = attrs.field(default=None, repr=False)


@frozen
class Completion:
    """Suggestions, and their total number."""

    values: tuple[str, ...]
    total: int | None = None


def produce_resource(
    uri: str,
    function: Callable[..., Any],
    *,
    title: str = "",
    mime_type: str = "",
    size_bytes: int | None = None,
    complete: Completer | None = None,
    watch: Watch | None = None,
    **options: Any,
) -> Resource:
    """Create a resource from a plain or asynchronous function.

    Args:
        uri: Its address; gaps in braces are the function's parameters, which are texts.
        function: Returns a text, bytes, or contents. Its docstring becomes the description.
        title: Display name.
        mime_type: Media type.
        size_bytes: Size.
        complete: Suggests values for the gaps.
        watch: Reports changes.
        options: The options of :func:`.invokers.produce_invoker`.

    Raises:
        RequestError: The gaps are not the function's parameters, or the description is missing.
    """
    made = produce_invoker(
        function,
        **{
            "effect": Effect.PURE,
            "output_limit_characters": READING_CHARACTERS,
            "conclude": partial(_conclude_reading, mime_type),
            **options,
        },
    )
    gaps = [each.lstrip("+") for each in _GAP.findall(uri)]
    parameters = made.schema.get("properties") or {}
    if set(gaps) != set(parameters) or not all(map(_PLAIN_GAP.fullmatch, _GAP.findall(uri))):  # type: ignore[arg-type]
        raise RequestError(
            path=uri,
            detail=f"The placeholders of {uri!r} differ from the parameters of {made.name!r}.",
            remedy="Use the same names: {name} or {+name} in the address, and name in the "
            "function.",
            stage=Stage.CONFIGURE,
        )
    return Resource(
        uri=uri,
        reader=made,
        title=title,
        mime_type=mime_type,
        size_bytes=size_bytes,
        completer=_produce_completer(complete, uri),
        watch=watch,
    )


def produce_prompt(
    function: Callable[..., Any],
    *,
    title: str = "",
    complete: Completer | None = None,
    **options: Any,
) -> LibraryPrompt:
    """Create a prompt from a plain or asynchronous function.

    Args:
        function: Its parameters, which are texts, become the prompt's arguments. It returns the
            user's message: a text or contents, or canisters of user and assistant.
        title: Display name.
        complete: Suggests values for the arguments.
        options: The options of :func:`.invokers.produce_invoker`.

    Raises:
        RequestError: The description is missing, or an annotation has no counterpart in JSON.
    """
    made = produce_invoker(
        function, **{"effect": Effect.PURE, "conclude": _conclude_prompt, **options}
    )
    return LibraryPrompt(
        writer=made, title=title, completer=_produce_completer(complete, made.name)
    )


def _produce_completer(complete: Completer | None, name: str) -> Invoker | None:
    if complete is None:
        return None

    def bind(arguments: JsonObject, context: InvocationContext) -> Bound:
        return Bound((arguments["argument"], arguments["value"], arguments["others"]))

    return Invoker(
        name=name,
        description="Makes suggestions.",
        schema={"type": "object"},
        function=complete,
        bind=bind,
        effect=Effect.PURE,
        time_limit_seconds=_COMPLETION_SECONDS,
        conclude=_conclude_completion,
    )


def match_address(template: str, uri: str) -> dict[str, str] | None:
    """Return the values of the gaps if an address matches a template; else ``None``.

    A gap takes the shortest match, the last one the rest. A gap in another form than ``{name}`` or
    ``{+name}`` matches any text, also an empty one, and has no value.
    """
    if len(uri) > _ADDRESS_CHARACTERS:
        return None
    first, *parts = _GAP.split(template)
    if not uri.startswith(first):
        return None
    found: dict[str, str] = {}
    rest = uri[len(first) :]
    # No regular expression is made of a template: a stranger's could take forever.
    for number in range(0, len(parts), 2):
        gap, literal = parts[number], parts[number + 1]
        is_plain = bool(_PLAIN_GAP.fullmatch(gap))
        is_last = number == len(parts) - 2
        end = _find_end(rest, literal, is_last=is_last, least=int(is_plain))
        if end is None:
            return None
        value, rest = rest[:end], rest[end + len(literal) :]
        if is_plain and not gap.startswith("+") and set(value) & set("/?#"):
            return None
        if is_plain:
            found[gap.lstrip("+")] = unquote(value)
    return found if not rest else None


def _find_end(rest: str, literal: str, *, is_last: bool, least: int) -> int | None:
    """Return the length of a gap."""
    if is_last:
        end = len(rest) - len(literal)
        return end if end >= least and rest.endswith(literal) else None
    end = rest.find(literal, least)
    return None if end < 0 else end


def _conclude_reading(mime_type: str, value: Any) -> Outcome:
    if isinstance(value, (bytes, bytearray)):
        kind = mime_type or "application/octet-stream"
        value = choose_media(kind)(mime_type=kind, data=bytes(value))
    outcome = produce_outcome(value)
    # Kept only if nothing is cut: a resource must stay whole.
    return attrs.evolve(
        outcome, source=outcome.contents if outcome.source is None else outcome.source
    )


def _conclude_prompt(value: Any) -> Outcome:
    said = value if isinstance(value, (list, tuple)) else [value]
    if said and all(isinstance(each, (UserCanister, AssistantCanister)) for each in said):
        messages: Sequence[_Message] = said
        contents = tuple(content for message in messages for content in message.content)
        return Outcome(contents=contents, source=tuple(messages))
    outcome = produce_outcome(value)
    if outcome.is_error or outcome.source is not None:
        return outcome
    return attrs.evolve(outcome, source=(UserCanister(outcome.contents),))


def _conclude_completion(value: Any) -> Outcome:
    if isinstance(value, Outcome):
        return value
    if not isinstance(value, Completion):
        value = Completion(tuple(str(each) for each in value or ()))
    total = len(value.values) if value.total is None else value.total
    return Outcome(source=Completion(value.values[:COMPLETIONS], total))
