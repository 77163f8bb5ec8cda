"""What a tool of a server brings, as contents of ours, and what is believed of what it says."""

from __future__ import annotations

import base64
import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.invocables.invokers import Effect
from vibe_llms.invocables.mcp import McpServer
from vibe_llms.invocables.mcp.results import normalize_result
from vibe_llms.invocables.mcp.tools import produce_tool
from vibe_llms.messages.contents import (
    AudioContent,
    FileContent,
    ImageContent,
    TextualContent,
    VideoContent,
)


def encode(data: bytes) -> str:
    """Writes bytes as the protocol does."""
    return base64.b64encode(data).decode()


def normalize(*blocks: Any, **fields: Any) -> list[Any]:
    """Returns the contents of a result."""
    return list(normalize_result(types.CallToolResult(content=list(blocks), **fields)).contents)


def embed(mime_type: str | None, blob: str) -> types.EmbeddedResource:
    """Returns a resource with binary data."""
    resource = types.BlobResourceContents(uri="memo://1", blob=blob, mime_type=mime_type)
    return types.EmbeddedResource(resource=resource)


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/png", ImageContent),
        ("audio/wav", AudioContent),
        ("video/mp4", VideoContent),
        ("application/pdf", FileContent),
        (None, FileContent),
    ],
)
def test_a_resource_becomes_the_content_that_its_type_says(
    mime_type: str | None, kind: type
) -> None:
    """A line before it says which resource it is."""
    text, media = normalize(embed(mime_type, encode(b"data")))

    assert text.text.startswith("[resource memo://1")
    assert isinstance(media, kind)
    assert media.data == b"data"


def test_what_cannot_be_given_as_it_is_becomes_a_text_that_says_so() -> None:
    """Links, broken and empty data are named, not dropped."""
    link = types.ResourceLink(
        uri="file:///a",
        name="a",
        title="A",
        description="The first.",
        size=3,
        mime_type="text/plain",
    )
    broken = types.ImageContent(data="no base64!", mime_type="image/png")
    empty = types.AudioContent(data="", mime_type="audio/wav")

    texts = [each.text for each in normalize(link, broken, empty)]

    assert texts == [
        "[link to the resource 'a', file:///a (A, text/plain, 3 bytes)] The first.",
        "[image of the type image/png whose data are not base64]",
        "[audio of the type audio/wav without data]",
    ]


def test_the_structured_form_is_told_once() -> None:
    """Where a text says the same it is not repeated; else it is added."""
    same = types.TextContent(text='{\n "a": 1 }')

    assert len(normalize(same, structured_content={"a": 1})) == 1
    assert len(normalize(types.TextContent(text="3"), structured_content={"result": 3})) == 1
    assert len(normalize(types.TextContent(text="x"), structured_content={"result": "x"})) == 1
    added = normalize(types.TextContent(text="done"), structured_content={"a": 1})
    assert added[1] == TextualContent('{"a": 1}', mime_type="application/json")
    assert normalize(structured_content=[]) == [TextualContent("[]", mime_type="application/json")]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.text(max_size=20), _JSON)
def test_a_structured_form_is_never_lost(text: str, structured: Any) -> None:
    """Whatever it is and whatever text is beside it, it can be read from the contents."""
    contents = normalize(types.TextContent(text=text), structured_content=structured)

    said = [each.text for each in contents]
    assert said[0] == text if text else True
    if structured is not None:
        inner = structured.get("result") if isinstance(structured, dict) else None
        told = [_read(each) for each in said]
        assert structured in told or inner in (*told, *said)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize(
    ("hints", "trusts", "effect", "asks"),
    [
        ({"read_only_hint": True}, True, Effect.PURE, False),
        ({"read_only_hint": True}, False, Effect.ONCE, True),
        ({"idempotent_hint": True}, True, Effect.IDEMPOTENT, True),
        ({"idempotent_hint": True}, False, Effect.ONCE, True),
        ({"destructive_hint": False}, True, Effect.ONCE, True),
        (None, True, Effect.ONCE, True),
    ],
)
def test_what_a_server_says_of_its_tools_is_believed_where_the_user_says_so(
    hints: dict[str, bool] | None, trusts: bool, effect: Effect, asks: bool
) -> None:
    """Else every call needs an approval, and none is silently repeated."""
    annotations = None if hints is None else types.ToolAnnotations(**hints)
    tool = types.Tool(name="a", input_schema={"type": "object"}, annotations=annotations)
    server = McpServer(name="it", command="x", trust_annotations=trusts)

    made = produce_tool(tool, server, None)  # type: ignore[arg-type]

    assert made is not None
    assert (made.effect, made.needs_approval) == (effect, asks)
    assert made.description == "The tool 'a' of it."


def test_a_tool_that_is_allowed_needs_no_approval() -> None:
    """The user says so by a pattern, or for all of a server."""
    tool = types.Tool(name="read_one", input_schema={"type": "object"})

    for fields in ({"allowed": "read_*"}, {"needs_approval": False}):
        made = produce_tool(tool, McpServer(name="it", command="x", **fields), None)  # type: ignore[arg-type]
        assert made is not None
        assert not made.needs_approval
