"""Keys are kept in the system's keyring, or in a file of their owner alone, and are forgotten."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backend
import keyring.errors
import pytest

from vibe_llms.exceptions import ConfigurationError, StoreError
from vibe_llms.foundation.child_environment import strip_keys
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.credentials import acquire_key
from vibe_llms.providers.key_storage import (
    SERVICE,
    delete_key,
    find_stored_key,
    read_stored_key,
    store_key,
)

KEY = Secret("canary-1")


class Memory(keyring.backend.KeyringBackend):
    """A keyring of this process, which can be locked."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def _look(self) -> dict[tuple[str, str], str]:
        if self.is_locked:
            raise keyring.errors.KeyringLocked("It is locked: canary-1.")
        return self.kept

    def get_password(self, service: str, username: str) -> str | None:
        return self._look().get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._look()[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self._look()[service, username]


@pytest.fixture
def memory() -> Iterator[Memory]:
    before = keyring.get_keyring()
    own = Memory()
    keyring.set_keyring(own)
    yield own
    keyring.set_keyring(before)


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)


def test_a_keyring_keeps_the_key_and_the_folder_says_only_that(
    tmp_path: Path, memory: Memory
) -> None:
    folder = tmp_path / "deep" / "parrot"

    assert store_key("parrot", folder, KEY) == "the system's keyring"

    assert memory.kept == {(SERVICE, "parrot"): "canary-1"}
    assert all(each.read_bytes() == b"" for each in folder.iterdir())
    assert find_stored_key(folder) == "the system's keyring"
    found = read_stored_key("parrot", folder)
    assert found is not None
    assert found.reveal() == "canary-1"
    assert read_stored_key("other", folder) is None
    assert delete_key("parrot", folder)
    assert (memory.kept, list(folder.iterdir())) == ({}, [])
    assert (find_stored_key(folder), read_stored_key("parrot", folder)) == ("", None)
    assert not delete_key("parrot", folder)


@pytest.mark.usefixtures("no_keyring")
def test_without_one_a_file_of_its_owner_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "parrot"

    told = store_key("parrot", folder, KEY)

    (file,) = folder.iterdir()
    assert told == f"{file}, which only you can read"
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("canary-1", 0o600)
    assert find_stored_key(folder) == str(file)
    found = read_stored_key("parrot", folder)
    assert found is not None
    assert found.reveal() == "canary-1"
    assert delete_key("parrot", folder)
    assert (find_stored_key(folder), list(folder.iterdir())) == ("", [])
    assert not delete_key("parrot", folder)


def test_a_key_lies_in_one_place_only(
    tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a keyring came later, or went, the earlier copy is not read any more."""
    with monkeypatch.context() as patching:
        patching.setitem(sys.modules, "keyring", None)
        store_key("parrot", tmp_path, Secret("earlier"))
    store_key("parrot", tmp_path, KEY)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b""]

    with monkeypatch.context() as patching:
        patching.setitem(sys.modules, "keyring", None)
        store_key("parrot", tmp_path, Secret("later"))
    found = read_stored_key("parrot", tmp_path)
    assert found is not None
    assert found.reveal() == "later"


def test_what_an_earlier_version_kept_is_found(tmp_path: Path, memory: Memory) -> None:
    """The names under which keys lie are no other by the next version."""
    for name in ("parrot", "gull"):
        (tmp_path / name).mkdir()
    (tmp_path / "parrot" / "key").write_text("canary-1")
    (tmp_path / "gull" / "key-in-keyring").touch()
    memory.kept["vibe-llms", "gull"] = "canary-2"

    found = [read_stored_key(name, tmp_path / name) for name in ("parrot", "gull")]

    assert [each and each.reveal() for each in found] == ["canary-1", "canary-2"]


def test_a_keyring_that_is_locked_is_as_good_as_none_and_nothing_shows_the_key(
    tmp_path: Path, memory: Memory
) -> None:
    store_key("parrot", tmp_path, KEY)
    memory.is_locked = True

    assert read_stored_key("parrot", tmp_path) is None
    with pytest.raises(StoreError) as caught:
        delete_key("parrot", tmp_path)
    assert caught.value.path == str(tmp_path)
    assert "The key of parrot cannot be removed: KeyringLocked." in str(caught.value)
    assert repr(SERVICE) in caught.value.remedy
    assert find_stored_key(tmp_path)
    with pytest.raises(StoreError) as caught:
        store_key("parrot", tmp_path, KEY)
    assert caught.value.path == str(tmp_path)
    assert "It is locked: ***." in str(caught.value)
    assert "api_key_file" in caught.value.remedy
    assert caught.value.__cause__ is None


def test_a_keyring_that_does_not_work_is_none(tmp_path: Path, memory: Memory) -> None:
    """Its package chooses one without priority where the system has no keyring."""
    type(memory).priority = 0
    try:
        assert "only you can read" in store_key("parrot", tmp_path, KEY)
    finally:
        type(memory).priority = 1


@pytest.mark.usefixtures("no_keyring")
def test_a_mark_without_a_keyring_and_a_file_that_is_no_text_hold_no_key(tmp_path: Path) -> None:
    store_key("parrot", tmp_path, KEY)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\xff")
    assert read_stored_key("parrot", tmp_path) is None


def test_a_kept_key_is_found_under_its_providers_name_and_said_to_be_that(
    tmp_path: Path, memory: Memory
) -> None:
    store_key("parrot", tmp_path, KEY)
    found = acquire_key("parrot", {}, (), tmp_path)
    assert found is not None
    assert found.reveal() == "canary-1"
    assert acquire_key("parrot", {}, ()) is None

    memory.kept[SERVICE, "parrot"] = "no key"
    with pytest.raises(ConfigurationError, match="the stored key of parrot"):
        acquire_key("parrot", {}, (), tmp_path)


def test_a_variable_that_was_found_to_hold_a_key_is_hidden_from_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever it is called."""
    monkeypatch.setenv("PARROTS_FAVOURITE_WORD", "canary-2")
    acquire_key("parrot", {"api_key_variable": "PARROTS_FAVOURITE_WORD"}, ())

    given = {"PARROTS_FAVOURITE_WORD": "canary-2", "LANG": "C"}
    assert strip_keys(given) == {"LANG": "C"}
