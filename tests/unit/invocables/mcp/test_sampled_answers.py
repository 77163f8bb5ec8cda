"""Answers of a model for a server that asked for one: every content arrives, or is named."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp_types")

from vibe_llms.invocables.mcp.sampling import nativize_answer
from vibe_llms.messages.canisters import AssistantCanister, Origin, StopReason, UserCanister
from vibe_llms.messages.contents import (
    AnyContent,
    FileContent,
    ImageContent,
    ReasoningContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

PDF = FileContent(data=b"%PDF", mime_type="application/pdf")
VIDEO = VideoContent(url="https://example.org/a.mp4", mime_type="video/mp4")


def answer(*contents: AnyContent) -> Response:
    """Makes an answer with these contents."""
    origin = Origin(provider="p", model="m", stop_reason=StopReason.ANSWERED)
    return Response(
        request=Request(canisters=(UserCanister("hi"),)),
        canisters=(AssistantCanister(contents, origin=origin),),
        metadata=ResponseMetadata(origin=origin),
    )


@pytest.mark.parametrize(("medium", "name"), [(PDF, "application/pdf"), (VIDEO, "video/mp4")])
def test_what_the_protocol_cannot_send_is_named(medium: AnyContent, name: str) -> None:
    blocks = nativize_answer(answer(TextualContent("See:"), medium), with_tools=True).content

    assert [block.type for block in blocks] == ["text", "text"]
    assert blocks[0].text == "See:"
    assert name in blocks[1].text


def test_pictures_arrive_and_reasoning_stays_here() -> None:
    picture = ImageContent(data=b"\x89PNG", mime_type="image/png")
    blocks = nativize_answer(answer(ReasoningContent(text="hm"), picture), with_tools=True).content

    assert [block.type for block in blocks] == ["image"]
