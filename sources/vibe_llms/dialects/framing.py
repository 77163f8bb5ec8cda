"""Documents in protocols that have no word for them: as the user's words, between marks."""

from __future__ import annotations

import attrs

from vibe_llms.messages.canisters import DocumentCanister
from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.messages.views import BOUNDARY


def frame_document(canister: DocumentCanister) -> tuple[tuple[AnyContent, ...], int]:
    """Returns the contents of a document between marks, without a word of advice.

    The marks join the texts at either end; where there is none, they stand by themselves.

    Returns:
        Also how many contents at the beginning are not the canister's own.
    """
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
    """Returns texts that are nothing but texts as one."""
    texts = [content.text for content in contents if isinstance(content, TextualContent)]
    if not texts or contents != tuple(map(TextualContent, texts)):
        return contents
    return (TextualContent(BOUNDARY.join(filter(None, texts))),)
