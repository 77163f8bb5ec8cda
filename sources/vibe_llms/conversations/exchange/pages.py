"""Export of a conversation as one self-contained HTML page, for browsers, phones and printers.

Contents of a conversation cannot run code in the page. All text is escaped, Markdown is rendered
with HTML disabled, and pictures are data in ``img`` elements, which cannot run scripts. The page's
content security policy allows only these data and the style sheet, by its digest.
"""

from __future__ import annotations

import functools
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from vibe_llms.conversations.exchange.blocks import compose_canister
from vibe_llms.conversations.exchange.interfaces import Exportable
from vibe_llms.conversations.exchange.labels import (
    access_origin,
    describe_moment,
    describe_origin,
    describe_turn_usage,
    describe_usage,
    label_canister,
    name_conversation,
)
from vibe_llms.conversations.stores.interfaces import ContentStore
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.reprs import escape
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, ResultCanister
from vibe_llms.messages.views import usage_of


def export_html(conversation: Exportable, content_store: ContentStore) -> str:
    """Write a conversation as one self-contained HTML page, to be encoded as UTF-8.

    Media with missing or damaged bytes appear as a gap with their name.

    Args:
        content_store: Store of the bytes of media.
    """
    canisters = conversation.canisters
    messages = "\n".join(
        compose_message(canister, content_store, describe_turn_usage(canisters, index), f"m{index}")
        for index, canister in enumerate(canisters)
    )
    name = name_conversation(conversation)
    body = _BODY.format(
        name=escape(name),
        facts=compose_facts(_survey_facts(conversation)),
        messages=messages or "<p>The conversation is empty.</p>",
    )
    return compose_page(body, title=name, policy=_compose_policy(), style=read_style())


@functools.cache
def read_style() -> str:
    """Return the style sheet that all self-contained pages share."""
    return access_data("exchange", "page.css").read_text(encoding="utf-8")


def compose_page(body: str, *, title: str, policy: str, style: str, head: str = "") -> str:
    """Write a self-contained page, to be encoded as UTF-8.

    Args:
        body: Body as HTML.
        title: Title as plain text.
        policy: Content-Security-Policy of the page.
        style: The style sheet.
        head: More elements of its head, as HTML.
    """
    page = _PAGE.format(
        policy=escape(policy), head=head, title=escape(title), style=style, body=body
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # replaces lone surrogates


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{head}<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}</body>
</html>
"""

_BODY = """<header>
<h1 dir="auto">{name}</h1>
<dl>
{facts}
</dl>
</header>
<main>
{messages}
</main>
"""


def _compose_policy() -> str:
    return (
        "default-src 'none'; img-src data:; media-src data:; "
        f"style-src {compose_source(read_style())}; base-uri 'none'; form-action 'none'"
    )


def compose_source(text: str) -> str:
    """Return the expression that allows an inline style sheet or script in a policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _survey_facts(conversation: Exportable) -> Mapping[str, str | None]:
    metadata = conversation.metadata
    usage = usage_of(conversation.canisters)
    return {
        "Begun": describe_moment(metadata.created),
        "Updated": describe_moment(metadata.updated),
        "Model": metadata.model,
        "Used": None if usage is None else describe_usage(usage),
        "Tags": ", ".join(metadata.tags),
        "Forked from": None if metadata.parent is None else metadata.parent.identity,
        "Id": conversation.id,
    }


def compose_facts(facts: Mapping[str, str | None]) -> str:
    """Return a list of terms with their descriptions; skip terms without a description."""
    return "\n".join(
        f"<div><dt>{escape(term)}</dt><dd><bdi>{escape(fact)}</bdi></dd></div>"
        for term, fact in facts.items()
        if fact
    )


def compose_message(
    canister: AnyCanister,
    content_store: ContentStore,
    usage: str = "",
    anchor: str = "",
    level: int = 2,
) -> str:
    """Return one message as an HTML fragment.

    Args:
        content_store: Store of the bytes of media.
        usage: Usage of the turn, if the message is the last one of the turn.
        anchor: Anchor for links to the message.
        level: Level of its heading.
    """
    label = f"<bdi>{escape(label_canister(canister))}</bdi>"
    facts = _compose_message_facts(canister, usage)
    body = "\n".join(compose_canister(canister, content_store))
    if isinstance(canister, (InvocationCanister, ResultCanister)):
        error_class = " error" if isinstance(canister, ResultCanister) and canister.is_error else ""
        summary = f"<summary><b>{label}</b> {facts}</summary>"
        body_with_header = f'<details class="folded{error_class}">{summary}\n{body}\n</details>'
    else:
        body_with_header = f"<header><h{level}>{label}</h{level}> {facts}</header>\n{body}"
    name = f' id="{anchor}"' if anchor else ""
    return f'<article class="{canister.role}"{name}>\n{body_with_header}\n</article>'


def _compose_message_facts(canister: AnyCanister, usage: str) -> str:
    origin = access_origin(canister)
    facts = [
        "" if origin is None else f"<bdi>{escape(describe_origin(origin))}</bdi>",
        f'<time datetime="{canister.timestamp.isoformat()}">'
        f"{describe_moment(canister.timestamp)}</time>",
        escape(usage),
    ]
    return f'<span class="facts">{" · ".join(filter(None, facts))}</span>'
