"""Each dialect writes a server tool as its vendor's own, by the table, and reads it back."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from vibe_llms.dialects.chat_completions.quirks import Quirks as ChatQuirks
from vibe_llms.dialects.extras import join_fields
from vibe_llms.dialects.generate_content.quirks import Quirks as GeminiQuirks
from vibe_llms.dialects.server_tools import ToolForm, access_forms, read_server_tool
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription, describe_server_tool
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.server_tools import SERVER_TOOLS, ServerTool

GITHUB = ServerTool(
    "mcp",
    label="github",
    url="https://mcp.example.org",
    tools=["search", "read"],
    authorization="token",
)
PLACE = {"city": "Kiel", "country": "DE", "timezone": "Europe/Berlin"}


def write(
    dialect: str, *tools: ServerTool | InvocableDescription, quirks: Any = None, model: str = ""
) -> Translation[Any]:
    module = importlib.import_module(f"vibe_llms.dialects.{dialect}.calling.invocations")
    described = [
        describe_server_tool(tool) if isinstance(tool, ServerTool) else tool for tool in tools
    ]
    translation: Translation[Any] = module.nativize_invocables(
        described, "auto", quirks, model=model
    )
    return translation


def leave_out_include(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without the results that OpenAI is asked to include."""
    return {name: value for name, value in body.items() if name != "include"}


WRITTEN: list[tuple[str, ServerTool, dict[str, Any]]] = [
    (
        "responses",
        ServerTool("web_search", domains=["example.org"], location=PLACE),
        {
            "tools": [
                {
                    "type": "web_search",
                    "filters": {"allowed_domains": ["example.org"]},
                    "user_location": {"type": "approximate", **PLACE},
                }
            ]
        },
    ),
    (
        "responses",
        ServerTool("code_execution", files=["file_1"]),
        {
            "tools": [
                {
                    "type": "code_interpreter",
                    "container": {"type": "auto", "file_ids": ["file_1"]},
                }
            ]
        },
    ),
    (
        "responses",
        ServerTool("code_execution", container="cntr_1"),
        {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]},
    ),
    (
        "responses",
        GITHUB,
        {
            "tools": [
                {
                    "type": "mcp",
                    "server_label": "github",
                    "server_url": "https://mcp.example.org",
                    "allowed_tools": ["search", "read"],
                    "authorization": "token",
                }
            ]
        },
    ),
    (
        "messages",
        ServerTool("web_search", blocked_domains=["example.org"], max_uses=3, location=PLACE),
        {
            "tools": [
                {
                    "type": "web_search_20250305",
                    "name": "web_search",
                    "blocked_domains": ["example.org"],
                    "max_uses": 3,
                    "user_location": {"type": "approximate", **PLACE},
                }
            ]
        },
    ),
    (
        "messages",
        ServerTool("code_execution", container="container_1"),
        {
            "tools": [{"type": "code_execution_20250825", "name": "code_execution"}],
            "container": "container_1",
        },
    ),
    (
        "messages",
        GITHUB,
        {
            "tools": [
                {
                    "type": "mcp_toolset",
                    "mcp_server_name": "github",
                    "default_config": {"enabled": False},
                    "configs": {"search": {"enabled": True}, "read": {"enabled": True}},
                }
            ],
            "mcp_servers": [
                {
                    "type": "url",
                    "name": "github",
                    "url": "https://mcp.example.org",
                    "authorization_token": "token",
                }
            ],
            "betas": ["mcp-client-2025-11-20"],
        },
    ),
    ("generate_content", ServerTool("web_search"), {"tools": [{"googleSearch": {}}]}),
    (
        "generate_content",
        ServerTool("file_search", stores=["fileSearchStores/a"], max_results=4),
        {"tools": [{"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/a"], "topK": 4}}]},
    ),
    (
        "generate_content",
        ServerTool("mcp", label="a", url="https://a.example.org", authorization="token"),
        {
            "tools": [
                {
                    "mcpServers": [
                        {
                            "name": "a",
                            "streamableHttpTransport": {
                                "url": "https://a.example.org",
                                "headers": {"Authorization": "Bearer token"},
                            },
                        }
                    ]
                }
            ]
        },
    ),
]


