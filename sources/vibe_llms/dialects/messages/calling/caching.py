"""Cache marks of a whole request, within the vendor's rules.

A request may have four marks, and a longer lifetime must not follow a shorter one, in the order
tools, instructions, messages: https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from vibe_llms.dialects.cache_hints import CACHE_CONTROL, has_hints, list_hints, write_cache_control
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.requests import Request

MAX_MARKS: Final = 4
"""Maximum marks of a request."""


@define
class _Mark:
    """A mark in a body.

    Attributes:
        place: Names and indexes that lead to the marked object in the body.
        value: The mark.
        path: Path of its hint in the request.
    """

    place: tuple[str | int, ...]
    value: Any
    path: str

    @property
    def is_in_message(self) -> bool:
        return self.place[:1] == ("messages",)


def complete_cache_marks(body: dict[str, Any], request: Request, ledger: Ledger) -> None:
    """Add the mark of the whole request, and change the marks that the vendor would reject.

    Objects in the body are copied before a change, as a translation is shared with later requests.
    """
    if request.cache is not None and CACHE_CONTROL not in body:
        body[CACHE_CONTROL] = write_cache_control(request.cache, "cache", ledger)
    elif not has_hints(request.canisters) and not any(each.cache for each in request.invocables):
        return
    marks = _list_marks(body, request)
    # Of the conversation first: its later marks include the prefixes of the earlier ones.
    oldest = sorted(marks, key=lambda each: not each.is_in_message)
    for mark in oldest[: max(len(marks) - MAX_MARKS, 0)]:
        _replace(body, mark.place, None)
        reason = f"sent without the cache hint, the oldest: the vendor accepts {MAX_MARKS}"
        ledger.omit_hint(mark.path, reason)
        marks.remove(mark)
    has_short = False
    for mark in marks:
        is_long = isinstance(mark.value, dict) and mark.value.get("ttl") == "1h"
        if is_long and has_short:
            _replace(body, mark.place, {**mark.value, "ttl": "5m"})
            reason = "5 minutes are sent: a longer lifetime cannot follow a shorter one"
            ledger.omit_hint(f"{mark.path}.lifetime", reason)
        has_short = has_short or not is_long


def _list_marks(body: dict[str, Any], request: Request) -> list[_Mark]:
    """Return the marks of a body, in the vendor's order."""
    marks = [
        _Mark(place, block[CACHE_CONTROL], _join(place))
        for field in ("tools", "system", "messages")
        for place, block in _walk(body.get(field), (field,))
    ]
    # Unless there are native marks, the marks outside of tools are those of the hints, in order.
    placed = [each for each in marks if each.place[0] != "tools"]
    paths = [path for path, _ in list_hints(request.canisters)]
    if len(paths) == len(placed):
        for mark, path in zip(placed, paths, strict=True):
            mark.path = path
    if CACHE_CONTROL in body:
        marks.append(_Mark((), body[CACHE_CONTROL], "cache"))
    return marks


def _walk(
    blocks: Any, place: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Yield the marked objects in a list of tools, blocks or messages, with their places."""
    if not isinstance(blocks, list):
        return
    for index, block in enumerate(blocks):
        if isinstance(block, dict):
            yield from _walk(block.get("content"), (*place, index, "content"))
            if block.get(CACHE_CONTROL) is not None:
                yield (*place, index), block


def _join(place: tuple[str | int, ...]) -> str:
    field, index = place[:2]
    return f"invocables[{index}].cache" if field == "tools" else str(field)


def _replace(body: dict[str, Any], place: tuple[str | int, ...], mark: Any) -> None:
    """Replace the mark at a place, or remove it if the new one is ``None``."""
    node: Any = body
    for name in place:
        node[name] = node[name].copy()
        node = node[name]
    if mark is None:
        del node[CACHE_CONTROL]
    else:
        node[CACHE_CONTROL] = mark
