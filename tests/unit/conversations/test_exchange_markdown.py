"""That a conversation can be read as Markdown, whatever was said in it."""

from __future__ import annotations

import json

import markdown_it
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline

from strategies.messages import canisters
from vibe_llms.conversations import Conversation, MemoryStore
from vibe_llms.conversations.exchange import export_markdown
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    UserCanister,
)
from vibe_llms.messages.contents import Citation, ImageContent, ReasoningContent, TextualContent


def export(*said: AnyCanister, **about: object) -> str:
    conversation = Conversation(
        id="walk",
        canisters=said,
        metadata=ConversationMetadata(**about),  # type: ignore[arg-type]
    )
    return export_markdown(conversation, MemoryStore().contents)


def survey_headings(document: str) -> list[str]:
    """Returns the headings of the second step that a Markdown reader finds at the top level."""
    body = document.split("\n---\n\n", 1)[1]
    tokens = MarkdownIt("commonmark").parse(body)
    return [
        tokens[at + 1].content
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2" and token.level == 0
    ]


def test_begins_with_what_is_known() -> None:
    """The front matter holds the metadata in a form that YAML and JSON share."""
    document = export(UserCanister("a"), name='A "walk": 散歩', tags=("x: y", "z"), model="p:m")

    front = document.split("---\n")[1].splitlines()
    facts = {key: json.loads(value) for key, value in (line.split(": ", 1) for line in front)}

    assert (facts["id"], facts["name"], facts["tags"]) == ("walk", 'A "walk": 散歩', ["x: y", "z"])
    assert (facts["model"], facts["canisters"], facts["forked_from"]) == ("p:m", 1, None)
    assert '# A "walk": 散歩\n' in document


def test_keeps_answers_as_the_model_wrote_them_and_quotes_the_user() -> None:
    """An answer is Markdown already; the user's words are quoted line by line."""
    answer = "**Yes**:\n\n```python\nx = 1\n```"

    document = export(UserCanister("one\n\ntwo"), AssistantCanister(answer))

    assert f"\n\n{answer}\n" in document
    assert "\n> one\n>\n> two\n" in document


def test_fences_survive_fences() -> None:
    """What stands in a fence may itself hold fences of any length."""
    inner = "```\ncode\n```\n`````\nmore\n`````"

    document = export(ResultCanister(inner, invocation_id="1"))

    assert f"\n``````\n{inner}\n``````\n" in document


def test_closes_what_an_answer_leaves_open() -> None:
    """An answer that was stopped within a block does not swallow what follows."""
    for answer in (
        "```python\nx = 1",
        "~~~~\nx\n~~~",
        "<!-- never closed",
        "<script>\nnever closed",
        "> ```\n> x",
        "- a\n  ```\n  b",
        "<!-- a\n```",
    ):
        document = export(AssistantCanister(answer), UserCanister("next"))

        assert survey_headings(document) == ["Assistant", "User"], answer


@given(said=st.lists(canisters, max_size=4, unique_by=lambda canister: canister.id))
def test_every_canister_has_its_heading(said: list[AnyCanister]) -> None:
    """Whatever was said, each canister begins with a heading of its own."""
    headings = survey_headings(export(*said))

    assert len(headings) >= len(said)
    assert export(*said).count("\n## ") >= len(said)


@given(text=st.text(alphabet="`~<>!-# \nab*_[]()|\\&;", max_size=40))
def test_no_answer_swallows_what_follows(text: str) -> None:
    """After any answer at all, the user's turn is a turn."""
    assert survey_headings(export(AssistantCanister(text), UserCanister("next")))[-1] == "User"


def test_shows_models_reasoning_calls_and_sources() -> None:
    """What stands beside the text is there, folded or fenced, and says whose it is."""
    origin = Origin(provider="local", model="smollm2")
    cited = TextualContent(
        "So.",
        citations=(
            Citation(title="A [source]", url="https://example.org/a b"),
            Citation(title="bad", url="javascript:alert(1)"),
        ),
    )
    document = export(
        AssistantCanister((ReasoningContent(text="Hm."), cited), origin=origin),
        InvocationCanister(invocation_id="1", name="get_weather", arguments='{"a": 1}'),
    )

    assert "<details><summary>Reasoning</summary>\n\n```\nHm.\n```\n\n</details>" in document
    assert "UTC · local:smollm2*" in document
    assert "- [A \\[source\\]](<https://example.org/a%20b>)\n- bad\n" in document
    assert "## Invocation: get\\_weather" in document
    assert '```json\n{"a": 1}\n```' in document


def test_links_media_by_name() -> None:
    """Media are links to where they lie, or to their address; a gap is shown."""
    there = ImageContent(mime_type="image/png", data=b"x", name="my [photo].png")
    away = ImageContent(mime_type="image/png", url="https://example.org/p.png")
    lost = ImageContent(mime_type="image/png", content_id="0" * 64, name="lost.png")
    digest = str(there.content_id)

    document = export(UserCanister((there, away, lost)))

    assert f"[my \\[photo\\].png](<content/{digest[:4]}/{digest}/data>) (image/png)" in document
    assert "[image without a name](<https://example.org/p.png>) (image/png)" in document
    assert "*(lost.png, image/png: not in the store)*" in document


def test_of_an_answer_no_more_is_read_than_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """And by one parser: to make one takes longer than to read most answers."""
    made = []

    def make(*arguments: str) -> MarkdownIt:
        made.append(arguments)
        return MarkdownIt(*arguments)

    monkeypatch.setattr(markdown_it, "MarkdownIt", make)
    monkeypatch.delattr(ParserInline, "parse")
    document = export(*[AssistantCanister("**Yes**:\n\n- `x`\n\n```python\nx = 1")] * 9)

    assert document.count("x = 1\n```\n") == 9
    assert len(made) <= 1
