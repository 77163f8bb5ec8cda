"""The contract that every conversation store fulfills, whatever its backend."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vibe_llms.conversations import ConversationStore, DirectoryStore, MemoryStore
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.testing.contracts import StoreContract
from vibe_llms.testing.contracts.promises import BrokenPromise

EXAMPLE = Path(__file__).parents[1] / "fixtures" / "example-plugins" / "sqlite_store.py"


def load_example() -> ModuleType:
    """Import the plugin that the authors' guide shows."""
    specification = importlib.util.spec_from_file_location("sqlite_store", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class TestMemory(StoreContract):
    """The store in memory."""

    def produce_store(self, directory: Path) -> ConversationStore:
        return MemoryStore()


class TestDirectory(StoreContract):
    """The store in a directory."""

    def produce_store(self, directory: Path) -> ConversationStore:
        return DirectoryStore(directory)


class TestExample(StoreContract):
    """The store of the example plugin."""

    def produce_store(self, directory: Path) -> ConversationStore:
        store: ConversationStore = load_example().SqliteStore(
            directory / "a.sqlite", directory / "runs"
        )
        return store


class TestExampleWithRuns(StoreContract):
    """The store of the example plugin, with its own logs and inboxes."""

    def produce_store(self, directory: Path) -> ConversationStore:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(EXAMPLE.parent)
            module = importlib.import_module("ledger_store")
        store: ConversationStore = module.LedgerStore(directory / "a.sqlite", directory / "locks")
        return store


class Forgetful(MemoryStore):
    """Loses the last canister of each append."""

    def append(self, identity: str, canisters: Any, **options: Any) -> Any:
        some: list[AnyCanister] = list(canisters)
        return super().append(identity, some[:-1], **options)


class Careless(MemoryStore):
    """Accepts anything as an identity, and never secures."""

    def secure(self, identity: str) -> None:
        """Do nothing, without a check."""


def test_a_store_that_loses_canisters_fails_with_an_explanation(tmp_path: Path) -> None:
    """The message tells the author of the store what happened and what to do."""

    class Broken(StoreContract):
        def produce_store(self, directory: Path) -> ConversationStore:
            return Forgetful()

    with pytest.raises(BrokenPromise, match=r"Reading returns .* Write canisters with"):
        Broken().test_what_was_appended_reads_back_equal(tmp_path)
    with pytest.raises(BrokenPromise, match=r"not \['one', 'two', 'child'\]"):
        Broken().test_a_fork_shares_the_history_and_goes_its_own_way(tmp_path)


def test_a_store_that_does_not_check_identities_fails(tmp_path: Path) -> None:
    """Even a method that may do nothing must report an unknown conversation."""

    class Broken(StoreContract):
        def produce_store(self, directory: Path) -> ConversationStore:
            return Careless()

    with pytest.raises(BrokenPromise, match="ensure_identity"):
        Broken().test_an_identity_that_is_no_plain_name_is_refused(tmp_path)
    with pytest.raises(BrokenPromise, match="ghost"):
        Broken().test_an_unknown_conversation_is_named(tmp_path)
