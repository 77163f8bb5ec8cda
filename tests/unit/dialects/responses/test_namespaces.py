"""Tools in namespaces have joined names elsewhere, and their original names in Responses."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects import responses
from vibe_llms.dialects.messages.calling import invocations as messages_invocations
from vibe_llms.dialects.responses.calling.invocations import nativize_invocables
from vibe_llms.dialects.responses.namespaces import QualifiedName, name_tools
from vibe_llms.dialects.responses.serving.invocations import find_allowed, normalize_invocables
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.descriptions import CHOICES
from vibe_llms.messages.losses import LossKind
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.genera import Genus

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
MODEL = ModelAttributes(
    address=ModelAddress("other", "gpt-5.5"), genus=Genus.CONVERSER, controls=(), traced_values=()
)


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "strict": False, "parameters": SCHEMA, **fields}


TIDES: dict[str, Any] = {
    "type": "namespace",
    "name": "mcp__tides",
    "description": "Knows the sea.",
    "tools": [
        function("look_up", description="Looks a tide up.", defer_loading=True),
        function("note"),
        {"type": "custom", "name": "script", "description": "Runs.", "format": {"type": "text"}},
    ],
}
INNER: list[dict[str, Any]] = TIDES["tools"]
TOOLS: list[dict[str, Any]] = [
    function("shell", description="Runs a command."),
    TIDES,
    {"type": "web_search"},
    {
        "type": "namespace",
        "name": "functions",
        "description": "Usual tools.",
        "tools": [function("plan", description="Plans.")],
    },
]


def test_each_tool_has_a_unique_name() -> None:
    """The first of a namespace has its description."""
    invocables, _ = normalize_invocables({"tools": TOOLS}).value

    described = {each.name: each.description for each in invocables}
    assert described == {
        "shell": "Runs a command.",
        "mcp__tides__look_up": "Looks a tide up.\n\nAbout all tools of mcp__tides: Knows the sea.",
        "mcp__tides__note": "",
        "mcp__tides__script": "Runs.",
        "web_search": "",
        "plan": "Plans.\n\nAbout all tools of functions: Usual tools.",
    }
    schemas = [each.schema for each in invocables]
    assert schemas == [SCHEMA, SCHEMA, SCHEMA, None, None, SCHEMA]


def test_namespaces_round_trip_in_their_own_protocol() -> None:
    """Without a loss."""
    invocables, choice = normalize_invocables({"tools": TOOLS}).value
    written = nativize_invocables(invocables, choice)
    assert written.value == {"tools": TOOLS}
    assert written.losses == ()


def test_a_namespace_is_one_loss_for_other_protocols() -> None:
    """However many tools it has."""
    invocables, _ = normalize_invocables({"tools": [TIDES]}).value

    written: Any = messages_invocations.nativize_invocables(invocables, "auto", None)

    assert [tool["name"] for tool in written.value["tools"]] == [
        "mcp__tides__look_up",
        "mcp__tides__note",
    ]  # the custom one is lowered where the request leaves
    described = [(loss.kind, loss.path) for loss in written.losses]
    assert described[0] == (LossKind.WITHHELD, "invocables[0].native")
    assert "namespace" in written.losses[0].reason
    assert [path for _, path in described[1:]] == ["invocables[2]"]


NAMES = st.text("ab_", min_size=1, max_size=4)


@given(
    plain=st.lists(NAMES, unique=True, max_size=4),
    spaces=st.dictionaries(NAMES, st.lists(NAMES, unique=True, min_size=1, max_size=4), max_size=4),
)
def test_names_of_tools_are_unique(plain: list[str], spaces: dict[str, list[str]]) -> None:
    """None is a name of a choice; functions keep their names."""
    tools = [
        *({"type": "namespace", "name": name, "tools": [function(each) for each in inner]}
          for name, inner in spaces.items()),
        *map(function, plain),
    ]  # fmt: skip
    names = name_tools({"tools": tools})

    assert names.keys() == {
        QualifiedName(space, name) for space, inner in spaces.items() for name in inner
    }
    flat = [*names.values(), *plain]
    assert len(set(flat)) == len(flat)
    assert not set(names.values()) & {*CHOICES}
    invocables, _ = normalize_invocables({"tools": tools}).value
    assert sorted(each.name for each in invocables) == sorted(flat)
    assert nativize_invocables(invocables, "auto").value.get("tools", []) == tools


def test_a_name_does_not_depend_on_other_tools() -> None:
    """Otherwise prompt caches of vendors would not match."""
    tools = [function("mcp__tides__note"), TIDES]
    (first,) = {name for home, name in name_tools({"tools": tools}).items() if home.name == "note"}
    assert first.startswith("mcp__tides__note_")
    assert name_tools({"tools": [*TOOLS, *tools]})[QualifiedName("mcp__tides", "note")] == first


ODD: list[Any] = [
    {"type": "namespace", "name": "x", "tools": []},
    {"type": "namespace", "name": "x", "tools": None},
    {"type": "namespace", "name": "", "tools": [function("a")]},
    {"type": "namespace", "name": "x", "tools": [function("a"), function("a")]},
    {"type": "namespace", "name": "x", "tools": [function("a"), {"type": "from_the_future"}]},
    {"type": "namespace", "name": "x", "tools": ["a"]},
]


@pytest.mark.parametrize("tool", ODD, ids=str)
def test_an_invalid_namespace_is_kept_unchanged(tool: Any) -> None:
    """Its vendor reports the error."""
    invocables, _ = normalize_invocables({"tools": [tool, TIDES, TIDES]}).value
    assert len(invocables) == 5
    assert nativize_invocables(invocables, "auto").value["tools"] == [tool, TIDES, TIDES]


HISTORY: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": "Well?"},
    {
        "type": "function_call",
        "call_id": "c1",
        "name": "look_up",
        "namespace": "mcp__tides",
        "arguments": "{}",
    },
    {"type": "function_call_output", "call_id": "c1", "output": "At noon."},
    {
        "type": "custom_tool_call",
        "call_id": "c2",
        "name": "script",
        "namespace": "mcp__gone",
        "input": "x",
    },
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "Done."},
]


def test_a_history_has_the_names_of_the_tools() -> None:
    """Also of a namespace that is not offered any more; it round-trips in its own protocol."""
    request = responses.normalize_request({"model": "m", "input": HISTORY, "tools": TOOLS}).value

    calls = [each for each in request.canisters if isinstance(each, InvocationCanister)]
    assert [each.name for each in calls] == ["mcp__tides__look_up", "mcp__gone__script"]
    written: Any = responses.nativize_request(request, MODEL, responses.Quirks(), provider="other")
    assert written.value["input"][1:] == HISTORY[1:]
    assert written.losses == ()


def test_a_call_of_another_vendor_gets_its_namespace_back() -> None:
    """A call by Claude is sent to GPT as a call in the namespace."""
    request = responses.normalize_request({"model": "m", "input": "Well?", "tools": TOOLS}).value
    call = InvocationCanister(invocation_id="c", name="mcp__tides__note", arguments="{}")
    result = ResultCanister("Noted.", invocation_id="c", name="mcp__tides__note")
    canisters = (*request.canisters, call, result)

    written: Any = responses.nativize_request(
        attrs.evolve(request, canisters=canisters), MODEL, responses.Quirks(), provider="other"
    )

    made = written.value["input"][1]
    assert (made["namespace"], made["name"]) == ("mcp__tides", "note")


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "function", "name": "note", "namespace": "mcp__tides"}, "mcp__tides__note"),
        ({"type": "custom", "name": "script", "namespace": "mcp__tides"}, "mcp__tides__script"),
        ({"type": "function", "name": "shell"}, "shell"),
        ({"type": "function", "name": "shell", "namespace": "mcp__tides"}, "auto"),
        ({"type": "web_search"}, "web_search"),
    ],
)
def test_a_choice_of_a_tool_in_a_namespace_round_trips(choice: dict[str, Any], name: str) -> None:
    """And has its joined name for other vendors."""
    invocables, chosen = normalize_invocables({"tools": TOOLS, "tool_choice": choice}).value
    assert chosen == name
    if name != "auto":
        assert nativize_invocables(invocables, chosen).value["tool_choice"] == choice


def test_a_choice_may_allow_only_some_tools() -> None:
    """A tool of a namespace, all of a namespace, or a tool without one."""
    chosen = [
        {"type": "function", "name": "look_up", "namespace": "mcp__tides"},
        {"type": "namespace", "name": "functions"},
        {"type": "function", "name": "shell"},
    ]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": chosen}
    allowed = find_allowed({"tools": TOOLS, "tool_choice": choice})
    assert allowed == frozenset(("mcp__tides__look_up", "plan", "shell"))


def test_names_are_found_in_one_pass() -> None:
    """Twice the tools take twice the look-ups."""

    class Counted(dict[str, Any]):
        looks = 0

        def get(self, *given: Any) -> Any:
            Counted.looks += 1
            return super().get(*given)

    counts = []
    for number in (200, 400):
        Counted.looks = 0
        inner = [Counted(function(f"f{index}")) for index in range(number)]
        normalize_invocables({"tools": [{"type": "namespace", "name": "x", "tools": inner}]})
        counts.append(Counted.looks)
    assert counts[1] <= 2 * counts[0] + 10


LOADED: list[dict[str, Any]] = [
    {
        "type": "additional_tools",
        "role": "developer",
        "tools": [{"type": "web_search"}, function("plan", description="Once."), TIDES],
    },
    {"type": "message", "role": "user", "content": "Well?"},
    {"type": "additional_tools", "role": "developer", "tools": [function("plan", strict=None)]},
]


def test_tools_among_the_items_are_offered() -> None:
    """With their latest descriptions. Codex sends all of its tools there for its newest models."""
    native = {"model": "m", "input": LOADED, "tools": TOOLS[:1]}
    request = responses.normalize_request(native).value

    described = {each.name: each.description for each in request.invocables}
    assert [*described] == [
        "shell",
        "plan",
        "mcp__tides__look_up",
        "mcp__tides__note",
        "mcp__tides__script",
    ]
    assert described["plan"] == ""


def test_tools_among_the_items_stay_there_in_their_own_protocol() -> None:
    """At their positions; a choice of one does not change, either."""
    choice = {"type": "function", "name": "note", "namespace": "mcp__tides"}
    native = {"model": "m", "input": LOADED, "tools": TOOLS[:1], "tool_choice": choice}
    request = responses.normalize_request(native).value
    written: Any = responses.nativize_request(request, MODEL, responses.Quirks(), provider="other")

    assert written.value["tools"] == TOOLS[:1]
    assert written.value["tool_choice"] == choice
    items = [{"type": "message", **item} for item in written.value["input"]]
    assert items == LOADED
    assert written.losses == ()


@pytest.mark.parametrize("tools", [None, "x", {}, [None], ["x"], [{"type": "namespace"}]])
def test_invalid_items_offer_no_tools(tools: Any) -> None:
    """Their vendor reports the error."""
    items = [{"type": "additional_tools", "role": "developer", "tools": tools}, *LOADED[1:2]]
    assert responses.normalize_request({"model": "m", "input": items}).value.invocables == ()


SEARCH: dict[str, Any] = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_tool_search_of_the_client_is_a_function_for_any_model(is_loaded: bool) -> None:
    """The tools that it finds are offered from then on; in its own protocol it round-trips."""
    call: dict[str, Any] = {
        "type": "tool_search_call",
        "call_id": "c",
        "execution": "client",
        "arguments": {"query": "tides"},
        "status": "completed",
    }
    found = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [TIDES]}
    items: list[Any] = [LOADED[1], call, {**found, "status": "completed"}]
    native: dict[str, Any] = {"model": "m", "input": items}
    if is_loaded:
        items.insert(0, {"type": "additional_tools", "role": "developer", "tools": [SEARCH]})
    else:
        native["tools"] = [SEARCH]
    request = responses.normalize_request(native).value

    (search, *others) = request.invocables
    assert (search.name, search.schema) == ("tool_search", SEARCH["parameters"])
    assert [each.name for each in others] == [f"mcp__tides__{each['name']}" for each in INNER]
    written: Any = responses.nativize_request(request, MODEL, responses.Quirks(), provider="other")
    assert written.value.get("tools") == native.get("tools")
    assert [{"type": "message", **item} for item in written.value["input"]] == items
    elsewhere: Any = messages_invocations.nativize_invocables((search,), "auto", None).value
    (described,) = elsewhere["tools"]
    assert (described["name"], described["input_schema"]) == ("tool_search", SEARCH["parameters"])


def test_a_tool_search_of_the_vendor_is_its_own_tool() -> None:
    """No other vendor would execute it."""
    (search,) = normalize_invocables({"tools": [{"type": "tool_search"}]}).value[0]
    assert search.schema is None
    assert nativize_invocables((search,), "auto").value["tools"] == [{"type": "tool_search"}]
