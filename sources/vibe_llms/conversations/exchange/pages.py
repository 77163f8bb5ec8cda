"""A conversation as one HTML page that needs nothing else: for a browser, a phone, a printer.

Nothing in a conversation can act in the page. All text is escaped, Markdown is rendered with
HTML switched off, pictures are data in ``img`` elements, in which no script runs, and a policy
forbids the browser everything but the one style sheet, whose digest it names, and data.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape

from vibe_llms.conversations.exchange.blocks import compose_canister
from vibe_llms.conversations.exchange.interfaces import Exportable
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

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1d2127; --soft: #626b77; --paper: #fff; --line: #dfe3e8; --raised: #f4f6f8;
  --user: #e8f0fe; --accent: #2457c5; --trouble: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e7eb; --soft: #98a2b0; --paper: #14171b; --line: #2f353d; --raised: #1d2127;
    --user: #1b2a45; --accent: #8ab0ff; --trouble: #ff8a80;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 46rem; padding: 2rem 1.25rem 4rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: break-word; -webkit-text-size-adjust: 100%;
}
body > header {
  margin-bottom: 2rem; padding-bottom: 1.25rem; border-bottom: 1px solid var(--line);
}
h1 { margin: 0 0 .75rem; font-size: 1.6rem; line-height: 1.25; }
dl { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: 0; font-size: .85rem; }
dl div { display: flex; gap: .4rem; min-width: 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
article { margin: 0 0 1.5rem; }
article > header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 .75rem; }
h2 { margin: 0; font-size: .95rem; font-weight: 650; }
summary .facts { margin-inline-start: .5rem; }
.facts { color: var(--soft); font-size: .8rem; }
article.user { padding: .75rem 1rem; border-radius: .75rem; background: var(--user); }
article.supervisor, article.document {
  padding: .75rem 1rem; border-radius: .75rem; border: 1px dashed var(--line);
}
article.invocation, article.result { margin: -1rem 0 1.5rem; }
.plain { margin: .4rem 0 0; white-space: pre-wrap; }
.refusal { padding-left: .75rem; border-left: 3px solid var(--trouble); }
.rendered > :first-child { margin-top: .4rem; }
.rendered > :last-child { margin-bottom: 0; }
.rendered h3 { font-size: 1.25rem; } .rendered h4 { font-size: 1.1rem; }
.rendered h3, .rendered h4, .rendered h5, .rendered h6 { margin: 1.4em 0 .4em; line-height: 1.3; }
p, ul, ol, blockquote, table { margin: .75em 0; }
li > ul, li > ol { margin: 0; }
blockquote {
  margin-inline: 0; padding-inline-start: 1rem; border-inline-start: 3px solid var(--line);
  color: var(--soft);
}
a { color: var(--accent); }
code, pre {

  font: .875em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
code { padding: .1em .3em; border-radius: .3rem; background: var(--raised); }
pre {
  margin: .75em 0; padding: .75rem 1rem; overflow-x: auto; border: 1px solid var(--line);
  border-radius: .5rem; background: var(--raised);
}
pre code { padding: 0; background: none; font-size: 1em; }
table { display: block; max-width: 100%; overflow-x: auto; border-collapse: collapse; }
th, td { padding: .35rem .75rem; border: 1px solid var(--line); text-align: start; }
th.right, td.right { text-align: end; }
th.center, td.center { text-align: center; }
th { background: var(--raised); }
hr { border: 0; border-top: 1px solid var(--line); margin: 1.5em 0; }
details.folded {
  margin: .5rem 0; padding: .4rem .9rem; border: 1px solid var(--line); border-radius: .5rem;
}
details.folded > summary { cursor: pointer; color: var(--soft); font-size: .875rem; }
details.error > summary { color: var(--trouble); }
details .plain { color: var(--soft); font-size: .925rem; }
figure { margin: .75rem 0 0; }
img, video { display: block; max-width: 100%; max-height: 36rem; border-radius: .5rem; }
audio { width: 100%; }
figcaption { margin-top: .25rem; color: var(--soft); font-size: .8rem; }
.gap {
  margin: 0; padding: 1.5rem; border: 1px dashed var(--line); border-radius: .5rem;
  color: var(--soft); text-align: center;
}
.citations { padding-inline-start: 1.25rem; color: var(--soft); font-size: .85rem; }
@media print {
  :root {
    --ink: #000; --soft: #555; --paper: #fff; --line: #bbb; --raised: #f6f6f6; --user: #f2f2f2;
    --accent: #000; --trouble: #900;
  }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  pre { white-space: pre-wrap; }
  h2, figure, tr { break-inside: avoid; }
  article > header { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; }
}
"""


