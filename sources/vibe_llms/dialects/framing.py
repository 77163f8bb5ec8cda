"""Documents in protocols without documents: sent as a user's message, between marks."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister
from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.messages.texts import BOUNDARY

ContentWithPath: TypeAlias = tuple[AnyContent, str]
"""A content, and its path in the conversation."""


def survey_contents(canister: AnyCanister, path: str, ledger: Ledger) -> list[ContentWithPath]:
    """Return the contents of a canister with their paths; put a document between marks.

    A mark is added to the first or last text, or is a separate text if another content is there.
    """
    contents, added_at_start = canister.content, 0
    if isinstance(canister, DocumentCanister):
        ledger.coerce(path, "a document is sent as text of the user, between marks")
        contents, added_at_start = _add_marks(canister)
    return [
        (each, f"{path}.content[{index}]") for index, each in enumerate(contents, -added_at_start)
    ]


def _add_marks(canister: DocumentCanister) -> tuple[tuple[AnyContent, ...], int]:
    """Return the contents between marks, and the number of contents added at the beginning."""
    title = "" if canister.title is None else f' title="{canister.title}"'
    contents = [*_join_plain(canister.content)]
    added_at_start = 0 if contents and isinstance(contents[0], TextualContent) else 1
    if added_at_start:
        contents.insert(0, TextualContent(""))
    if not isinstance(contents[-1], TextualContent):
        contents.append(TextualContent(""))
    for index, begin, end in ((0, f"<document{title}>\n", ""), (-1, "", "\n</document>")):
        text = contents[index]
        assert isinstance(text, TextualContent)
        contents[index] = attrs.evolve(text, text=f"{begin}{text.text}{end}")
    return tuple(contents), added_at_start


def _join_plain(contents: tuple[AnyContent, ...]) -> tuple[AnyContent, ...]:
    """Join texts that have no other fields."""
    texts = [content.text for content in contents if isinstance(content, TextualContent)]
    if not texts or contents != tuple(map(TextualContent, texts)):
        return contents
    return (TextualContent(BOUNDARY.join(filter(None, texts))),)