@pytest.mark.parametrize(("dialect", "tool", "body"), WRITTEN, ids=repr)
def test_a_tool_is_written_as_the_vendors_own(
    dialect: str, tool: ServerTool, body: dict[str, Any]
) -> None:
    translation = write(dialect, tool)

    assert leave_out_include(translation.value) == body
    assert translation.losses == ()


@pytest.mark.parametrize(
    ("service", "model", "tool", "body"),
    [
        ("openai", "gpt-5-search-api", ServerTool("web_search"), {"web_search_options": {}}),
        (
            "perplexity",
            "sonar",
            ServerTool("web_search", blocked_domains=["a.org"]),
            {"search_domain_filter": ["-a.org"]},
        ),
        (
            "openrouter",
            "x/y",
            ServerTool("web_fetch", max_uses=1),
            {"tools": [{"type": "openrouter:web_fetch", "parameters": {"max_uses": 1}}]},
        ),
        (
            "groq",
            "openai/gpt-oss-120b",
            ServerTool("code_execution"),
            {"tools": [{"type": "code_interpreter"}]},
        ),
    ],
)
def test_services_of_chat_completions_have_their_own_forms(
    service: str, model: str, tool: ServerTool, body: dict[str, Any]
) -> None:
    quirks = ChatQuirks(server_tools=service)

    assert write("chat_completions", tool, quirks=quirks, model=model).value == body
    assert write("chat_completions", tool, model=model).value == {}  # a service without tools


def test_fields_outside_of_tools_are_joined() -> None:
    both = [ServerTool("web_search", domains=["a.org"]), ServerTool("code_execution")]
    quirks = ChatQuirks(server_tools="groq")

    body = write("chat_completions", *both, quirks=quirks, model="groq/compound").value

    assert body == {
        "compound_custom": {"tools": {"enabled_tools": ["web_search", "code_interpreter"]}},
        "search_settings": {"include_domains": ["a.org"]},
    }
    assert join_fields({"a": ["x"]}, {"a": ["x", "y"], "b": 1}) == {"a": ["x", "y"], "b": 1}


def test_a_tool_that_only_some_models_have_is_withheld_from_others() -> None:
    quirks = ChatQuirks(server_tools="openai")

    translation = write("chat_completions", ServerTool("web_search"), quirks=quirks, model="gpt-5")

    (loss,) = translation.losses
    assert (loss.kind, loss.path) == ("withheld", "invocables[0]")
    assert "*-search-*" in loss.reason


@pytest.mark.parametrize("dialect", ["chat_completions", "ollama_chat", "responses"])
def test_a_tool_that_the_vendor_lacks_is_withheld(dialect: str) -> None:
    translation = write(dialect, ServerTool("maps"))

    assert translation.value == {}
    (loss,) = translation.losses
    assert (loss.kind, loss.path) == ("withheld", "invocables[0]")
    assert "maps" in loss.reason


@pytest.mark.parametrize("dialect", ["chat_completions", "ollama_chat", "responses", "messages"])
def test_a_tool_of_the_caller_becomes_a_function(dialect: str) -> None:
    """A client of Anthropic's protocol executes its memory also for other models."""
    from vibe_llms.dialects import messages

    tool = {"type": "memory_20250818", "name": "memory"}
    (invocable,), _ = messages.normalize_invocables({"tools": [tool]}).value

    translation = write(dialect, invocable)

    (written,) = translation.value["tools"]
    if dialect == "messages":
        assert (written, translation.losses) == (tool, ())
        return
    function = written.get("function", written)
    assert function["name"] == "memory"
    assert "str_replace" in function["parameters"]["properties"]["command"]["enum"]
    assert [loss.kind for loss in translation.losses] == ["coerced"]


