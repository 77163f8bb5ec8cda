"""The content of an entry comes from the task, its folder or the public web, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import RequestError
from vibe_llms.flows import registry_contents
from vibe_llms.flows.interpolation import read_template
from vibe_llms.flows.registry_contents import (
    RegistryContents,
    find_address_fault,
    survey_contents,
    survey_private_hosts,
)
from vibe_llms.flows.tasks import RegistryEntry, ResourceRegistry


def produce_contents(*addresses: str, folder: Path | None = None) -> RegistryContents:
    """Makes those of entries ``e0``, ``e1`` and so on, at these addresses."""
    entries = [RegistryEntry(name=f"e{i}", source_url=each) for i, each in enumerate(addresses)]
    return RegistryContents(registry=ResourceRegistry(entries=entries), folder=folder)


async def read(address: str, folder: Path | None) -> str:
    """Returns the content at one address."""
    return (await produce_contents(address, folder=folder).acquire(["e0"]))["e0"]


async def test_what_is_written_in_the_task_is_the_content() -> None:
    """Even where there is an address as well, and no folder."""
    entry = RegistryEntry(name="a", source_url="https://example.org", content="Here.")
    found = RegistryContents(registry=ResourceRegistry(entries=[entry]))
    assert await found.acquire(["a", "a"]) == {"a": "Here."}
    assert find_address_fault(entry, None) == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task's folder with files in it, and a secret beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    home = tmp_path / "task"
    (home / "docs").mkdir(parents=True)
    (home / "notes.md").write_text("Notes: ü", encoding="utf-8")
    (home / "docs" / "my notes.md").write_bytes(b"\xef\xbb\xbfmarked")
    (home / "wide.txt").write_text("wide", encoding="utf-16")
    (home / "inside").symlink_to("docs/my notes.md")
    (home / "outside").symlink_to("../secret.txt")
    (home / "up").symlink_to("..")
    (home / "picture").write_bytes(b"\x89PNG\r\n")
    (home / "zeros").write_bytes(b"a\0b")
    os.mkfifo(home / "pipe")
    return home


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("file:notes.md", "Notes: ü"),
        ("FILE:./docs/../notes.md", "Notes: ü"),
        ("file:docs/my%20notes.md", "marked"),
        ("file://{folder}/notes.md", "Notes: ü"),
        ("file://localhost{folder}/notes.md", "Notes: ü"),
        ("file:inside", "marked"),
        ("file:wide.txt", "wide"),
    ],
)
async def test_a_file_of_the_task_s_folder_is_read(folder: Path, address: str, text: str) -> None:
    """By a relative or a whole path, through links that stay within; without a byte order mark."""
    assert await read(address.format(folder=folder), folder) == text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("file:../secret.txt", "outside of the granted"),
        ("file:..%2Fsecret.txt", "outside of the granted"),
        ("file:outside", "outside of the granted"),
        ("file:up/secret.txt", "outside of the granted"),
        ("file:///etc/hostname", "outside of the granted"),
        ("file://elsewhere/notes.md", "not a path"),
        ("file:", "not a path"),
        ("file:absent.md", "does not exist"),
        ("file:docs", "a directory"),
        ("file:pipe", "a pipe"),
        ("file:picture", "not UTF-8 text"),
        ("file:zeros", "the character NUL"),
        ("file:a%00b", "NUL"),
        ("notes.md", "use an address that starts with https://"),
        ("http://example.org/", "use an address that starts with https://"),
        ("ftp://example.org/", "use an address that starts with https://"),
        ("https://user:word@example.org/", "a user or password"),
        ("https://", "Cannot fetch"),
    ],
)
async def test_what_may_not_be_had_is_refused(folder: Path, address: str, words: str) -> None:
    """With the name of the entry, its address, why, and what may."""
    with pytest.raises(RequestError) as caught:
        await read(address, folder)

    assert caught.value.path == "registry:e0.content"
    assert f"'e0' ({address})" in caught.value.detail
    assert words in caught.value.detail
    assert "file:notes.md" in caught.value.remedy


async def test_a_file_needs_a_folder() -> None:
    """A task that is no file has none."""
    with pytest.raises(RequestError, match="the task has no file"):
        await read("file:notes.md", None)


async def test_a_content_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger is refused, not cut."""
    monkeypatch.setattr(registry_contents, "CONTENT_BYTES", 9)
    assert await read("file:notes.md", folder) == "Notes: ü"
    (folder / "notes.md").write_text("Notes: üü", encoding="utf-8")
    with pytest.raises(RequestError, match="larger than the limit of 9 bytes"):
        await read("file:notes.md", folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["..", ".", "up", "docs", "outside", "%2e%2e", "/", "inside"])))
async def test_no_path_leads_out(folder: Path, steps: list[str]) -> None:
    """However it is put together."""
    with pytest.raises(RequestError):
        await read(f"file:{'/'.join([*steps, 'secret.txt'])}", folder)


def test_the_entries_whose_contents_are_wanted_are_known_before_a_run() -> None:
    """From the templates alone."""
    templates = map(read_template, ["{{registry:a.content}} {{registry:b}}", "{{registry:c.name}}"])
    assert survey_contents(templates) == {"a"}


def test_an_address_can_be_checked_before_a_run(folder: Path) -> None:
    """Without looking for what is there."""
    faults = {
        address: find_address_fault(RegistryEntry(name="a", source_url=address), folder)
        for address in ("file:absent", "https://example.org", "file:", "http://example.org")
    }
    assert [address for address, fault in faults.items() if not fault] == [
        "file:absent",
        "https://example.org",
    ]


def test_hosts_that_the_user_allows_are_those_of_the_ensemble(tmp_path: Path) -> None:
    """One setting says which; an ensemble that is disabled allows none."""
    file = tmp_path / "config.toml"
    file.write_text(
        '[ensembles.fetch]\nprivate_hosts = ["wiki.internal"]\n'
        '[ensembles.other]\nmodule = "other"\nprivate_hosts = ["b"]\nenabled = false\n'
    )
    environment = {"VIBE_LLMS_CONFIG": str(file), "HOME": str(tmp_path)}
    configuration = load_configuration(environment=environment, working_directory=tmp_path)
    assert survey_private_hosts(configuration) == ("wiki.internal",)


async def test_all_that_cannot_be_had_is_named_at_once(folder: Path) -> None:
    """As all mistakes of a file are."""
    found = produce_contents("file:absent", "file:notes.md", "ftp://x", folder=folder)
    with pytest.raises(RequestError) as caught:
        await found.acquire(["e0", "e1", "e2", "e9"])
    for words in ("'e0' (file:absent)", "'e2' (ftp://x)", "Unknown entry 'e9' of the registry"):
        assert words in str(caught.value)
    assert "'e1' (" not in str(caught.value)


def test_an_ordinary_address_is_https_alone() -> None:
    """Nothing else is admitted unless somebody says so."""
    assert attrs.fields(RegistryContents).bounds.default.schemes == ("https",)
