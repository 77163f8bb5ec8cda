"""What the package offers at the top, and that every lazy table tells the truth."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path

import pytest

import vibe_llms
from vibe_llms.dialects import HOMES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sources" / "vibe_llms"

PUBLIC_NAMES = {
    "converse": {
        "Application",
        "Conversation",
        "Engine",
        "Model",
        "Prompt",
        "SyncEngine",
        "SyncModel",
    },
    "genera": {
        "CallCache",
        "Embedder",
        "Illustrator",
        "Moderator",
        "Ranker",
        "Speaker",
        "SyncEmbedder",
        "SyncIllustrator",
        "SyncModerator",
        "SyncRanker",
        "SyncSpeaker",
        "SyncTranscriber",
        "Transcriber",
        "Vectors",
    },
    "tools": {"Invoker", "invocable"},
    "runs": {"connect"},
    "evals": {"Suite", "evaluate", "run_suite"},
    "forms": {"Parser"},
    "channels": {"AsyncChannel", "SyncChannel", "ToolChannel"},
    "canisters": {
        "AssistantCanister",
        "Canister",
        "DocumentCanister",
        "InvocationCanister",
        "ResultCanister",
        "ServerTool",
        "SupervisorCanister",
        "UserCanister",
    },
    "contents": {
        "AudioContent",
        "CacheHint",
        "Content",
        "FileContent",
        "ImageContent",
        "NativeContent",
        "ReasoningContent",
        "RefusalContent",
        "TextualContent",
        "VideoContent",
    },
    "requests": {"InvocableDescription", "Request", "Response"},
    "events": {"ConversationReactors", "EventBus"},
    "batches": {
        "BatchChannel",
        "BatchInput",
        "BatchReport",
        "SyncBatchChannel",
        "SyncVendorBatchChannel",
        "VendorBatchChannel",
    },
    "errors": {"ConverseError"},
    "providers": {"discover_providers", "hook", "load_configuration", "load_provider"},
}
"""Whoever removes a name here breaks somebody's program: that wants a changelog fragment."""

LAZY_PACKAGES = sorted(
    ".".join(("vibe_llms", *path.parent.relative_to(PACKAGE).parts))
    for path in PACKAGE.rglob("__init__.py")
    if "produce_attribute_access(" in path.read_text("utf-8")
)


def test_the_public_names_are_these() -> None:
    """The package offers what this table lists, and nothing by accident."""
    assert set(vibe_llms.__all__) == set().union(*PUBLIC_NAMES.values())


def test_every_public_name_says_what_it_is_for() -> None:
    """Each class and function at the top has a docstring of its own."""
    silent = [
        name
        for name in vibe_llms.__all__
        if inspect.isclass(value := getattr(vibe_llms, name)) or inspect.isroutine(value)
        if not value.__doc__
    ]

    assert not silent


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_a_lazy_table_tells_the_truth(package: str) -> None:
    """Every name of a lazy table can be had, and comes from the module that the table names."""
    module = importlib.import_module(package)

    for name in dir(module):
        assert getattr(module, name) is not None
    assert sorted(getattr(module, "__all__", dir(module))) == dir(module)


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_type_checkers_see_what_the_table_says(package: str) -> None:
    """The imports for type checkers and the table for run time have the same names and homes."""
    module = sys.modules.get(package) or importlib.import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    seen = {
        alias.asname or alias.name: f"{node.module}".removeprefix(f"{package}.")
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and f"{node.module}".startswith("vibe_llms")
        for alias in node.names
    }

    assert {name: home for name, home in seen.items() if name in dir(module)} == {
        name: read_table(tree)[name] for name in dir(module)
    }


def read_table(tree: ast.Module) -> dict[str, str]:
    """Returns the table that a package's module hands to the lazy access; dialects share one."""
    if any(isinstance(node, ast.Name) and node.id == "HOMES" for node in ast.walk(tree)):
        return HOMES
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and node.keys:
            table = ast.literal_eval(node)
            if isinstance(table, dict) and all(isinstance(home, str) for home in table.values()):
                return table
    raise AssertionError("There is no table.")
