"""That an exported page shows what was said and holds nothing that could act."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import canisters
from vibe_llms.conversations import Conversation, MemoryStore
from vibe_llms.conversations.exchange import export_html
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AudioContent,
    Citation,
    FileContent,
    ImageContent,
    ReasoningContent,
    TextualContent,
)

WORDS = re.compile(r"[a-z0-9-]+")
ALLOWED_ELEMENTS = set(
    WORDS.findall(
        "html head meta title style body header main article details summary h1 h2 h3 h4 h5 h6"
        " dl div dt dd span bdi b time p pre code ul ol li q a figure figcaption img audio video"
        " blockquote em strong s hr br table thead tbody tr th td"
    )
)
ALLOWED_ATTRIBUTES = set(
    WORDS.findall(
        "lang charset http-equiv content name dir class id datetime href rel alt src controls"
        " download start title"
    )
)


class Page(HTMLParser):
    """Collects the elements, and the text outside of the style sheet."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] != "style":
            self.text += data

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def export(*said: AnyCanister, **about: object) -> str:
    conversation = Conversation(
        canisters=said,
        metadata=ConversationMetadata(**about),  # type: ignore[arg-type]
    )
    return export_html(conversation, MemoryStore().contents)


def check_inert(document: str) -> Page:
    """Holds a page against the short list of what may be in it."""
    page = Page(document)
    for tag, attributes in page.elements:
        assert tag in ALLOWED_ELEMENTS, tag
        assert set(attributes) <= ALLOWED_ATTRIBUTES, (tag, attributes)
        if tag == "a":
            href = attributes["href"] or ""
            assert re.match(r"(?i)https?://|mailto:|data:application/octet-stream;", href), href
            assert not href.startswith("data:") or "download" in attributes
        if "src" in attributes:
            assert re.match(r"data:(image|audio|video)/", attributes["src"] or ""), attributes
    assert len(page.find("style")) == 1
    return page


HOSTILE = (
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title></head><body onload=alert(1)>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "[x](javascript:alert(1)) <javascript:alert(1)>",
    "[x](JaVaScRiPt&#58;alert(1)) [y](data:text/html,<script>alert(1)</script>)",
    "[x]: javascript:alert(1)\n\n[x]",
    '![x](https://example.org/tracker.png "t") ![](javascript:alert(1))',
    '```x" onload="alert(1)\n<script>\n```',
    "| a |\n| :-: |\n| <script> |",
    "<!-- --> <iframe src=//example.org>",
    "&lt;script&gt; &#60;script&#62;",
    "{name} {0} {style!r} %s",
)


def test_shows_hostile_text_as_text_wherever_it_stands() -> None:
    """Nothing that was said can become an element, whichever field holds it."""
    for text in HOSTILE:
        origin = Origin(provider=text, model=text, usage=Usage(input_tokens=1))
        cited = TextualContent(text, citations=(Citation(title=text, url=text, cited_text=text),))
        document = export(
            UserCanister((cited, ImageContent(mime_type=text, data=b"x", name=text))),
            AssistantCanister((ReasoningContent(text=text), cited), origin=origin, turn_id=text),
            InvocationCanister(invocation_id=text, name=text, arguments=text),
            ResultCanister((cited, FileContent(mime_type="a/b", url=text)), invocation_id=text),
            name=text,
            tags=(text,),
            model=text,
        )

        page = check_inert(document)

        assert text in page.text


@pytest.mark.slow
@given(
    said=st.lists(canisters, max_size=4, unique_by=lambda canister: canister.id),
    name=st.none() | st.text(),
)
def test_nothing_in_a_conversation_can_act(said: list[AnyCanister], name: str | None) -> None:
    """Any conversation at all becomes a page of known elements, one article a canister."""
    page = check_inert(export(*said, name=name))

    assert [attributes["class"] for attributes in page.find("article")] == [
        canister.role for canister in said
    ]


@given(text=st.text(alphabet="<>&\"'`[]()!*_#|:-~\n ajsx/=", max_size=60))
def test_no_answer_renders_to_anything_that_acts(text: str) -> None:
    """Markdown of any shape renders to known elements."""
    check_inert(export(AssistantCanister(text)))


