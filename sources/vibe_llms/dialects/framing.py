"""Documents in protocols without documents: as a user's message, between marks."""

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
    """Return the contents of a canister; those of a document between marks, without instructions.

    The marks are joined to the texts at either end; without a text, they are texts of their own.
    """
    contents, shift = canister.content, 0
    if isinstance(canister, DocumentCanister):
        ledger.coerce(path, "a document is sent as text of the user, between marks")
        contents, shift = _frame(canister)
    return [(each, f"{path}.content[{index}]") for index, each in enumerate(contents, -shift)]


def _frame(canister: DocumentCanister) -> tuple[tuple[AnyContent, ...], int]:
    """Return the contents between marks, and how many at the beginning are not its own."""
    title = "" if canister.title is None else f' title="{canister.title}"'
    contents = [*_join_plain(canister.content)]
    shift = 0 if contents and isinstance(contents[0], TextualContent) else 1
    if shift:
        contents.insert(0, TextualContent(""))
    if not isinstance(contents[-1], TextualContent):
        contents.append(TextualContent(""))
    for index, begin, end in ((0, f"<document{title}>\n", ""), (-1, "", "\n</document>")):
        text = contents[index]
        assert isinstance(text, TextualContent)
        contents[index] = attrs.evolve(text, text=f"{begin}{text.text}{end}")
    return tuple(contents), shift


def _join_plain(contents: tuple[AnyContent, ...]) -> tuple[AnyContent, ...]:
    """Join texts that have no other fields."""
    texts = [content.text for content in contents if isinstance(content, TextualContent)]
    if not texts or contents != tuple(map(TextualContent, texts)):
        return contents
    return (TextualContent(BOUNDARY.join(filter(None, texts))),)
