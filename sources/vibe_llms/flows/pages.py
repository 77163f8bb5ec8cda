"""Self-contained HTML page that draws a flow: Mermaid is embedded, and nothing is fetched.

All texts are in the page as escaped HTML, so that it can be read without scripts; the script draws
the diagram and shows the section of the selected node. A content security policy lists the digests
of the two scripts, so that no other script runs, even if a model's response contains one, and
forbids all requests.
"""

from __future__ import annotations

import functools
import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from vibe_llms.conversations.exchange.pages import (
    compose_facts,
    compose_page,
    compose_source,
    read_style,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.reprs import escape

RELOAD_SECONDS: Final = 2
"""Interval in which the page of an active run reloads itself."""


@frozen(kw_only=True)
class FlowPage:
    """Content of a page.

    Attributes:
        title: Plain text.
        mark: State of the whole run, as HTML.
        facts: Terms and plain texts; empty ones are omitted.
        diagram: Mermaid diagram.
        hint: Instruction for using the diagram.
        legend: Legend of the diagram, as HTML.
        nodes: Anchor of each node's section, by the id of the node.
        first: Anchor that is shown before a node is selected.
        sections: Sections of the nodes, as HTML.
        parts: Content below, as HTML.
        is_live: Whether the page will be written again, and therefore reloads itself.
    """

    title: str
    mark: str = ""
    facts: Mapping[str, str | None]
    diagram: str
    hint: str
    legend: Sequence[str]
    nodes: Mapping[str, str]
    first: str
    sections: Sequence[str]
    parts: Sequence[str] = ()
    is_live: bool = False


def compose_flow_page(page: FlowPage) -> str:
    """Write a page, to be encoded as UTF-8."""
    data: dict[str, JsonValue] = {
        "diagram": page.diagram,
        "nodes": dict(page.nodes),
        "first": page.first,
        "is_live": page.is_live,
        "interval_ms": RELOAD_SECONDS * 1000,
    }
    script = _read_drawer() + read_part("page.js")
    body = _BODY.format(
        title=escape(page.title),
        mark=page.mark,
        facts=compose_facts(page.facts),
        live=_LIVE if page.is_live else "",
        hint=escape(page.hint),
        legend="\n".join(f"<li>{each}</li>" for each in page.legend),
        diagram=escape(page.diagram),
        sections="\n".join(page.sections),
        parts="\n".join(page.parts),
        data=embed_json(data),
        mermaid=_encode_mermaid(),
        script=script,
    )
    return compose_page(
        body,
        title=page.title,
        policy=_compose_policy(script),
        style=read_style() + read_part("page.css"),
        head=_REFRESH if page.is_live else "",
    )


@functools.cache
def compose_frame() -> tuple[str, str]:
    """Write the page of the frame, which draws the diagrams that it receives, and its policy.

    The frame contains no data, makes no requests and cannot access other pages: a malicious diagram
    can reach only the texts that the frame received.
    """
    script = _read_drawer() + read_part("frame.js")
    policy = _compose_policy(script)
    body = _FRAME.format(mermaid=_encode_mermaid(), script=script)
    style = read_style() + read_part("page.css") + _FRAME_STYLE
    page = compose_page(body, title="Diagram", policy=policy, style=style)
    return page, f"sandbox allow-scripts; frame-ancestors 'self'; {policy}"


def compose_mark(name: str, words: str) -> str:
    """Return a state as a small label: with its words, line and colour."""
    return f'<span class="mark {name}">{escape(words)}</span>'


def compose_table(
    name: str, caption: str, heads: Mapping[str, bool], rows: Sequence[tuple[str, Sequence[str]]]
) -> str:
    """Return a table below the diagram, without empty columns.

    Args:
        heads: Heads of the columns, and whether they contain numbers.
        rows: Attributes of each row as HTML, and its cells as HTML.
    """
    # Without rows, all heads stay.
    columns = zip(*(cells for _, cells in rows), strict=True)
    shown_columns = [any(cells) for cells in columns] or [True] * len(heads)
    classes = [' class="number"' if each else "" for each in heads.values()]

    def compose_row(tag: str, cells: Iterable[str]) -> str:
        return "".join(  # attributes may follow the two letters of a tag
            f"<{tag}{kind}>{cell}</{tag[:2]}>"
            for cell, kind, is_shown in zip(cells, classes, shown_columns, strict=True)
            if is_shown
        )

    head = compose_row('th scope="col"', map(escape, heads))
    body = "\n".join(
        f"<tr{attributes}>{compose_row('td', cells)}</tr>" for attributes, cells in rows
    )
    return (
        f'<section class="wide {name}"><h2>{escape(caption)}</h2>\n<div class="scroll"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div></section>"
    )


def embed_json(value: JsonValue) -> str:
    """Return JSON that is safe in an HTML element: no text closes the element or opens one."""
    text = json.dumps(value, ensure_ascii=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@functools.cache
def read_part(name: str) -> str:
    """Return the style sheet or the script that all pages share."""
    return access_data("flows", name).read_text(encoding="utf-8")


def _read_drawer() -> str:
    return read_part("zooming.js") + read_part("drawing.js")


@functools.cache
def _encode_mermaid() -> str:
    return b64encode(_read_mermaid()).decode("ascii")


@functools.cache
def _name_mermaid() -> str:
    # A browser hashes the script that it runs, which is the unpacked script.
    return compose_source(gzip.decompress(_read_mermaid()).decode("utf-8"))


def _read_mermaid() -> bytes:
    return access_data("flows", "mermaid.min.js.gz").read_bytes()


def _compose_policy(script: str) -> str:
    # Mermaid writes inline styles, which digests cannot list; they cannot fetch anything either
    return (
        "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; "
        f"script-src {compose_source(script)} {_name_mermaid()}; "
        "base-uri 'none'; form-action 'none'"
    )


# With scripts, page.js reloads the page, and the user can pause it.
_REFRESH: Final = f'<noscript><meta http-equiv="refresh" content="{RELOAD_SECONDS}"></noscript>\n'

_LIVE: Final = (
    '<p class="live"><span>This page follows the run.</span>'
    '<button type="button" id="pause" class="script-only">Pause</button></p>'
)

_FRAME_STYLE: Final = """html, body { height: 100%; }
body { display: flex; flex-direction: column; max-width: none; padding: 0; }
.drawing { flex: 1; min-height: 0; max-height: none; border: 0; border-radius: 0; }
.drawing { background: none; }
.script-only { display: flex; }
"""

_FRAME: Final = """<figure class="drawing" id="drawing"></figure>
<script type="text/plain" id="packed">{mermaid}</script>
<script>{script}</script>
"""

_BODY: Final = (
    "<header>\n"
    '<h1 dir="auto"><span>{title}</span> {mark}</h1>\n'
    "<dl>\n"
    "{facts}\n"
    "</dl>\n"
    "{live}\n"
    "</header>\n"
    "<main>\n"
    '<section class="picture" aria-label="Diagram">\n'
    '<ul class="legend">\n'
    "{legend}\n"
    "</ul>\n"
    '<figure class="drawing" id="drawing"><pre>{diagram}</pre></figure>\n'
    '<p class="hint script-only">{hint}</p>\n'
    "</section>\n"
    '<section class="details" id="details" aria-label="Details" aria-live="off">\n'
    "{sections}\n"
    "</section>\n"
    "{parts}\n"
    '<section class="wide">\n'
    '<details class="folded"><summary>Mermaid source of the '
    "diagram</summary><pre>{diagram}</pre></details>\n"
    "</section>\n"
    "</main>\n"
    '<script type="application/json" id="data">{data}</script>\n'
    '<script type="text/plain" id="packed">{mermaid}</script>\n'
    "<script>{script}</script>\n"
)
