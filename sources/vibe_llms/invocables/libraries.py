"""Resources and prompts: what an ensemble can offer in addition to invocables.

Both are functions with the limits of an invocable. Resources and prompts need no approval, because
a program or its user chooses them, never a model.
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
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_NAMED_PLACEHOLDER: Final = re.compile(r"\+?[A-Za-z_]\w*")

Completer: TypeAlias = Callable[[str, str, Mapping[str, str]], Any]
"""Returns suggestions for the name of a placeholder, the typed prefix, and the other values."""

Watch: TypeAlias = Callable[[str], AbstractAsyncContextManager[AsyncIterator[None]]]
"""Watches the resource at an address; the iterator yields at each change."""

_Message: TypeAlias = UserCanister | AssistantCanister


@frozen(kw_only=True, eq=False)
class Resource:
    """A readable resource, or a template of many.

    Attributes:
        uri: Its address. An address with placeholders, such as ``notes://{name}``, is the template
            of many resources; ``{+name}`` matches slashes, too.
        reader: The function that reads it, whose name and description the resource has.
        title: Display name.
        mime_type: Media type, if known.
        size_bytes: Size, if known.
        match: Returns the reader's arguments for an address; ``None`` if the address does not
            match.
        completer: Suggests values for the placeholders.
        watch: Reports changes.
        is_listed: False for a resource that can be read but does not appear in lists.
        source: The original object, for consumers that use its protocol.
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
    def _match_uri(self) -> Callable[[str], JsonObject | None]:
        return partial(match_address, self.uri)

    @property
    def is_template(self) -> bool:
        """True if the address has placeholders."""
        return bool(_PLACEHOLDER.search(self.uri))


@frozen(kw_only=True, eq=False)
class LibraryPrompt:
    """A prepared start of a conversation, which a user can choose.

    Attributes:
        writer: The function that writes it, whose name, description and schema the prompt has. All
            arguments are texts.
        title: Display name.
        completer: Suggests values for the arguments.
        source: The original object, for consumers that use its protocol.
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
        uri: Address of the resource. Its placeholders are the function's parameters, which are
            texts.
        function: Returns a text, bytes, or contents. Its docstring becomes the description.
        title: Display name.
        mime_type: Media type.
        size_bytes: Size.
        complete: Suggests values for the placeholders.
        watch: Reports changes.
        options: The options of :func:`.invokers.produce_invoker`.

    Raises:
        RequestError: The placeholders differ from the function's parameters, or the description is
            missing.
    """
    invoker = produce_invoker(
        function,
        **{
            "effect": Effect.PURE,
            "output_limit_characters": READING_CHARACTERS,
            "conclude": partial(_conclude_reading, mime_type),
            **options,
        },
    )
    placeholders = _PLACEHOLDER.findall(uri)
    names = {each.lstrip("+") for each in placeholders}
    parameters = invoker.schema.get("properties") or {}
    if names != set(parameters) or not all(map(_NAMED_PLACEHOLDER.fullmatch, placeholders)):  # type: ignore[arg-type]
        raise RequestError(
            path=uri,
            detail=f"The placeholders of {uri!r} differ from the parameters of {invoker.name!r}.",
            remedy="Use the same names: {name} or {+name} in the address, and name in the "
            "function.",
            stage=Stage.CONFIGURE,
        )
    return Resource(
        uri=uri,
        reader=invoker,
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
    invoker = produce_invoker(
        function, **{"effect": Effect.PURE, "conclude": _conclude_prompt, **options}
    )
    return LibraryPrompt(
        writer=invoker, title=title, completer=_produce_completer(complete, invoker.name)
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
    """Return the values of the placeholders if an address matches a template; else ``None``.

    A placeholder takes the shortest match, and the last one takes the rest. A placeholder that is
    neither ``{name}`` nor ``{+name}`` matches any text, even an empty one, and has no value.
    """
    if len(uri) > _ADDRESS_CHARACTERS:
        return None
    first, *parts = _PLACEHOLDER.split(template)
    if not uri.startswith(first):
        return None
    values: dict[str, str] = {}
    remaining_uri = uri[len(first) :]
    # Not by a regular expression: one made from an untrusted template could backtrack endlessly.
    for number in range(0, len(parts), 2):
        placeholder, literal = parts[number], parts[number + 1]
        is_named = bool(_NAMED_PLACEHOLDER.fullmatch(placeholder))
        is_last = number == len(parts) - 2
        end = _find_end(remaining_uri, literal, is_last=is_last, minimum=int(is_named))
        if end is None:
            return None
        value, remaining_uri = remaining_uri[:end], remaining_uri[end + len(literal) :]
        if is_named and not placeholder.startswith("+") and set(value) & set("/?#"):
            return None
        if is_named:
            values[placeholder.lstrip("+")] = unquote(value)
    return values if not remaining_uri else None


def _find_end(remaining_uri: str, literal: str, *, is_last: bool, minimum: int) -> int | None:
    """Return the length of a placeholder's value; ``None`` if the rest does not match."""
    if is_last:
        end = len(remaining_uri) - len(literal)
        return end if end >= minimum and remaining_uri.endswith(literal) else None
    end = remaining_uri.find(literal, minimum)
    return None if end < 0 else end


def _conclude_reading(mime_type: str, value: Any) -> Outcome:
    if isinstance(value, (bytes, bytearray)):
        kind = mime_type or "application/octet-stream"
        value = choose_media(kind)(mime_type=kind, data=bytes(value))
    outcome = produce_outcome(value)
    # limit_outcome removes the source if it cuts anything, and a cut resource is then refused.
    return attrs.evolve(
        outcome, source=outcome.contents if outcome.source is None else outcome.source
    )


def _conclude_prompt(value: Any) -> Outcome:
    items = value if isinstance(value, (list, tuple)) else [value]
    if items and all(isinstance(each, (UserCanister, AssistantCanister)) for each in items):
        messages: Sequence[_Message] = items
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