@pytest.mark.parametrize(
    ("dialect", "tool"),
    [
        ("responses", ServerTool("web_search", blocked_domains=["a.org"])),
        ("generate_content", ServerTool("web_search", domains=["a.org"])),
        ("generate_content", GITHUB),
        ("messages", ServerTool("mcp", label="a", url="https://a.org", approval="always")),
    ],
)
def test_a_tool_is_never_sent_without_its_limits(dialect: str, tool: ServerTool) -> None:
    translation = write(dialect, tool)

    assert translation.value == {}
    assert [loss.kind for loss in translation.losses] == ["withheld"]
    assert "limited" in translation.losses[0].reason


def test_another_service_may_have_the_limit() -> None:
    tool = ServerTool("web_search", blocked_domains=["a.org"])

    body = write("generate_content", tool, quirks=GeminiQuirks(server_tools="vertex")).value

    assert body == {"tools": [{"googleSearch": {"excludeDomains": ["a.org"]}}]}


def test_other_options_that_the_vendor_lacks_are_dropped() -> None:
    translation = write("responses", ServerTool("web_search", max_uses=2))

    assert leave_out_include(translation.value) == {"tools": [{"type": "web_search"}]}
    (loss,) = translation.losses
    assert (loss.kind, loss.path) == ("dropped", "invocables[0].server_tool.max_uses")


def test_a_needed_option_is_asked_for() -> None:
    with pytest.raises(RequestError, match="needs stores") as caught:
        write("responses", ServerTool("file_search"))

    assert caught.value.path == "invocables[0]"


def test_the_form_depends_on_the_options() -> None:
    small = write("messages", ServerTool("computer", display=(640, 480))).value
    unknown = write("messages", ServerTool("computer")).value

    assert small["tools"][0]["display_width_px"] == 640
    assert small["betas"] == ["computer-use-2025-11-24"]
    assert unknown == {"tools": [{"type": "computer_toolset_20260801"}]}


def test_native_fields_are_added_for_their_protocol() -> None:
    tool = ServerTool("web_search", native={"search_context_size": "low"})
    other = Native(protocol="messages", data='{"type": "web_search_20260318"}')

    assert write("responses", tool).value["tools"][0]["search_context_size"] == "low"
    newer = ServerTool("web_search", native=other)
    assert write("messages", newer).value["tools"][0]["type"] == "web_search_20260318"
    translation = write("responses", newer)
    assert leave_out_include(translation.value) == {"tools": [{"type": "web_search"}]}
    assert translation.losses[0].path == "invocables[0].server_tool.native"


@pytest.mark.parametrize("dialect", ["messages", "responses", "chat_completions", "ollama_chat"])
def test_a_function_stands_for_a_tool_that_the_vendor_lacks(dialect: str) -> None:
    described = InvocableDescription(
        name="memory",
        description="Read and write notes.",
        schema={"type": "object", "properties": {"command": {"type": "string"}}},
        server_tool=ServerTool("memory"),
    )

    translation = write(dialect, described)

    (tool,) = translation.value["tools"]
    if dialect == "messages":
        assert tool == {"type": "memory_20250818", "name": "memory"}
        assert translation.losses == ()
    else:
        assert "command" in json.dumps(tool)
        assert [loss.kind for loss in translation.losses] == ["coerced"]


FORMS = [each for each in access_forms() if each.tool is not None]


def make_tool(form: ToolForm) -> ServerTool:
    """Return a tool with an example of each option of a form."""
    examples: dict[str, Any] = {
        "display": (640, 480),
        "location": {"country": "DE"},
        "max_uses": 2,
        "max_results": 3,
        "approval": "never",
        "container": None,
        "environment": "browser",
    }
    options = {
        name: examples.get(name, [name] if isinstance(default, tuple) else name)
        for name, default in (
            (name, getattr(ServerTool("mcp", label="x"), name)) for name in form.options
        )
    }
    if {"domains", "blocked_domains"} <= options.keys():
        del options["blocked_domains"]
    return ServerTool(form.name, **options)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.service}-{form.name}")
