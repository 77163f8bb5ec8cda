"""An ensemble of the configuration offers one server tool."""

from __future__ import annotations

from typing import Any

import pytest

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.ensembles import describe_tools, gather_ensembles
from vibe_llms.invocables.invokers import produce_invoker
from vibe_llms.invocables.registry import Registry
from vibe_llms.invocables.shipped.server.ensemble import produce_ensemble
from vibe_llms.messages.server_tools import ServerTool


@pytest.mark.parametrize(
    ("name", "settings", "tool"),
    [
        ("web_search", {}, ServerTool("web_search")),
        ("docs", {"tool": "web_search", "domains": ["a.org"]}, None),
        ("wiki", {"tool": "mcp", "url": "https://a.org", "approval": "never"}, None),
    ],
)
async def test_the_settings_are_the_options(
    name: str, settings: dict[str, Any], tool: ServerTool | None
) -> None:
    async with Registry([produce_ensemble(name, settings)]) as registry:
        (described,) = registry.describe()

    options = {option: value for option, value in settings.items() if option != "tool"}
    if settings.get("tool") == "mcp":
        options["label"] = name
    assert described.server_tool == (tool or ServerTool(settings["tool"], **options))
    assert described.name == (name if "label" in options else described.server_tool.name)


@pytest.mark.parametrize(
    ("name", "settings", "place"),
    [
        ("docs", {}, "ensembles.docs"),
        ("web_search", {"stores": ["a"]}, "ensembles.web_search.stores"),
        ("web_search", {"depth": 3}, "ensembles.web_search"),
        ("web_search", {"max_uses": "3"}, "ensembles.web_search.max_uses"),
    ],
)
def test_an_invalid_setting_is_named(name: str, settings: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        produce_ensemble(name, settings)

    (finding,) = caught.value.findings
    assert finding.place == place


def test_a_server_tool_alone_is_a_tool() -> None:
    (described,) = describe_tools(ServerTool("web_search"))
    (ensemble,) = gather_ensembles([ServerTool("web_search"), ServerTool("code_execution")])

    assert described.server_tool == ServerTool("web_search")
    assert [each.name for each in ensemble.invokers] == ["web_search", "code_execution"]  # type: ignore[attr-defined]


async def test_only_the_callers_tools_wait_for_a_result() -> None:
    """A vendor executes the others, so that no call of them comes to the engine."""
    searching = produce_invoker(ServerTool("web_search"))
    computer = produce_invoker(ServerTool("computer"))

    assert (searching.needs_approval, computer.needs_approval) == (False, True)
    outcome = searching.function({}, InvocationContext())
    assert outcome.is_error


def test_a_function_may_execute_a_server_tool() -> None:
    def remember(command: str, path: str) -> str:
        """Read and write notes."""
        return command

    invoker = produce_invoker(remember, name="memory", source=ServerTool("memory"))

    described = invoker.describe()
    assert described.server_tool == ServerTool("memory")
    assert described.schema is not None
    assert set(described.schema["properties"]) == {"command", "path"}  # type: ignore[arg-type,call-overload]


async def test_the_authorization_may_be_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKI_TOKEN", "token")
    settings = {"tool": "mcp", "url": "https://a.org", "authorization": {"variable": "WIKI_TOKEN"}}

    (invoker,) = await produce_ensemble("wiki", settings).survey()

    tool = invoker.describe().server_tool
    assert tool is not None
    assert tool.authorization == "token"
    monkeypatch.delenv("WIKI_TOKEN")
    with pytest.raises(ConfigurationError, match="WIKI_TOKEN is not set"):
        produce_ensemble("wiki", settings)
