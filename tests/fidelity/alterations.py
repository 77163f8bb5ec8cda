"""Takes every field of a request in turn and says something else in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.contents import (
    CONTENT_CLASSES,
    MEDIA_CLASSES,
    AudioContent,
    Citation,
    Native,
    NativeContent,
    TextualContent,
)
from vibe_llms.messages.requests import Request
from vibe_llms.messages.server_tools import ServerTool

KEPT_TO_OURSELVES: Final = {
    "type": "what kind of thing it is",
    "role": "what kind of thing it is",
    "id": "a name of ours",
    "timestamp": "when it was said; no vendor asks",
    "turn_id": "shows in which message a thing stands",
    "origin": "shows whose signatures may go",
    "owner": "what kind of thing it is",
    "form": "what kind of thing it is",
    "invocation_id": "ties a result to its invocation, under whatever name",
    "content_id": "a name of ours for the data",
    "model": "goes by the attributes",
    "conversation_id": "a name of ours",
    "strict": "a matter of ours",
    "continuation": "shows in who has the last word",
}
"""Fields that are no vendor's business or cannot be altered alone, and why."""

_TYPES: Final = {
    "image/png": "image/jpeg",
    "audio/wav": "audio/mpeg",
    "video/mp4": "video/webm",
    "text/plain": "text/markdown",
}
_CONTROLS: Final = {
    "reasoning_effort": "high",
    "verbosity": "high",
    "service_tier": "default",
    "parallel_invocations": True,
    "stop": ["STOP"],
    "background": False,
    "min_p": 0.2,
    "top_p": 0.2,
}


@attrs.frozen
class Alteration:
    """A request that says something else in one field.

    Attributes:
        path: Of the field.
        request: As it is then.
        was_set: Whether the field had said anything before.
    """

    path: str
    request: Request
    was_set: bool


def alter_request(request: Request, protocol: str) -> Iterator[Alteration]:
    """Yields alterations of every field, one at a time.

    Args:
        protocol: In which what is native is put where nothing native was.
    """
    for index, canister in enumerate(request.canisters):
        for path, altered, was_set in _alter(canister, f"canisters[{index}]", protocol):
            canisters = [*request.canisters]
            canisters[index] = altered
            yield from _evolve(request, path, was_set, canisters=canisters)
    for index, invocable in enumerate(request.invocables):
        for path, altered, was_set in _alter(invocable, f"invocables[{index}]", protocol):
            invocables = [*request.invocables]
            invocables[index] = altered
            yield from _evolve(request, path, was_set, invocables=invocables)
    yield from _alter_settings(request, protocol)


def _alter_settings(request: Request, protocol: str) -> Iterator[Alteration]:
    for name, value in request.controls.items():
        other = _CONTROLS[name] if name in _CONTROLS else value + 1  # type: ignore[operator]
        rest = {key: each for key, each in request.controls.items() if key != name}
        for controls in (rest, {**rest, name: other}):
            yield from _evolve(request, f"controls.{name}", True, controls=controls)
    for choice in ("none", "required", *(invocable.name for invocable in request.invocables)):
        yield from _evolve(request, "invocation_choice", False, invocation_choice=choice)
    for schema, was_set in _alter_value("schema", request.schema, protocol):
        yield from _evolve(request, "schema", was_set, schema=schema)
    for native, was_set in _alter_native(request.native, protocol):
        yield from _evolve(request, "request.native", was_set, native=native)


def _evolve(request: Request, path: str, was_set: bool, **fields: Any) -> Iterator[Alteration]:
    try:
        altered = attrs.evolve(request, **fields)
    except RequestError:
        return  # nobody can say that
    yield Alteration(path, altered, was_set)


def _alter(value: Any, path: str, protocol: str) -> Iterator[tuple[str, Any, bool]]:
    """Yields the path of each field within a value, and the value with that field altered."""
    for field in attrs.fields(type(value)):
        if field.name in KEPT_TO_OURSELVES or not field.init:
            continue
        held, place = getattr(value, field.name), f"{path}.{field.name}"
        if _is_composite(held):
            for index, member in enumerate(held):
                for inner, altered, was_set in _alter(member, f"{place}[{index}]", protocol):
                    members = [*held]
                    members[index] = altered
                    yield inner, attrs.evolve(value, **{field.name: members}), was_set
            continue
        if isinstance(held, ServerTool):
            for inner, altered, was_set in _alter(held, place, protocol):
                yield inner, attrs.evolve(value, **{field.name: altered}), was_set
            continue
        if not _is_alterable(value, field.name):
            continue
        for altered, was_set in _alter_field(value, field.name, held, protocol):
            try:
                yield place, altered, was_set
            except RequestError:
                continue


def _is_composite(held: object) -> bool:
    classes = (*CONTENT_CLASSES.values(), Citation)
    return isinstance(held, tuple) and bool(held) and isinstance(held[0], classes)


