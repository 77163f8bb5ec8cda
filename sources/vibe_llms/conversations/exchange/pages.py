"""A conversation as one HTML page that needs nothing else: for a browser, a phone, a printer.

Nothing in a conversation can act in the page. All text is escaped, Markdown is rendered with
HTML switched off, pictures are data in ``img`` elements, in which no script runs, and a policy
forbids the browser everything but the one style sheet, whose digest it names, and data.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape

from vibe_llms.conversations.exchange.blocks import compose_canister
from vibe_llms.conversations.exchange.interfaces import Exportable
from vibe_llms.conversations.exchange.styles import STYLE
from vibe_llms.conversations.exchange.words import (
    access_origin,
    describe_moment,
    describe_origin,
    describe_turn_usage,
    describe_usage,
    label_canister,
    name_conversation,
)
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, ResultCanister
from vibe_llms.messages.views import usage_of


def export_html(conversation: Exportable, content_store: ContentStore) -> str:
    """Writes a conversation as one self-contained HTML page, to be encoded as UTF-8.

    Media whose bytes cannot be had or are damaged show as a gap with their name.

    Args:
        content_store: Has the bytes of media.
    """
    canisters = conversation.canisters
    messages = "\n".join(
        _compose_message(canister, index, describe_turn_usage(canisters, index), content_store)
        for index, canister in enumerate(canisters)
    )
    name = escape(name_conversation(conversation))
    page = _PAGE.format(
        policy=escape(_compose_policy()),
        name=name,
        style=STYLE,
        facts="\n".join(_compose_facts(conversation)),
        messages=messages or "<p>Nothing has been said yet.</p>",
    )
    return page.encode("utf-8", "replace").decode("utf-8")


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1 dir="auto">{name}</h1>
<dl>
{facts}
</dl>
</header>
<main>
{messages}
</main>
</body>
</html>
"""


def _compose_policy() -> str:
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    return (
        "default-src 'none'; img-src data:; media-src data:; "
        f"style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _compose_facts(conversation: Exportable) -> Iterator[str]:
    about = conversation.metadata
    used = usage_of(conversation.canisters)
    facts = {
        "Begun": describe_moment(about.created),
        "Updated": describe_moment(about.updated),
        "Model": about.model,
        "Used": None if used is None else describe_usage(used),
        "Tags": ", ".join(about.tags),
        "Forked from": None if about.parent is None else about.parent.identity,
        "Id": conversation.id,
    }
    for term, fact in facts.items():
        if fact:
            yield f"<div><dt>{term}</dt><dd><bdi>{escape(fact)}</bdi></dd></div>"


def _compose_message(
    canister: AnyCanister, index: int, usage: str, content_store: ContentStore
) -> str:
    label = f"<bdi>{escape(label_canister(canister))}</bdi>"
    facts = _compose_message_facts(canister, usage)
    body = "\n".join(compose_canister(canister, content_store))
    if isinstance(canister, InvocationCanister | ResultCanister):
        trouble = " error" if isinstance(canister, ResultCanister) and canister.is_error else ""
        summary = f"<summary><b>{label}</b> {facts}</summary>"
        inside = f'<details class="folded{trouble}">{summary}\n{body}\n</details>'
    else:
        inside = f"<header><h2>{label}</h2> {facts}</header>\n{body}"
    return f'<article class="{canister.role}" id="m{index}">\n{inside}\n</article>'


def _compose_message_facts(canister: AnyCanister, usage: str) -> str:
    origin = access_origin(canister)
    facts = [
        "" if origin is None else f"<bdi>{escape(describe_origin(origin))}</bdi>",
        f'<time datetime="{canister.timestamp.isoformat()}">'
        f"{describe_moment(canister.timestamp)}</time>",
        escape(usage),
    ]
    return f'<span class="facts">{" · ".join(filter(None, facts))}</span>'
