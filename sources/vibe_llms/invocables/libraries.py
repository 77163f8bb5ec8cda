"""What an ensemble has besides invocables: resources to be read, and prompts to be chosen.

Both are functions with all that bounds an invocable; what differs is who decides on them: a
program and its user, never a model. So nobody is asked before they are called.
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
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Bound, Effect, Invoker, produce_invoker
from vibe_llms.invocables.outcomes import Outcome, produce_outcome
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import choose_media

READING_CHARACTERS: Final = 10_000_000
"""How long the texts of one resource may be, where it says nothing else: it is never cut."""

COMPLETIONS: Final = 100
"""How many suggestions are made at once."""

_COMPLETION_SECONDS: Final = 10.0
_ADDRESS_CHARACTERS: Final = 8_192
_GAP: Final = re.compile(r"\{([^{}]*)\}")
_PLAIN_GAP: Final = re.compile(r"\+?[A-Za-z_]\w*")

Completer: TypeAlias = Callable[[str, str, Mapping[str, str]], Any]
"""Is given the name of a gap, what of it was typed, and the other gaps; returns suggestions."""

Watch: TypeAlias = Callable[[str], AbstractAsyncContextManager[AsyncIterator[None]]]
"""Is given an address; what it iterates over goes on with each change of what is there."""

_Message: TypeAlias = UserCanister | AssistantCanister


@frozen(kw_only=True, eq=False)
class Resource:
    """Something that can be read, or many that have like addresses.

    Attributes:
        uri: Its address. With gaps in braces, such as ``notes://{name}``, it stands for many;
            ``{+name}`` takes slashes, too.
        reader: Reads it; its name and description are the resource's.
        title: What people are shown for the name.
        mime_type: Of what kind, if that is known.
        size_bytes: How large, if that is known.
        match: Returns with which arguments an address is read; ``None``: it is none of these.
        completer: Makes suggestions for the gaps.
        watch: Tells of changes.
        is_listed: Else it is for addresses that stand in no list.
        source: What it was made of, for whoever speaks the same language.
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
        """Whether the address has gaps."""
        return bool(_GAP.search(self.uri))


@frozen(kw_only=True, eq=False)
class LibraryPrompt:
    """The beginning of a conversation, written beforehand.

    Attributes:
        writer: Writes it; its name, description and schema are the prompt's. All arguments are
            texts.
        title: What people are shown for the name.
        completer: Makes suggestions for the arguments.
        source: What it was made of, for whoever speaks the same language.
    """

    writer: Invoker
    title: str = ""
    completer: Invoker | None = None
    source: object = attrs.field(default=None, repr=False)


@frozen
class Completion:
    """Suggestions, and how many there would be."""

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
    """Makes a resource of a plain or asynchronous function.

    Args:
        uri: Its address; gaps in braces are the function's parameters, which are texts.
        function: Returns a text, bytes, or contents. Its docstring becomes the description.
        title: What people are shown for the name.
        mime_type: Of what kind it is.
        size_bytes: How large it is.
        complete: Makes suggestions for the gaps.
        watch: Tells of changes.
        options: What :func:`.invokers.produce_invoker` takes.

    Raises:
        RequestError: The gaps are not the function's parameters, or there is no description.
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
    """Makes a prompt of a plain or asynchronous function.

    Args:
        function: Its parameters, which are texts, become the prompt's arguments. It returns
            what the user would say: a text or contents, or canisters of user and assistant.
        title: What people are shown for the name.
        complete: Makes suggestions for the arguments.
        options: What :func:`.invokers.produce_invoker` takes.

    Raises:
        RequestError: There is no description, or an annotation has no counterpart in JSON.
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
    """Returns what stands in the gaps where an address is made of a template; else ``None``.

    A gap is filled as shortly as what follows it allows, the last one as far as the end. A gap
    of another form than ``{name}`` or ``{+name}`` takes anything, or nothing, and gives nothing.
    """
    if len(uri) > _ADDRESS_CHARACTERS:
        return None
    first, *parts = _GAP.split(template)
    if not uri.startswith(first):
        return None
    found: dict[str, str] = {}
    rest = uri[len(first) :]
    # No pattern is made of a template: a stranger's could take for ever.
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
    """Returns how long a gap is."""
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
    # Kept where nothing is cut: of a resource nothing may be.
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