def export_html(conversation: Exportable, content_store: ContentStore) -> str:
    """Writes a conversation as one self-contained HTML page, to be encoded as UTF-8.

    Media whose bytes cannot be had or are damaged show as a gap with their name.

    Args:
        content_store: Has the bytes of media.
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
        messages=messages or "<p>Nothing has been said yet.</p>",
    )
    return compose_page(body, title=name, policy=_compose_policy(), style=STYLE)


def compose_page(body: str, *, title: str, policy: str, style: str, head: str = "") -> str:
    """Writes a page that needs nothing else, to be encoded as UTF-8.

    Args:
        body: As HTML.
        title: Plain text.
        policy: What the browser may do (Content-Security-Policy).
        style: The style sheet.
        head: What else stands in its head, as HTML.
    """
    page = _PAGE.format(
        policy=escape(policy), head=head, title=escape(title), style=style, body=body
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # a half surrogate has no UTF-8


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
        f"style-src {compose_source(STYLE)}; base-uri 'none'; form-action 'none'"
    )


def compose_source(text: str) -> str:
    """Returns how a policy names a style sheet or script that stands in its page."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _survey_facts(conversation: Exportable) -> Mapping[str, str | None]:
    about = conversation.metadata
    used = usage_of(conversation.canisters)
    return {
        "Begun": describe_moment(about.created),
        "Updated": describe_moment(about.updated),
        "Model": about.model,
        "Used": None if used is None else describe_usage(used),
        "Tags": ", ".join(about.tags),
        "Forked from": None if about.parent is None else about.parent.identity,
        "Id": conversation.id,
    }


def compose_facts(facts: Mapping[str, str | None]) -> str:
    """Returns terms with what is to be said of each, without those of which there is nothing."""
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
    """Returns one message as a piece of a page.

    Args:
        content_store: Has the bytes of media.
        usage: What its turn used, where it is the last one of that.
        anchor: By which links find it.
        level: Of its heading.
    """
    label = f"<bdi>{escape(label_canister(canister))}</bdi>"
    facts = _compose_message_facts(canister, usage)
    body = "\n".join(compose_canister(canister, content_store))
    if isinstance(canister, InvocationCanister | ResultCanister):
        trouble = " error" if isinstance(canister, ResultCanister) and canister.is_error else ""
        summary = f"<summary><b>{label}</b> {facts}</summary>"
        inside = f'<details class="folded{trouble}">{summary}\n{body}\n</details>'
    else:
        inside = f"<header><h{level}>{label}</h{level}> {facts}</header>\n{body}"
    name = f' id="{anchor}"' if anchor else ""
    return f'<article class="{canister.role}"{name}>\n{inside}\n</article>'


def _compose_message_facts(canister: AnyCanister, usage: str) -> str:
    origin = access_origin(canister)
    facts = [
        "" if origin is None else f"<bdi>{escape(describe_origin(origin))}</bdi>",
        f'<time datetime="{canister.timestamp.isoformat()}">'
        f"{describe_moment(canister.timestamp)}</time>",
        escape(usage),
    ]
    return f'<span class="facts">{" · ".join(filter(None, facts))}</span>'