def test_a_written_tool_is_read_back(form: ToolForm) -> None:
    quirks = type("Quirks", (), {"server_tools": form.service})()
    if form.dialect == "chat_completions":
        quirks = ChatQuirks(server_tools=form.service)
    tool = make_tool(form)
    model = form.models[0].replace("*", "x") if form.models else "m"

    body = write(form.dialect, tool, quirks=quirks, model=model).value

    written: Any = body.get("tools") or body["toolConfig"]["tools"]
    read = read_server_tool(form.dialect, written[0], body)
    assert read is not None
    options = {name: getattr(read, name) for name in read.list_options()}
    expected = {name: getattr(tool, name) for name in tool.list_options()}
    assert options == {**form.absent, **expected}


@pytest.mark.parametrize(
    ("dialect", "tool"),
    [
        ("messages", {"type": "mcp_toolset", "mcp_server_name": "a", "configs": {"b": {}}}),
        ("messages", {"type": "bash_20250124", "name": "bash"}),
        (
            "responses",
            {"type": "mcp", "server_label": "a", "allowed_tools": {"read_only": True}},
        ),
        (
            "responses",
            {"type": "mcp", "server_label": "a", "require_approval": {"never": {}}},
        ),
        ("responses", {"type": "web_search", "filters": {"allowed_domains": [1]}}),
        ("responses", {"type": "function", "name": "f"}),
        ("generate_content", {"computerVision": {}}),
    ],
    ids=repr,
)
def test_a_tool_whose_limits_are_not_understood_has_no_counterpart(
    dialect: str, tool: dict[str, Any]
) -> None:
    """Otherwise another vendor would execute more than the client allowed."""
    assert read_server_tool(dialect, tool, {}) is None


def test_what_a_client_means_by_leaving_out_approvals() -> None:
    """OpenAI then asks; Anthropic never asks."""
    openai = read_server_tool("responses", {"type": "mcp", "server_label": "a"}, {})
    servers = {"mcp_servers": [{"name": "b", "url": "u"}, {"name": "a", "url": "https://a.org"}]}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "a"}
    anthropic = read_server_tool("messages", toolset, servers)

    assert openai == ServerTool("mcp", label="a", approval="always")
    assert anthropic == ServerTool("mcp", label="a", url="https://a.org", approval="never")


def test_each_row_has_a_source_and_known_names() -> None:
    for form in access_forms():
        assert form.source, form
        assert form.date.year >= 2026
        assert form.options <= {*SERVER_TOOLS[form.name]}, form
        assert {*form.needs} <= form.options, form
    assert {form.name for form in access_forms()} == {*SERVER_TOOLS}


JUDGED = [
    form for form in access_forms() if form.service in ("openai", "anthropic", "gemini", "vertex")
]
"""Forms of services whose official packages are installed."""


@pytest.mark.slow
@pytest.mark.parametrize("form", JUDGED, ids=lambda form: f"{form.service}-{form.name}")
def test_the_official_types_accept_each_form(form: ToolForm) -> None:
    """The types of the official packages are the judges, where they describe the service."""
    import pydantic

    quirks: Any = type("Quirks", (), {"server_tools": form.service})()
    if form.dialect == "chat_completions":
        quirks = ChatQuirks(server_tools=form.service)
    model = form.models[0].replace("*", "x") if form.models else "m"
    body = write(form.dialect, make_tool(form), quirks=quirks, model=model).value
    match form.service:
        case "openai" if form.dialect == "responses":
            from openai.types.responses.tool_param import ToolParam

            pydantic.TypeAdapter(ToolParam).validate_python(body["tools"][0])
        case "openai":
            from openai.types.chat.completion_create_params import WebSearchOptions

            options = body["web_search_options"]
            pydantic.TypeAdapter(WebSearchOptions).validate_python(options)
        case "anthropic":
            from anthropic.types.beta.beta_request_mcp_server_url_definition_param import (
                BetaRequestMCPServerURLDefinitionParam,
            )
            from anthropic.types.beta.beta_tool_union_param import BetaToolUnionParam

            union = pydantic.TypeAdapter(BetaToolUnionParam)
            union.validate_python(body["tools"][0])
            servers = pydantic.TypeAdapter(list[BetaRequestMCPServerURLDefinitionParam])
            servers.validate_python(body.get("mcp_servers", []))
        case _ if form.dialect == "interactions":
            from google.genai._gaos.types.interactions.tool import ToolParam as InteractionTool

            union = pydantic.TypeAdapter(InteractionTool)
            union.validate_python(body["tools"][0])
        case _:
            from google.genai.types import Tool

            Tool.model_validate(body["tools"][0])


