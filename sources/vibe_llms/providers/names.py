"""Aliases for invocables whose names a vendor does not accept, in both directions.

An alias is derived from the name, so that it does not change between turns, which vendors' prompt
caches require. The request shows which names in an answer must be restored, so no state is kept.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from vibe_llms.dialects.invocations import is_vendors_own
from vibe_llms.dialects.processors import Decoder
from vibe_llms.events.stream import ContentFinishedEvent, ContentStartedEvent, StreamEvent
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.messages.tool_names import clean_name, mark_name
from vibe_llms.messages.views import list_call_names

_CANISTERS_WITH_NAMES: Final = (InvocationCanister, ResultCanister)
_Named = TypeVar("_Named", bound=InvocationCanister | ResultCanister)


def apply_aliases(request: Request, aliases: Mapping[str, str]) -> Translation[Request]:
    """Replace the names that the vendor does not accept by aliases; each one is a loss.

    Args:
        aliases: See :func:`find_aliases`.
    """
    places = _survey_names(request)
    losses = [
        Loss(
            kind=LossKind.COERCED,
            path=places[name],
            reason=f"{name!r} is sent as {alias}: this vendor does not accept the name",
        )
        for name, alias in aliases.items()
    ]
    aliased = attrs.evolve(
        request,
        canisters=[
            _rename(each, aliases) if isinstance(each, _CANISTERS_WITH_NAMES) else each
            for each in request.canisters
        ],
        invocables=[
            attrs.evolve(each, name=aliases[each.name]) if each.name in aliases else each
            for each in request.invocables
        ],
        invocation_choice=aliases.get(request.invocation_choice, request.invocation_choice),
    )
    return Translation(aliased, losses)


MAX_KNOWN: Final = 10_000
MAX_KNOWN_CHARACTERS: Final = 128
"""Limits of the cache of valid names for a pattern: how many names, and how long."""


@functools.cache
def _access_known_names(pattern: str) -> set[str]:
    """Return the cache of names that match a pattern: each turn checks up to a thousand again."""
    return set()


def find_aliases(request: Request, quirks: Any) -> dict[str, str]:
    """Return an alias for each name that the vendor does not accept; usually none.

    Each alias differs from all other names in the request.

    Args:
        quirks: Quirks of the vendor; without ``name_pattern``, it accepts any name.

    Raises:
        RequestError: The native data of an invocable are invalid.
    """
    pattern: str | None = getattr(quirks, "name_pattern", None)
    if pattern is None:
        return {}
    # Fast path: each turn checks the whole conversation, and most need no alias.
    used_names = list_call_names(request.canisters)
    if request.invocables:
        used_names = used_names.union([each.name for each in request.invocables])
    is_valid, known = re.compile(pattern).fullmatch, _access_known_names(pattern)
    if used_names <= known:
        return {}
    if all(not name or is_valid(name) for name in used_names):
        if len(known) + len(used_names) > MAX_KNOWN:
            known.clear()
        known.update(name for name in used_names if name and len(name) <= MAX_KNOWN_CHARACTERS)
        return {}
    names = _survey_names(request)
    invalid_names = [name for name in names if not is_valid(name)]
    aliases: dict[str, str] = {}
    taken = {*names, *(each.name for each in request.invocables)} if invalid_names else set[str]()
    for name in invalid_names:
        aliases[name] = next(alias for alias in _derive_aliases(name) if alias not in taken)
        taken.add(aliases[name])
    return aliases


def _survey_names(request: Request) -> dict[str, str]:
    """Return the path of each name to check: all names except names of the vendor's tools."""
    places: dict[str, str] = {}
    for index, each in enumerate(request.invocables):
        if each.schema is not None or not is_vendors_own(each):
            places.setdefault(each.name, f"invocables[{index}].name")
    for index, canister in enumerate(request.canisters):
        if (
            isinstance(canister, _CANISTERS_WITH_NAMES)
            and canister.owner is Owner.OURS
            and canister.name
        ):
            places.setdefault(canister.name, f"canisters[{index}].name")
    return places


def _derive_aliases(name: str) -> Iterator[str]:
    """Yield possible aliases for a name; equal names have equal aliases."""
    clean = clean_name(name)
    if not (clean[0].isalpha() or clean[0] == "_"):
        clean = f"_{clean}"  # Gemini does not accept a digit there
    yield mark_name(clean, name)
    for number in itertools.count(1):
        yield mark_name(clean, f"{name}\0{number}")


def _rename(canister: _Named, names: Mapping[str, str]) -> _Named:
    name = names.get(canister.name or "")
    if name is None or canister.owner is not Owner.OURS:
        return canister
    return attrs.evolve(canister, name=name)


class NamingDecoder:
    """A decoder whose events have the original names of invocables.

    Args:
        decoder: Decodes the vendor's answer.
        aliases: The alias of each name.
    """

    def __init__(self, decoder: Decoder, aliases: Mapping[str, str]) -> None:
        self._decoder = decoder
        self._names = {alias: name for name, alias in aliases.items()}

    def __getattr__(self, name: str) -> Any:  # optional attributes of decoders
        return getattr(self._decoder, name)

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        """Return the events of one frame. Raises ConverseError."""
        return self._restore(self._decoder.decode(data, event))

    def decode_response(self, body: bytes) -> list[StreamEvent]:
        """Return all events of a whole response. Raises ConverseError."""
        return self._restore(self._decoder.decode_response(body))

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises StreamTruncatedError if the vendor's response is
        incomplete.
        """
        return self._restore(self._decoder.finish())

    def _restore(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        return [self._restore_name(event) for event in events]

    def _restore_name(self, event: StreamEvent) -> StreamEvent:
        names = self._names
        if isinstance(event, ContentStartedEvent):
            if event.name in names and event.owner is Owner.OURS:
                return attrs.evolve(event, name=names[event.name])
        elif isinstance(event, ContentFinishedEvent) and isinstance(event.item, InvocationCanister):
            return attrs.evolve(event, item=_rename(event.item, names))
        return event