def test_the_policy_allows_one_style_sheet_and_data_only() -> None:
    """The policy names the digest of the very style sheet that is in the page."""
    document = export(UserCanister("a"))
    style = document.split("<style>", 1)[1].split("</style>", 1)[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()

    policies = [
        meta["content"]
        for meta in Page(document).find("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]

    assert policies == [
        "default-src 'none'; img-src data:; media-src data:; "
        f"style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    ]


def test_holds_pictures_and_sound_and_files_and_shows_gaps() -> None:
    """Media are in the page; what cannot be had leaves a gap with its name."""
    store = MemoryStore()
    digest = store.contents.add(b"stored", mime_type="image/png")
    conversation = Conversation(
        canisters=[
            UserCanister(
                (
                    ImageContent(mime_type="image/png", content_id=digest, name="one.png"),
                    AudioContent(mime_type="audio/wav", data=b"sound", transcript="Hello there"),
                    FileContent(mime_type="text/html", data=b"<script>", name="page.html"),
                    ImageContent(mime_type="image/png", content_id="0" * 64, name="lost.png"),
                    ImageContent(mime_type="image/png", url="https://example.org/x.png"),
                )
            )
        ]
    )

    page = Page(export_html(conversation, store.contents))

    (image,), (sound,) = page.find("img"), page.find("audio")
    saved, linked = page.find("a")
    assert image["alt"] == "one.png"
    assert b64decode(str(image["src"]).split(",")[1]) == b"stored"
    assert str(sound["src"]).startswith("data:audio/wav;base64,")
    assert saved["download"] == "page.html"
    assert str(saved["href"]).startswith("data:application/octet-stream;base64,")
    assert linked["href"] == "https://example.org/x.png"
    for words in ("Hello there", "(image is not in the store)", "lost.png"):
        assert words in page.text


def test_says_who_spoke_when_and_at_what_cost() -> None:
    """Roles, models, moments, usage and unusual ends are shown; a turn's usage once."""
    origin = Origin(
        provider="local",
        model="smollm2",
        stop_reason=StopReason.LIMIT,
        usage=Usage(input_tokens=1000, output_tokens=34),
    )
    document = export(
        AssistantCanister("Let me see.", origin=origin, turn_id="t"),
        InvocationCanister(invocation_id="1", name="look", origin=origin, turn_id="t"),
        ResultCanister("seen", invocation_id="1", name="look", is_error=True),
    )

    page = Page(document)

    assert page.text.count("local:smollm2 (stopped: limit)") == 2
    assert page.text.count("1,000 tokens in, 34 tokens out") == 2  # at the top, and at the turn
    for words in ("Assistant", "Invocation: look", "Error: look"):
        assert words in page.text
    assert len(page.find("time")) == 3


def test_renders_answers_and_leaves_the_words_of_users_alone() -> None:
    """Answers are rendered with headings below the page's own; the user's text is verbatim."""
    page = Page(
        export(
            UserCanister("# not *rendered*"),
            AssistantCanister("# Head\n\n| a | b |\n| - | -: |\n| 1 | 2 |\n\n~~x~~ **y**"),
        )
    )

    assert "# not *rendered*" in page.text
    headings = [tag for tag, _ in page.elements if tag in ("h1", "h2", "h3")]
    assert headings == ["h1", "h2", "h2", "h3"]
    assert {"class": "right"} in page.find("td")
    assert len(page.find("strong")) == len(page.find("s")) == 1


def test_says_so_where_nothing_was_said() -> None:
    """An empty conversation is a page too."""
    assert "The conversation is empty." in Page(export(name="Empty")).text


def test_what_would_turn_directions_or_command_a_terminal_is_seen() -> None:
    """A page may be read in a terminal, too; what joins letters stays."""
    odd = "a\x1b[31mb\u202ec\u2066d\x00e\x9bf"
    document = export(
        UserCanister(odd),
        AssistantCanister([ReasoningContent(text=odd), TextualContent(odd)]),
        InvocationCanister(id="i", invocation_id="i", name="f", arguments=f'{{"a": "{odd}"}}'),
        AssistantCanister("👩\u200d🔬 \u200fאב"),
        name=odd,
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", document)
    assert "a\u241b[31mb\ufffdc" in document
    assert "👩\u200d🔬 \u200fאב" in document
