"""Notes over HTTP: each caller has its own, and no editor overwrites another one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.daemons.run_daemons import Daemon, serving
from support.gateways.authorizers import KeyAuthorizer
from vibe_llms.daemons.agents.settings import AgentsSettings
from vibe_llms.memory.books import open_book
from vibe_llms.memory.notes import NoteOrigin

ABSENT = {"If_None_Match": "*"}


def open_notes(daemon: Daemon, owner: str = "", *, is_whole: bool = True) -> Any:
    """Open the notes of an owner."""
    configuration = daemon.premises.runs.application.configuration
    return open_book(daemon.premises.store, configuration, owner=owner, is_whole=is_whole)


async def put(daemon: Daemon, path: str, text: str, **headers: str) -> tuple[int, Any]:
    return await daemon.ask("PUT", f"/notes/{path}", {"text": text}, **headers)


async def test_a_note_is_created_changed_and_deleted(tmp_path: Path) -> None:
    """Each change names the version that it replaces; the origin of a note stays."""
    async with serving(tmp_path, memory=True) as daemon:
        origin = NoteOrigin(conversation="k5", turn=3, time=datetime(2026, 11, 29, tzinfo=UTC))
        open_notes(daemon).write("tea.md", "Likes green tea.\n", origin)
        status, note = await daemon.ask("GET", "/notes/tea.md")
        assert (status, note["text"], note["scope"]) == (200, "Likes green tea.\n", "user")
        assert note["origins"] == [
            {"conversation": "k5", "turn": 3, "time": "2026-11-29T00:00:00Z"}
        ]
        first = note["version"]
        status, changed = await put(daemon, "tea.md", "Likes coffee.", If_Match=f'"{first}"')
        assert (status, changed["text"], changed["origins"]) == (
            *(200, "Likes coffee.", note["origins"]),
        )
        assert changed["version"] != first
        for headers, expected in (
            ({"If_Match": f'"{first}"'}, 412),  # of the second editor
            (ABSENT, 412),
            ({}, 428),
        ):
            status, refused = await put(daemon, "tea.md", "Likes milk.", **headers)
            assert status == expected, refused
        assert (await daemon.ask("DELETE", "/notes/tea.md"))[0] == 428
        assert (await daemon.ask("DELETE", "/notes/tea.md", If_Match=f'"{first}"'))[0] == 412
        version = f'"{changed["version"]}"'
        assert (await daemon.ask("DELETE", "/notes/tea.md", If_Match=version))[0] == 200
        assert (await daemon.ask("GET", "/notes/tea.md"))[0] == 404
        assert (await put(daemon, "tea.md", "Again.", If_Match=version))[0] == 412
        status, note = await put(daemon, "tags/cooking/rice", "Rinse it.", **ABSENT)
        assert (note["path"], note["scope"], note["scope_name"]) == (
            *("tags/cooking/rice.md", "tag", "cooking"),
        )


async def test_notes_are_listed_in_pages_and_searched(tmp_path: Path) -> None:
    async with serving(tmp_path, memory=True) as daemon:
        book = open_notes(daemon)
        for path in ("b.md", "a.md", "projects/x/plan.md", "projects/y/plan.md", "tags/t/n.md"):
            book.write(path, f"# {path}\nAbout {path} and tea.\n")
        _, page = await daemon.ask("GET", "/notes?limit=3")
        assert [each["path"] for each in page["data"]] == ["a.md", "b.md", "projects/x/plan.md"]
        assert page["has_more"]
        _, rest = await daemon.ask("GET", "/notes?limit=3&after=projects/x/plan.md")
        assert [each["path"] for each in rest["data"]] == ["projects/y/plan.md", "tags/t/n.md"]
        _, some = await daemon.ask("GET", "/notes?scope=project&name=y")
        assert [each["path"] for each in some["data"]] == ["projects/y/plan.md"]
        _, found = await daemon.ask("GET", "/notes?query=plan%20tea")
        assert {each["path"] for each in found["data"][:2]} == {
            *("projects/x/plan.md", "projects/y/plan.md"),
        }
        assert (await daemon.ask("GET", "/notes?scope=all"))[0] == 400


@pytest.mark.parametrize(
    "path",
    [
        *("..%2F..%2Fx", "%2E%2E/x.md", "a/%2e%2e/%2e%2e/x.md", ".hidden.md", "tags/../../x.md"),
        *("%2Fetc%2Fpasswd", "a%5Cb.md", "a%00b.md", "tags", "projects/p", "x" * 300),
    ],
)
async def test_no_path_leaves_the_notes(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path, memory=True) as daemon:
        before = sorted(tmp_path.rglob("*.md"))
        for method in ("GET", "PUT", "DELETE"):
            body = {"text": "x"} if method == "PUT" else None
            headers = {"if-none-match": "*"} if method == "PUT" else {"if-match": "*"}
            from yarl import URL

            url = URL(f"{daemon.url}/notes/{path}", encoded=True)
            async with daemon.session.request(method, url, json=body, headers=headers) as answer:
                assert 400 <= answer.status < 500, (method, await answer.text())
        assert sorted(tmp_path.rglob("*.md")) == before


async def test_limits_and_texts_are_checked(tmp_path: Path) -> None:
    async with serving(tmp_path, memory=True) as daemon:
        for text in ("x" * 100_001, "a\0b"):
            status, told = await put(daemon, "a.md", text, **ABSENT)
            assert status == 400, (text[:9], told)
        status, empty = await put(daemon, "a.md", "", **ABSENT)
        assert (status, empty["size"]) == (200, 0)


async def test_a_note_that_is_not_utf_8_is_listed_and_otherwise_refused(tmp_path: Path) -> None:
    """Its bytes stay; the answer does not say where the file is."""
    async with serving(tmp_path, memory=True) as daemon:
        await put(daemon, "tea.md", "Tea.", **ABSENT)
        (file,) = tmp_path.rglob("tea.md")
        file.write_bytes(b"Th\xe9 vert.")
        _, page = await daemon.ask("GET", "/notes")
        assert [each["path"] for each in page["data"]] == ["tea.md"]
        any_version = {"If_Match": "*"}
        for status, told in (
            await daemon.ask("GET", "/notes/tea.md"),
            await put(daemon, "tea.md", "Th\ufffd vert.", **any_version),
            await daemon.ask("DELETE", "/notes/tea.md", **any_version),
        ):
            assert status == 400
            assert "UTF-8" in told["error"]["message"]
            assert str(tmp_path) not in str(told)
        assert file.read_bytes() == b"Th\xe9 vert."


async def test_each_key_has_its_own_notes(tmp_path: Path) -> None:
    async with serving(tmp_path, memory=True, authorizer=KeyAuthorizer()) as daemon:
        ann, bob = ({"Authorization": f"Bearer {name}"} for name in ("ann", "bob"))
        assert (await put(daemon, "tea.md", "Of Ann.", **ABSENT, **ann))[0] == 200
        assert (await daemon.ask("GET", "/notes/tea.md", **bob))[0] == 404
        assert (await daemon.ask("GET", "/notes", **bob))[1]["data"] == []
        assert (await daemon.ask("GET", "/notes/tea.md"))[0] == 401
        (note,) = open_notes(daemon, "ann").list()
        assert note.text == "Of Ann."


async def test_notes_are_served_only_if_the_daemon_is_told(tmp_path: Path) -> None:
    assert AgentsSettings().memory is False
    async with serving(tmp_path) as daemon:
        assert (await daemon.ask("GET", "/notes"))[0] == 404


async def test_a_file_that_no_path_names_does_not_disturb_the_others(tmp_path: Path) -> None:
    """A person may put files anywhere; those without a path are neither listed nor found."""
    async with serving(tmp_path, memory=True) as daemon:
        book = open_notes(daemon)
        for path in ("a.md", "tags/t/n.md"):
            book.write(path, "About tea.")
        folder = Path(daemon.premises.store.notes.root) / "own"
        for name in ("tags/stray.md", "user/README", "user/tags/x/y.md"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("About tea.")
        for query in ("query=tea", "limit=9"):
            status, page = await daemon.ask("GET", f"/notes?{query}")
            assert (status, [each["path"] for each in page["data"]]) == (
                *(200, ["a.md", "tags/t/n.md"]),
            )
