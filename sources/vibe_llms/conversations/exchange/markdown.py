"""Export of a conversation as Markdown, with its metadata as front matter.

Answers are Markdown, and are written unchanged. If an answer leaves a block open, for example a
fenced code block, the following text would become part of the block. So the block is closed, or the
answer is quoted. User messages are quoted. Everything else is in fences longer than any fence
inside.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from vibe_llms.conversations.exchange.interfaces import Exportable
from vibe_llms.conversations.exchange.labels import (
    access_origin,
    describe_moment,
    describe_origin,
    describe_turn_usage,
    is_followable,
    label_canister,
    name_conversation,
    name_media,
)
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    CacheHint,
    Citation,
    MediaContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def export_markdown(conversation: Exportable, content_store: ContentStore) -> str:
    """Write a conversation as Markdown.

    Media become links to their files below the data directory, or to their URL.

    Args:
        content_store: Store with the existing media; their bytes are not read.
    """
    canisters = conversation.canisters
    blocks = [_compose_front_matter(conversation), f"# {_escape(name_conversation(conversation))}"]
    for index, canister in enumerate(canisters):
        blocks.append(f"## {_escape(label_canister(canister))}")
        facts = [describe_moment(canister.timestamp)]
        if (origin := access_origin(canister)) is not None:
            facts.append(describe_origin(origin))
        facts.append(describe_turn_usage(canisters, index))
        blocks.append(f"*{_escape(' · '.join(filter(None, facts)))}*")
        blocks.extend(_compose_canister(canister, content_store))
    return "\n\n".join(blocks) + "\n"


def _compose_front_matter(conversation: Exportable) -> str:
    metadata = conversation.metadata
    facts = {
        "id": conversation.id,
        "name": metadata.name,
        "created": metadata.created.isoformat(),
        "updated": metadata.updated.isoformat(),
        "model": metadata.model,
        "tags": list(metadata.tags),
        "forked_from": None if metadata.parent is None else metadata.parent.identity,
        "canisters": len(conversation.canisters),
    }
    lines = [  # JSON values are valid YAML
        f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items()
    ]
    return "\n".join(["---", *lines, "---"])


def _compose_canister(canister: AnyCanister, content_store: ContentStore) -> Iterator[str]:
    if isinstance(canister, InvocationCanister):
        yield _fence(canister.arguments, "json")
    for content in canister.content:
        yield from filter(None, _compose_content(canister.role, content, content_store))


def _compose_content(role: str, content: AnyContent, content_store: ContentStore) -> Iterator[str]:
    match content:
        case TextualContent(text=text, citations=citations):
            yield _compose_text(role, text)
            yield "\n".join(_compose_citation(citation) for citation in citations)
        case ReasoningContent(text=text, summary=summary):
            thoughts = "\n\n".join(filter(None, (*summary, text)))
            if thoughts:
                yield f"<details><summary>Reasoning</summary>\n\n{_fence(thoughts)}\n\n</details>"
        case RefusalContent(text=text):
            yield _quote(text)
        case NativeContent(kind=kind, text=text):
            yield _quote(text) if text else f"*({_escape(kind)}, kept as the vendor sent it)*"
        case CacheHint():
            pass
        case _:
            yield from _compose_media(content, content_store)


def _compose_text(role: str, text: str) -> str:
    match role:
        case "assistant":
            return _close_blocks(text)
        case "result" | "document":
            return _fence(text)
        case _:
            return _quote(text)


def _compose_media(content: MediaContent, content_store: ContentStore) -> Iterator[str]:
    name = _escape(name_media(content))
    text = content.transcript if isinstance(content, AudioContent) else None
    digest = content.content_id
    if digest is not None and (content.data is not None or content_store.contains(digest)):
        yield f"[{name}](<content/{digest[:4]}/{digest}/data>) ({_escape(content.mime_type)})"
    elif content.url is not None and is_followable(content.url):
        url = quote(content.url, safe=_URL_CHARACTERS)
        yield f"[{name}](<{url}>) ({_escape(content.mime_type)})"
    else:
        yield f"*({name}, {_escape(content.mime_type)}: not in the store)*"
    if text:
        yield _quote(text)


_URL_CHARACTERS = "%/:?#[]@!$&'()*+,;=~"


def _compose_citation(citation: Citation) -> str:
    title = _escape(citation.title or citation.url or "source")
    if citation.url is None or not is_followable(citation.url):
        return f"- {title}"
    return f"- [{title}](<{quote(citation.url, safe=_URL_CHARACTERS)}>)"


def _escape(text: str) -> str:
    """Escape text, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", " ".join(text.split()))


def _quote(text: str) -> str:
    """Quote text: the end of a quotation also closes any open block inside."""
    # Not `splitlines`, which splits at more characters than those that end a line in Markdown.
    return "\n".join(f"> {line}".rstrip() for line in re.split(r"\r\n|\r|\n", text))


def _fence(text: str, language: str = "") -> str:
    """Fence text with more backticks than it contains."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _close_blocks(text: str) -> str:
    """Close open blocks of Markdown, such as those of a truncated answer."""
    parser = _access_parser()
    # A heading after the text is parsed as one only if the text leaves no block open.
    sentinel = "\n\n# end"
    tokens = parser.parse(text + sentinel)
    if tokens[-1].type == "fence":
        text = f"{text}\n{tokens[-1].markup}"
        tokens = parser.parse(text + sentinel)
    is_closed = tokens[-1].type == "heading_close" and tokens[-1].level == 0
    return text if is_closed else _quote(text)


@functools.cache
def _access_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])  # inline markup ends with its block
    return parser