CLIENTS: list[tuple[str, dict[str, Any], str, dict[str, Any], list[str]]] = [
    (
        "messages",
        {"tools": [{"type": "web_search_20260318", "name": "web_search", "max_uses": 5}]},
        "responses",
        {"tools": [{"type": "web_search"}]},
        ["invocables[0].server_tool.max_uses"],
    ),
    (
        "responses",
        {
            "tools": [
                {
                    "type": "web_search_preview",
                    "search_context_size": "high",
                    "user_location": {"type": "approximate", "country": "DE", "city": None},
                }
            ]
        },
        "messages",
        {
            "tools": [
                {
                    "type": "web_search_20250305",
                    "name": "web_search",
                    "user_location": {"type": "approximate", "country": "DE"},
                }
            ]
        },
        ["invocables[0].server_tool.native"],
    ),
    (
        "responses",
        {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]},
        "generate_content",
        {"tools": [{"codeExecution": {}}]},
        ["invocables[0].server_tool.container"],
    ),
    (
        "generate_content",
        {"tools": [{"google_search": {}}, {"url_context": {}}]},
        "messages",
        {
            "tools": [
                {"type": "web_search_20250305", "name": "web_search"},
                {
                    "type": "web_fetch_20250910",
                    "name": "web_fetch",
                    "citations": {"enabled": True},
                },
            ]
        },
        [],
    ),
    (
        "chat_completions",
        {
            "web_search_options": {
                "search_context_size": "low",
                "user_location": {"type": "approximate", "approximate": {"country": "DE"}},
            }
        },
        "responses",
        {
            "tools": [
                {
                    "type": "web_search",
                    "user_location": {"type": "approximate", "country": "DE"},
                }
            ]
        },
        ["invocables[0].server_tool.native"],
    ),
    (
        "messages",
        {
            "tools": [{"type": "mcp_toolset", "mcp_server_name": "a"}],
            "mcp_servers": [{"type": "url", "name": "a", "url": "https://a.example.org"}],
        },
        "responses",
        {
            "tools": [
                {
                    "type": "mcp",
                    "server_label": "a",
                    "server_url": "https://a.example.org",
                    "require_approval": "never",
                }
            ]
        },
        [],
    ),
    (
        "responses",
        {"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://a.example.org"}]},
        "messages",
        {},
        ["invocables[0]"],
    ),
]


@pytest.mark.parametrize(("dialect", "request_body", "target", "body", "paths"), CLIENTS, ids=repr)
def test_a_clients_tool_is_written_for_another_vendor(
    dialect: str,
    request_body: dict[str, Any],
    target: str,
    body: dict[str, Any],
    paths: list[str],
) -> None:
    message = {
        "generate_content": {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]},
        "responses": {"input": "Hello."},
    }.get(dialect, {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 9})
    package = importlib.import_module(f"vibe_llms.dialects.{dialect}")

    request = package.normalize_request({"model": "m", **message, **request_body}).value

    translation = write(target, *request.invocables)
    assert leave_out_include(translation.value) == body
    assert [loss.path for loss in translation.losses] == paths
    own = write(dialect, *request.invocables).value
    assert own == request_body or dialect == "generate_content"  # which spells names its own way
    assert request.native is None or "mcp_servers" not in request.native.data


