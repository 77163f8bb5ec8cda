"""Server tools are validated values, and parts of requests."""

from __future__ import annotations

import pytest

import vibe_llms
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription, describe_server_tool
from vibe_llms.messages.requests import Request
from vibe_llms.messages.server_tools import SERVER_TOOLS, ServerTool
from vibe_llms.models.counting import count_invocable

EXAMPLES = (
    ServerTool("web_search", domains=["example.org"], max_uses=2, location={"country": "DE"}),
    ServerTool("web_fetch", blocked_domains=("example.org",)),
    ServerTool("code_execution", files=["file_1"]),
    ServerTool("file_search", stores=["vs_1"], max_results=3),
    ServerTool("image_generation", native={"size": "1024x1024"}),
    ServerTool("computer", display=(1280, 800), environment="browser"),
    ServerTool("mcp", label="notes", url="https://notes.example.org/mcp", approval="never"),
)


@pytest.mark.parametrize("tool", EXAMPLES, ids=lambda tool: tool.name)
def test_a_request_offers_a_server_tool_and_is_stored_with_it(tool: ServerTool) -> None:
    request = Request(canisters=[UserCanister("Look it up.")], invocables=[tool])

    (described,) = request.invocables
    assert described == describe_server_tool(tool)
    assert described.server_tool == tool
    tree = produce_converter().unstructure(request)
    assert produce_converter().structure(tree, Request) == request


def test_the_public_name() -> None:
    assert vibe_llms.ServerTool is ServerTool


@pytest.mark.parametrize(
    ("arguments", "options", "path"),
    [
        (("web_serach",), {}, "name"),
        (("web_search",), {"stores": ["vs_1"]}, "stores"),
        (("web_search",), {"domains": ["a.org"], "blocked_domains": ["b.org"]}, "blocked_domains"),
        (("web_search",), {"domains": "a.org"}, "domains"),
        (("web_search",), {"location": {"planet": "Earth"}}, "location"),
        (("web_search",), {"max_uses": "2"}, "max_uses"),
        (("computer",), {"display": (1280,)}, "display"),
        (("computer",), {"display": (1280, 0)}, "display"),
        (("mcp",), {"url": "https://example.org"}, "label"),
        (("mcp",), {"label": "a", "approval": "sometimes"}, "approval"),
        (("web_search",), {"native": {"a": float("nan")}}, "native.a"),
    ],
)
def test_invalid_tools_are_refused(arguments: tuple[str], options: object, path: str) -> None:
    with pytest.raises(RequestError) as caught:
        ServerTool(*arguments, **options)  # type: ignore[arg-type]

    assert caught.value.path == path
    assert caught.value.remedy


def test_an_unknown_name_suggests_a_known_one() -> None:
    with pytest.raises(RequestError, match="did you mean 'web_search'"):
        ServerTool("web_serach")


def test_native_fields_without_a_protocol_are_for_every_vendor() -> None:
    tool = ServerTool("web_search", native={"b": 1, "a": [2]})

    assert tool.native == Native(protocol="", data='{"b": 1, "a": [2]}')
    assert ServerTool("web_search", native=tool.native) == tool


def test_the_authorization_is_not_shown() -> None:
    tool = ServerTool("mcp", label="notes", authorization="secret-token")

    assert "secret-token" not in repr(tool)


def test_options_count_as_input() -> None:
    short = describe_server_tool(ServerTool("web_search"))
    long = describe_server_tool(ServerTool("web_search", domains=["example.org"] * 50))

    assert count_invocable(long, None).tokens > count_invocable(short, None).tokens + 50


def test_the_digest_depends_on_the_tool_and_others_keep_theirs() -> None:
    def digest(*tools: object) -> str:
        canisters = [UserCanister("Hello.", id="a")]
        return Request(canisters=canisters, invocables=tools).digest()  # type: ignore[arg-type]

    plain = InvocableDescription(name="look", description="Look.", schema={"type": "object"})
    assert digest(plain) == "ab80f4bf2146eed7715ffbc48a28b745b8baa0f35403bcd73ad03009e8381ef0"
    assert digest(ServerTool("web_search")) != digest(ServerTool("web_search", max_uses=1))


def test_each_option_belongs_to_a_tool() -> None:
    fields = {name for options in SERVER_TOOLS.values() for name in options}

    assert fields == {*ServerTool.__annotations__} - {"name", "native"}
