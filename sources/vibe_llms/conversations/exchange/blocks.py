"""Convert the contents of a canister to HTML fragments that cannot run code."""

from __future__ import annotations

import functools
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vibe_llms.conversations.exchange.labels import is_followable, name_media, read_media
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.foundation.reprs import escape, sanitize
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
    from markdown_it.token import Token

_MIME_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+", re.ASCII)


def compose_canister(canister: AnyCanister, content_store: ContentStore) -> Iterator[str]:
    """Yield the contents of a canister, piece by piece."""
    if isinstance(canister, InvocationCanister):
        yield f'<pre dir="auto">{escape(canister.arguments)}</pre>'
    for content in canister.content:
        yield from _compose_content(canister.role, content, content_store)


def _compose_content(role: str, content: AnyContent, content_store: ContentStore) -> Iterator[str]:
    match content:
        case TextualContent(text=text, citations=citations):
            if text:
                yield _compose_text(role, text)
            if citations:
                items = "".join(map(_compose_citation, citations))
                yield f'<ul class="citations">{items}</ul>'
        case ReasoningContent(text=text, summary=summary):
            thoughts = "\n\n".join(filter(None, (*summary, text)))
            if thoughts:
                yield (
                    '<details class="folded"><summary>Reasoning</summary>\n'
                    f'<div class="plain" dir="auto">{escape(thoughts)}</div></details>'
                )
        case RefusalContent(text=text):
            yield f'<p class="plain refusal" dir="auto">{escape(text)}</p>'
        case NativeContent(kind=kind, text=text):
            yield f'<p class="plain" dir="auto">{escape(text or f"({kind})")}</p>'
        case CacheHint():
            pass
        case _:
            yield _compose_media(content, read_media(content, content_store))


def _compose_text(role: str, text: str) -> str:
    if role == "assistant":
        return f'<div class="rendered" dir="auto">\n{render_markdown(sanitize(text))}</div>'
    if role == "result":
        return f'<pre dir="auto">{escape(text)}</pre>'
    return f'<div class="plain" dir="auto">{escape(text)}</div>'


def _compose_citation(citation: Citation) -> str:
    quotation = f" <q>{escape(citation.cited_text)}</q>" if citation.cited_text else ""
    link = _link(citation.url, citation.title or citation.url or "Source")
    return f"<li>{link}{quotation}</li>"


def _link(url: str | None, label: str) -> str:
    """Return a link if the address is safe to follow, otherwise its text."""
    if url is None:
        return f"<bdi>{escape(label)}</bdi>"
    if not is_followable(url):
        return f"<bdi>{escape(label)}</bdi> <code>{escape(url)}</code>"
    return f'<a href="{escape(url)}" rel="noopener noreferrer nofollow">{escape(label)}</a>'


def _compose_media(content: MediaContent, data: bytes | None) -> str:
    name = escape(name_media(content))
    caption = f"<figcaption><bdi>{name}</bdi></figcaption>"
    if data is None:
        source = "is not in the store" if content.url is None else "is kept elsewhere"
        body = f'<p class="gap">({escape(content.type)} {source})</p>'
        caption = f"<figcaption>{_link(content.url, name_media(content))}</figcaption>"
    else:
        body = _embed(content, data, name)
    if isinstance(content, AudioContent) and content.transcript:
        caption += f'<div class="plain" dir="auto">{escape(content.transcript)}</div>'
    return f"<figure>{body}{caption}</figure>"


def _embed(content: MediaContent, data: bytes, name: str) -> str:
    mime_type = content.mime_type.lower()
    # Validated, as it is as untrusted as the media, and is written into an attribute unescaped.
    if _MIME_TYPE.fullmatch(mime_type) is None:
        mime_type = "application/octet-stream"
    encoded = b64encode(data).decode("ascii")
    source = f"data:{mime_type};base64,{encoded}"
    match mime_type.partition("/")[0]:
        case "image":
            return f'<img alt="{name}" src="{source}">'
        case "audio":
            return f'<audio controls src="{source}"></audio>'
        case "video":
            return f'<video controls src="{source}"></video>'
    # Other files are offered for download, as an HTML file would run with the page's origin.
    source = f"data:application/octet-stream;base64,{encoded}"
    return f'<a class="file" download="{name}" href="{source}">Save ({len(data):,} bytes)</a>'


def render_markdown(text: str) -> str:
    """Render an answer. HTML becomes text, pictures become links, an ``h1`` becomes an ``h3``."""
    return str(_access_parser().render(text))


@functools.cache
def _access_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = is_followable  # type: ignore[method-assign]
    parser.add_render_rule("link_open", _render_link_open)
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("th_open", _render_cell)
    parser.add_render_rule("td_open", _render_cell)
    parser.add_render_rule("heading_open", _render_heading)
    parser.add_render_rule("heading_close", _render_heading)
    return parser


# markdown-it calls its rules with the renderer and with internal values of type Any.
def _render_link_open(
    renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    tokens[index].attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, index, options, env))


def _render_cell(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    # The page's policy does not allow inline styles.
    style = str(tokens[index].attrs.pop("style", ""))
    if alignment := style.removeprefix("text-align:"):
        tokens[index].attrSet("class", alignment)
    return str(renderer.renderToken(tokens, index, options, env))


def _render_image(
    renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    token = tokens[index]
    # A link, as loading the picture would reveal the reader to a foreign server.
    return _link(str(token.attrGet("src") or ""), token.content or "picture")


def _render_heading(
    renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    token = tokens[index].copy(tag=f"h{min(6, int(tokens[index].tag[1]) + 2)}")
    return str(renderer.renderToken([*tokens[:index], token], index, options, env))