def test_a_client_may_have_a_function_of_the_same_name() -> None:
    package = importlib.import_module("vibe_llms.dialects.responses")
    tools = [
        {"type": "function", "name": "web_search", "parameters": {}, "strict": False},
        {"type": "web_search"},
    ]

    (function, searching), _ = package.normalize_invocables({"tools": tools}).value

    assert (function.name, searching.name) == ("web_search", "web_search_2")
    translation = write("messages", function, searching)
    assert [tool["name"] for tool in translation.value["tools"]] == ["web_search"]
    assert [loss.path for loss in translation.losses] == ["invocables[1]"]
    assert len(write("generate_content", function, searching).value["tools"]) == 2


def test_results_of_code_are_texts_and_files() -> None:
    """The files that Anthropic's code has written are named by their ids."""
    from vibe_llms.dialects.messages.calling.executions import normalize_result
    from vibe_llms.messages.contents import FileContent, TextualContent

    content = {
        "type": "bash_code_execution_result",
        "stdout": "out",
        "stderr": "warning",
        "return_code": 1,
        "content": [{"type": "bash_code_execution_output", "file_id": "file_1"}],
    }
    kind = "bash_code_execution_tool_result"
    block = {"type": kind, "tool_use_id": "s", "content": content}

    result = normalize_result(block, {"s": "code_execution"})

    text, file = result.content
    assert isinstance(text, TextualContent)
    assert text.text == "out\nwarning"
    assert isinstance(file, FileContent)
    assert file.file_id == "file_1"
    assert (result.name, result.is_error) == ("code_execution", True)


def test_a_fetched_page_cites_its_address() -> None:
    from vibe_llms.dialects.messages.calling.executions import normalize_result
    from vibe_llms.messages.contents import Citation

    source = {"type": "text", "media_type": "text/plain", "data": "Text."}
    document = {"type": "document", "title": "Page", "source": source}
    content = {"type": "web_fetch_result", "url": "https://a.org", "content": document}
    block = {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": content}

    (text,) = normalize_result(block, {}).content

    assert text.text == "Page\nhttps://a.org\nText."  # type: ignore[union-attr]
    assert text.citations == (Citation(title="Page", url="https://a.org"),)  # type: ignore[union-attr]


def test_calls_of_earlier_versions_are_sent_back_unchanged() -> None:
    """Before, the arguments of a search were its whole action."""
    from vibe_llms.dialects.extras import make_native
    from vibe_llms.dialects.responses.calling.messages import nativize_canisters
    from vibe_llms.dialects.responses.quirks import Quirks
    from vibe_llms.dialects.serving import UNKNOWN_MODEL
    from vibe_llms.messages.canisters import InvocationCanister, Owner, UserCanister

    action = {"type": "search", "query": "q", "queries": ["q"], "sources": [{"url": "u"}]}
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    code = {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "c"}
    calls = [
        InvocationCanister(
            invocation_id="ws_1",
            name="web_search",
            arguments=json.dumps(action),
            owner=Owner.VENDOR,
            native=make_native("responses", item),
        ),
        InvocationCanister(
            invocation_id="ci_1",
            name="code_interpreter",
            arguments="1",
            form="text",
            owner=Owner.VENDOR,
            native=make_native("responses", code),
        ),
    ]

    written: Any = nativize_canisters([UserCanister("Hi."), *calls], UNKNOWN_MODEL, Quirks()).value

    assert written["input"][1:] == [item, code]


@pytest.mark.parametrize(
    ("tool", "name"),
    [("nova_grounding", "web_search"), ("nova_code_interpreter", "code_execution")],
)
def test_the_tools_of_bedrock_have_common_names(tool: str, name: str) -> None:
    """A function of a client keeps its name, whatever it is."""
    from vibe_llms.dialects.bedrock.calling.executions import normalize_invocation, read_name
    from vibe_llms.dialects.bedrock.calling.growth import begin_block

    call = {"toolUseId": "t", "name": tool, "type": "server_tool_use", "input": {"query": "q"}}
    names: dict[str, str] = {}

    started = begin_block(0, {"toolUse": call}, names).start()

    assert normalize_invocation({"toolUse": call}).name == name
    assert (started.name, names) == (name, {"t": name})
    assert read_name({"name": tool}) == tool
