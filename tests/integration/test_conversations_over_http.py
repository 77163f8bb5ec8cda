"""Conversations over HTTP: listed, searched, read, named, forked, written out and removed."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from support.daemons.run_daemons import Daemon, serving
from support.gateways.authorizers import FriendAuthorizer
from support.runs.acting import say
from vibe_llms.conversations import Conversation
from vibe_llms.conversations.index.reading_index import ReadingIndex
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import PART_TAG
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import FileContent

DONE = [say("Done.")]
ANN, BOB = {"Authorization": "Bearer ann"}, {"Authorization": "Bearer bob"}


def keep(daemon: Daemon, *words: str, name: str = "", tags: tuple[str, ...] = ()) -> str:
    """Keeps a conversation in which a user says this; returns its id."""
    conversation = Conversation(
        metadata=ConversationMetadata(name=name or None, tags=tags),
        canisters=[UserCanister(word) for word in words],
    )
    store = daemon.premises.store
    store.create(conversation.id, conversation.metadata)
    store.append(conversation.id, conversation.canisters)
    return conversation.id


async def test_they_come_in_pages_and_are_found_by_their_words(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        ids = [keep(daemon, f"word{number} hare") for number in range(5)]
        found, after = [], ""
        while True:
            _, page = await daemon.ask("GET", f"/conversations?limit=2{after}")
            assert len(page["data"]) <= 2
            found += [each["id"] for each in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={found[-1]}"
        assert sorted(found) == sorted(ids)
        _, told = await daemon.ask("GET", "/conversations?query=WORD3%20hare")
        (hit,) = told["data"]
        assert (hit["id"], hit["index"], hit["role"]) == (ids[3], 0, "user")
        start, end = hit["marks"][0]
        assert hit["snippet"][start:end] == "word3"
        _, told = await daemon.ask("GET", "/conversations?query=hare&limit=4")
        assert len(told["data"]) == 4
        assert told["has_more"]


def use_words(folder: Path) -> None:
    """Configures an embedder that needs no download."""
    (folder / "none.toml").write_text('embedder = "scripted:words"\n')


async def test_they_are_found_by_their_meaning(tmp_path: Path) -> None:
    use_words(tmp_path)
    async with serving(tmp_path) as daemon:
        keep(daemon, "bread from rye")
        bridge = keep(daemon, "hello", "the bridge over the river", name="Trip")
        _, found = await daemon.ask("GET", "/conversations?query=river%20bridge&by=meaning&limit=1")
        (hit,) = found["data"]
        assert (hit["id"], hit["index"], hit["name"]) == (bridge, 1, "Trip")
        assert found["has_more"]
        assert found["notices"] == []
        status, refused = await daemon.ask("GET", "/conversations?query=x&by=magic")
        assert status == 400
        assert "by" in refused["error"]["message"]


async def test_a_search_by_meaning_without_its_model_names_the_remedy(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        status, refused = await daemon.ask("GET", "/conversations?query=x&by=meaning")
        assert status == 400
        assert "vibe models pull local:e5-small" in refused["error"]["message"]


async def test_a_search_by_meaning_that_is_not_finished_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_words(tmp_path)
    monkeypatch.setattr("vibe_llms.agents.conversations.UPDATE_SECONDS", 0.0)
    async with serving(tmp_path) as daemon:
        keep(daemon, "the bridge")
        _, found = await daemon.ask("GET", "/conversations?query=bridge&by=meaning")
        assert found["notices"]


async def test_what_was_said_is_read_in_pages_and_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        one = keep(daemon, "a", "b", "c", name="Old")
        _, told = await daemon.ask("GET", f"/conversations/{one}?after=1&limit=1")
        assert (told["count"], told["has_more"], len(told["data"])) == (3, True, 1)
        assert "b" in json.dumps(told["data"])
        assert told["metadata"]["name"] == "Old"
        status, told = await daemon.ask("PATCH", f"/conversations/{one}", {"name": " New "})
        assert (status, told["metadata"]["name"]) == (200, "New")
        await daemon.ask("PATCH", f"/conversations/{one}", {"name": ""})
        assert daemon.premises.store.read_metadata(one).name is None


async def test_a_key_forks_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        one, path = keep(daemon, "a", "b"), "/conversations/{}/fork"
        told = await asyncio.gather(
            *(
                daemon.ask("POST", path.format(one), {"from_index": 1}, Idempotency_Key="k")
                for _ in range(5)
            )
        )
        assert {status for status, _ in told} == {201}
        (child,) = {answer["id"] for _, answer in told}
        assert len(daemon.premises.store.read(child).canisters) == 1
        others = [
            await daemon.ask("POST", path.format(one), {"from_index": 2}, Idempotency_Key="k"),
            await daemon.ask("POST", path.format(one), {"from_index": 1}, Idempotency_Key="l"),
            await daemon.ask("POST", path.format(one), {"from_index": 1}),
            await daemon.ask("POST", path.format(one)),
        ]
        assert len({child, *(answer["id"] for _, answer in others)}) == 5
        status, answer = await daemon.ask("POST", path.format(one), {"from_index": 3})
        assert status == 400
        assert "2 canisters" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("form", "kind", "words"),
    [
        ("markdown", "text/markdown", "Ä hare"),
        ("json", "application/json", "Ä hare"),
        ("html", "text/html", "&lt;script&gt;"),
    ],
)
async def test_they_are_written_out(tmp_path: Path, form: str, kind: str, words: str) -> None:
    async with serving(tmp_path) as daemon:
        one = keep(daemon, "Ä hare <script>alert(1)</script>")
        url = f"{daemon.url}/conversations/{one}/export?format={form}"
        async with daemon.session.get(url) as answer:
            assert answer.status == 200
            assert answer.content_type == kind
            assert one in answer.headers["content-disposition"]
            assert answer.headers["content-security-policy"].startswith(
                "sandbox; default-src 'none'"
            )
            assert words in await answer.text()


async def test_what_is_no_text_is_told_where_it_was_said_and_nowhere_else(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        kinds = ("image/png", "text/html", "x\r\nset-cookie: a=b")
        said = Conversation()
        for kind in kinds:
            said.add_user_message(FileContent(data=kind.encode(), mime_type=kind, name="a"))
        said.save(daemon.premises.store)
        other = keep(daemon, "Nothing.")
        for kind, told in zip(kinds, (*kinds[:2], "application/octet-stream"), strict=True):
            content = sha256(kind.encode()).hexdigest()
            path = f"/conversations/{said.id}/contents/{content}"
            async with daemon.session.get(daemon.url + path) as answer:
                assert (answer.status, answer.content_type) == (200, told)
                assert await answer.read() == kind.encode()
                assert answer.headers["content-disposition"] == "attachment"
                assert answer.headers["content-security-policy"].startswith("sandbox")
                assert "set-cookie" not in answer.headers
            path = f"/conversations/{other}/contents/{content}"
            assert (await daemon.ask("GET", path))[0] == 404


@pytest.mark.slow
async def test_what_is_removed_is_gone_and_what_works_stays(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        one, run_id = keep(daemon, "a"), await daemon.start(DONE)
        await daemon.watch(run_id)
        for each in (one, run_id):
            assert (await daemon.ask("DELETE", f"/conversations/{each}"))[0] == 200
            assert (await daemon.ask("GET", f"/conversations/{each}"))[0] == 404
        claimed = await daemon.start(DONE)
        await daemon.watch(claimed)

        log = daemon.premises.store.open_log(claimed)
        log.claim()
        assert (await daemon.ask("DELETE", f"/conversations/{claimed}"))[0] == 409
        log.close()


async def test_others_are_told_that_there_is_none(tmp_path: Path) -> None:
    async with serving(tmp_path, authorizer=FriendAuthorizer()) as daemon:
        run_id = await daemon.start(DONE, **ANN)
        async with daemon.session.get(f"{daemon.url}/runs/{run_id}/events?follow=false") as answer:
            assert answer.status == 404  # nobody has said who asks
        await daemon.premises.wait(run_id, "ended", subject="ann")
        part = keep(daemon, "Do it in part.", tags=(PART_TAG + run_id,))
        nobodys = keep(daemon, "Do it before.")
        circle = keep(daemon, "Do it in circles.", tags=(PART_TAG + nobodys,))
        daemon.premises.store.update_metadata(nobodys, tags=(PART_TAG + circle,))
        _, forked = await daemon.ask("POST", f"/conversations/{run_id}/fork", **ANN)
        told: dict[str, list[str]] = {}
        for where in (run_id, part, forked["id"], nobodys, "nobody", "No%20body!"):
            for method, path, body in (
                ("GET", "", None),
                ("PATCH", "", {"name": "Mine"}),
                ("POST", "/fork", None),
                ("GET", "/export", None),
                ("GET", "/contents/x", None),
                ("DELETE", "", None),
            ):
                answer = await daemon.ask(method, f"/conversations/{where}{path}", body, **BOB)
                assert answer[0] == 404, (method, path, answer)
                text = json.dumps(answer[1]).replace(where, "*").replace("No body!", "*")
                told.setdefault(f"{method} {path}", []).append(text)
        assert all(len({*each}) == 1 for each in told.values()), told
        for path in ("/conversations", "/conversations?query=do"):
            assert (await daemon.ask("GET", path, **BOB))[1] == {
                "data": [],
                "has_more": False,
                "notices": [],
            }
            mine = {each["id"] for each in (await daemon.ask("GET", path, **ANN))[1]["data"]}
            assert mine == ({run_id} if "query" in path else {run_id, forked["id"]})
        assert (await daemon.ask("GET", f"/conversations/{part}", **ANN))[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "?limit=0", None),
        ("GET", "?limit=x", None),
        ("GET", "?after=nobody", None),
        ("GET", "?query=a&after=b", None),
        ("GET", "/*?after=-1", None),
        ("GET", "/*/export?format=yaml", None),
        ("PATCH", "/*", {}),
        ("PATCH", "/*", {"name": 5}),
        ("PATCH", "/*", {"name": "two\nlines"}),
        ("PATCH", "/*", {"name": "x" * 100_000}),
        ("POST", "/*/fork", {"from_index": -1}),
        ("POST", "/*/fork", {"from_index": True}),
        ("POST", "/*/fork", {"index": 1}),
    ],
)
async def test_what_makes_no_sense_is_refused(
    tmp_path: Path, method: str, path: str, body: object
) -> None:
    async with serving(tmp_path) as daemon:
        one = keep(daemon, "a")
        status, told = await daemon.ask(method, "/conversations" + path.replace("*", one), body)
        assert status == 400, told
        assert told["error"]["message"]
        assert daemon.premises.store.read_metadata(one).name is None


async def test_what_was_answered_can_be_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        run_id = await daemon.start(DONE)
        await daemon.watch(run_id)
        _, told = await daemon.ask("GET", f"/conversations/{run_id}")
        kept = daemon.premises.store.read(run_id).canisters
        assert [each["id"] for each in told["data"]] == [each.id for each in kept]
        assert isinstance(kept[-1], AssistantCanister)
        _, described = await daemon.ask("GET", "/openapi.json")
        assert {*described["paths"]["/conversations/{id}"]} == {"get", "patch", "delete"}


class _Counting(ReadingIndex):
    """An index that says how often it was asked."""

    def __init__(self, store: ConversationStore) -> None:
        super().__init__(store)
        self.asked = 0

    def survey(self, **given: Any) -> Any:
        self.asked += 1
        return super().survey(**given)


async def test_an_index_that_is_given_is_asked_for_conversations_alone(tmp_path: Path) -> None:
    index = _Counting(DirectoryStore(tmp_path / "store"))
    async with serving(tmp_path, conversation_index=index) as daemon:
        run_id = await daemon.start(DONE)
        await daemon.watch(run_id)
        assert (await daemon.ask("GET", "/runs"))[1]["data"][0]["id"] == run_id
        assert index.asked == 0
        _, told = await daemon.ask("GET", "/conversations")
        assert index.asked == 1
        assert [each["id"] for each in told["data"]] == [run_id]


async def test_a_family_and_a_difference_are_those_of_the_command_line(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        root = keep(daemon, "one")
        store = daemon.premises.store
        store.append(root, [AssistantCanister("1"), UserCanister("two")])
        _, forked = await daemon.ask("POST", f"/conversations/{root}/fork", {"from_index": 2})
        child = forked["id"]
        store.append(child, [UserCanister("three"), AssistantCanister("3"), UserCanister("four")])
        _, told = await daemon.ask("GET", f"/conversations/{child}/family")
        assert told["root"] == root
        facts = ("id", "parent", "depth", "shared", "canisters", "own_words")
        assert [[each[fact] for fact in facts] for each in told["data"]] == [
            [root, None, 0, None, 3, ""],
            [child, root, 1, 2, 5, "three"],
        ]
        path = f"/conversations/{root}/difference"
        _, told = await daemon.ask("GET", f"{path}?other={child}&limit=1")
        assert (told["first"], told["second"]) == (root, child)
        assert (told["common"]["messages"], told["common"]["last"]["index"]) == (2, 1)
        assert (told["count"], told["has_more"]) == (2, True)
        (turn,) = told["data"]
        assert (turn["first"], turn["second"]) == (2, 2)
        assert turn["messages"][0]["words"] == [["removed", "two"], ["added", "three"]]
        _, told = await daemon.ask("GET", f"{path}?other={child}&after=1")
        assert (told["data"][0]["first"], told["has_more"]) == (None, False)
        for query in ("", "?other=", "?other=unknown", f"?other={child}&after=x"):
            status, _ = await daemon.ask("GET", path + query)
            assert status == (404 if "unknown" in query else 400)


async def test_a_family_has_no_conversations_of_others(tmp_path: Path) -> None:
    async with serving(tmp_path, authorizer=FriendAuthorizer()) as daemon:
        run = await daemon.start(DONE, **ANN)
        await daemon.premises.wait(run, "ended", subject="ann")
        _, forked = await daemon.ask("POST", f"/conversations/{run}/fork", {}, **ANN)
        store = daemon.premises.store
        foreign = store.fork(run)
        store.update_metadata(foreign, tags=("owner:bob",))
        _, told = await daemon.ask("GET", f"/conversations/{run}/family", **ANN)
        assert [each["id"] for each in told["data"]] == [run, forked["id"]]
        _, told = await daemon.ask("GET", f"/conversations/{foreign}/family", **BOB)
        assert [each["id"] for each in told["data"]] == [foreign]
        path = f"/conversations/{run}/difference?other={foreign}"
        assert [(await daemon.ask("GET", path, **each))[0] for each in (ANN, BOB)] == [404, 404]