def _is_alterable(value: Any, name: str) -> bool:
    """Tells whether a field means something of its own where it stands."""
    if isinstance(value, MEDIA_CLASSES) and name in ("mime_type", "data", "url", "file_id"):
        given = [source for source in (value.data, value.url, value.file_id) if source is not None]
        if len(given) > 1:  # one of them is enough
            return False
        # Of what is elsewhere, the bytes there tell the type.
        return getattr(value, name) is not None and (name != "mime_type" or value.data is not None)
    # An invocation says the name of its result.
    return not (isinstance(value, ResultCanister) and name == "name")


def _alter_field(value: Any, name: str, held: Any, protocol: str) -> Iterator[tuple[Any, bool]]:
    if name == "data" and isinstance(value, MEDIA_CLASSES):
        yield attrs.evolve(value, data=held + b"!", content_id=None), True
        return
    if name == "arguments":
        other = '{"place": "Trondheim"}' if value.form == "json" else held + " altered"
        yield attrs.evolve(value, arguments=other), True
        return
    for other, was_set in _alter_value(name, held, protocol):
        if other is None and name == "native" and isinstance(value, NativeContent):
            continue
        try:
            yield attrs.evolve(value, **{name: other}), was_set
        except RequestError:
            continue


def _alter_value(name: str, held: Any, protocol: str) -> Iterator[tuple[Any, bool]]:
    """Yields what else a field could say, and whether it had said anything."""
    match name, held:
        case "native", _:
            yield from _alter_native(held, protocol)
        case "mime_type", str():
            yield _TYPES.get(held, "application/x-altered"), True
        case (("start" | "end"), _):
            yield (1 if held is None else held + 1), held is not None
        case "schema", None:
            yield {"type": "object", "properties": {}, "additionalProperties": False}, False
        case "schema", Mapping():
            yield {**held, "title": "Altered"}, True
        case (("domains" | "blocked_domains" | "stores" | "files" | "tools"), tuple()):
            yield (*held, "example.org"), bool(held)
        case (("max_uses" | "max_results"), _):
            yield (held or 0) + 1, held is not None
        case "location", _:
            yield {"city": "Bodø"}, held is not None
        case _, bool():
            yield not held, held
        case "content", ():
            yield (TextualContent("altered"),), False
        case "citations", ():
            yield (Citation(start=0, end=1, url="https://example.org/"),), False
        case "summary", ():
            yield ("altered",), False
        case "summary", tuple():
            yield (*held[:-1], "altered"), True
            yield (), True
        case _, None:
            yield "altered", False
        case _, str():
            yield held + " altered", bool(held)


def _alter_native(held: Native | None, protocol: str) -> Iterator[tuple[Native | None, bool]]:
    if held is None:
        yield Native(protocol=protocol, data='{"altered":1}'), False
        yield Native(protocol="elsewhere", data='{"altered":1}'), False
        return
    fields = {**msgspec.json.decode(held.data), "altered": 1}
    yield attrs.evolve(held, data=msgspec.json.encode(fields).decode("utf-8")), True


def is_whole(request: Request, path: str, protocol: str, provider: str) -> bool:
    """Tells whether a field is only how a reader sees what the vendor is sent as its own block.

    Such are a citation, a block without a common word and what the vendor executed itself; and
    what was spoken, which the vendor knows by its own name. Such are also the name and the native
    of another vendor's tool that is a server tool, of which this vendor has its own form.
    """
    for index, invocable in enumerate(request.invocables):
        place = f"invocables[{index}]"
        if invocable.schema is None and path.startswith(f"{place}."):
            if invocable.native is not None and invocable.native.protocol == protocol:
                return path != f"{place}.native"
            if invocable.server_tool is not None:
                # The vendor's tool has its own name, and the server tool says what the other
                # vendor's native says: its options and its remaining fields are altered above.
                return not path.startswith(f"{place}.server_tool")
    return any(
        path.startswith(f"{place}.") and (path != f"{place}.native" or _is_held(request, place))
        for place, native, canister in _survey_wholes(request)
        if native.protocol == protocol
        and (canister.origin is None or canister.origin.provider == provider)
    )


def _is_held(request: Request, place: str) -> bool:
    """Tells whether the vendor has it under a name of its own, and the native needs not go."""
    index, _, position = place.removeprefix("canisters[").partition("].content[")
    if not position or "citations" in position:
        return False
    content = request.canisters[int(index)].content[int(position.rstrip("]"))]
    return isinstance(content, AudioContent)


def _survey_wholes(request: Request) -> Iterator[tuple[str, Native, Any]]:
    """Yields the place and the native of everything that its vendor knows by its own block."""
    for index, canister in enumerate(request.canisters):
        path = f"canisters[{index}]"
        if not isinstance(canister, AssistantCanister | InvocationCanister | ResultCanister):
            continue
        if getattr(canister, "owner", None) is Owner.VENDOR and canister.native is not None:
            yield path, canister.native, canister
        for position, content in enumerate(canister.content):
            place = f"{path}.content[{position}]"
            if isinstance(content, NativeContent):
                yield place, content.native, canister
            if isinstance(content, AudioContent) and content.file_id and content.native is not None:
                yield place, content.native, canister
            for number, citation in enumerate(getattr(content, "citations", ())):
                if citation.native is not None:
                    yield f"{place}.citations[{number}]", citation.native, canister
