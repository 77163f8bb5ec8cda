"""Other paths of an upstream, which a table lets a gateway carry as they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from support.gateways.accounts import Account
from support.gateways.authorizers import FriendAuthorizer
from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateways import wait_until
from vibe_llms.testing.simulator import Simulator

JSON = {"content-type": "application/json"}
TABLES = """
[models.vectors]
targets = ["first:embedding-1"]
passthrough = ["/v1/embeddings"]
[models.kept]
targets = ["first:gpt-5.5"]
passthrough = ["/v1/files", "/v1/files/{id}", "/v1/audio/transcriptions", "/v1/completions"]
[models.other]
targets = ["second:gpt-5.5"]
[models.near]
targets = ["ollama:embedding-2"]
passthrough = ["/api/embed"]
"""


class Vendor:
    """An upstream that has more paths than one that answers."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, bytes, str]] = []
        self.told: dict[str, Any] = {}

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        key = request.headers.get("authorization", "")
        self.heard.append((request.method, request.path_qs, body, key))
        if request.path == "/v1/embeddings":
            vector = {"object": "embedding", "index": 0, "embedding": [0.5]}
            used = {"prompt_tokens": 7, "total_tokens": 7}
            return web.json_response(
                {"object": "list", "data": [vector], "model": "embedding-1", "usage": used}
            )
        if request.path == "/api/embed":
            return web.json_response({"model": "embedding-2", "embeddings": [[0.5]]})
        if request.path == "/v1/completions":
            return await self.stream(request, json.loads(body))
        return web.json_response({"id": "file-1", "object": "file", "text": "heard", **self.told})

    async def stream(self, request: web.Request, asked: Any) -> web.Response:
        """Completes a text; tells what was used only where it is asked to."""
        chunk = {"id": "c", "object": "text_completion", "choices": [{"index": 0, "text": "deep"}]}
        account = {**chunk, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
        chunks = [chunk]
        if (asked.get("stream_options") or {}).get("include_usage"):
            chunks.append(account)
        told = [f"data: {json.dumps(each)}\n\n" for each in chunks]
        return web.Response(
            text="".join(told) + "data: [DONE]\n\n", content_type="text/event-stream"
        )


@pytest.fixture
def vendor() -> Vendor:
    """The upstream."""
    return Vendor()


@pytest.fixture
async def routed(tmp_path: Path, vendor: Vendor) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet."""
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", vendor.answer)
    server = TestServer(application)
    await server.start_server()
    first = Simulator()
    async with Simulator() as second:
        routed = RoutedGateway(tmp_path, first, second, url=str(server.make_url("")).rstrip("/"))
        yield routed
    await server.close()


def produce_client(routed: RoutedGateway) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{routed.address}/v1", api_key="x", max_retries=0)


async def test_embeddings_are_carried_with_what_they_used(
    routed: RoutedGateway, vendor: Vendor
) -> None:
    async with routed.run(TABLES), produce_client(routed) as client:
        answer = await client.embeddings.create(
            model="vectors", input="A sea.", encoding_format="float"
        )
        with pytest.raises(openai.NotFoundError):
            await client.embeddings.create(model="other", input="A sea.")
    assert answer.data[0].embedding == [0.5]
    [(method, path, body, key)] = vendor.heard
    assert (method, path, key) == ("POST", "/v1/embeddings", "Bearer sk-first")
    assert b'"embedding-1"' in body
    [record, _] = routed.records
    assert record.usage is not None
    assert record.usage.total_input_tokens == 7
    assert (record.model, record.address, record.way) == (
        "vectors",
        "first:embedding-1",
        "passthrough",
    )


async def test_embeddings_are_carried_where_azures_clients_look(
    routed: RoutedGateway, vendor: Vendor
) -> None:
    """The deployment is the model, whatever the body says, or if it says nothing."""
    place = "/openai/deployments/vectors/embeddings?api-version=2024-10-21"
    async with routed.run(TABLES), aiohttp.ClientSession(routed.address) as session:
        async with openai.AsyncAzureOpenAI(
            azure_endpoint=routed.address, api_key="x", api_version="2024-10-21", max_retries=0
        ) as client:
            answer = await client.embeddings.create(
                model="vectors", input="A sea.", encoding_format="float"
            )
        for body in (b'{"input": "A sea."}', b'{"input": "A sea.", "model": "other"}', b""):
            async with session.post(place, data=body, headers=JSON) as told:
                assert told.status == 200, await told.text()
        async with session.post(place.replace("vectors", "other"), json={}) as told:
            assert told.status == 404
    assert answer.data[0].embedding == [0.5]
    assert [(method, path) for method, path, *_ in vendor.heard] == [("POST", "/v1/embeddings")] * 4
    named = [json.loads(body)["model"] for *_, body, _ in vendor.heard if body]
    assert named == ["embedding-1"] * 3


async def test_embeddings_of_ollamas_are_carried(routed: RoutedGateway, vendor: Vendor) -> None:
    """By the path of its own, without a key, as the server has none."""
    async with routed.run(TABLES), aiohttp.ClientSession(routed.address) as session:
        asked = {"model": "near", "input": "A sea."}
        async with session.post("/api/embed", json=asked) as told:
            assert told.status == 200, await told.text()
            assert (await told.json())["embeddings"] == [[0.5]]
        async with session.post("/api/embed", json={**asked, "model": "other"}) as told:
            assert told.status == 404
    [(method, _, body, key)] = [each for each in vendor.heard if each[1] == "/api/embed"]
    assert (method, key) == ("POST", "")
    assert json.loads(body) == {"model": "embedding-2", "input": "A sea."}
    record = routed.records[0]
    assert (record.model, record.address, record.way) == (
        "near",
        "ollama:embedding-2",
        "passthrough",
    )


async def test_files_go_where_they_are_kept(routed: RoutedGateway, vendor: Vendor) -> None:
    async with routed.run(TABLES), produce_client(routed) as client:
        made = await client.files.create(file=("a.txt", b"A sea."), purpose="user_data")
        await client.files.retrieve(made.id)
        await client.files.delete(made.id)
        await client.audio.transcriptions.create(model="kept", file=("a.wav", b"RIFF"))
    assert [(method, path) for method, path, _, _ in vendor.heard] == [
        ("POST", "/v1/files"),
        ("GET", "/v1/files/file-1"),
        ("DELETE", "/v1/files/file-1"),
        ("POST", "/v1/audio/transcriptions"),
    ]
    assert b"A sea." in vendor.heard[0][2]
    assert b"\r\n\r\ngpt-5.5\r\n" in vendor.heard[3][2]


@pytest.mark.parametrize("path", ["/v1/images/variations", "/v1/files/a/b", "/v1/files/%2e%2e"])
async def test_what_no_table_allows_is_not_there(
    routed: RoutedGateway, vendor: Vendor, path: str
) -> None:
    import yarl

    async with routed.run(TABLES):
        url = yarl.URL(routed.address + path, encoded=True)
        async with routed.session.post(url, json={"model": "kept"}) as answer:
            assert answer.status in (400, 404, 405)
    assert vendor.heard == []


async def test_a_new_file_may_allow_more(routed: RoutedGateway, vendor: Vendor) -> None:
    async with routed.run(TABLES):
        routed.file.write_text(TABLES.replace('"/v1/files",', '"/v1/files", "/v1/rerank",'))
        routed.service.reload()
        async with routed.session.post(f"{routed.address}/v1/rerank", json={"model": "kept"}) as it:
            assert it.status == 200
        async with routed.session.get(f"{routed.address}/v1/chat/completions") as it:
            assert it.status == 405
    assert [path for _, path, _, _ in vendor.heard] == ["/v1/rerank"]


async def test_what_is_carried_is_accounted_for(routed: RoutedGateway, vendor: Vendor) -> None:
    authorizer = FriendAuthorizer()
    async with routed.run(TABLES, authorizer=authorizer):
        client = produce_client(routed).with_options(api_key="friend")
        async with client:
            await client.embeddings.create(model="vectors", input="A sea.", encoding_format="float")
            await client.files.create(file=("a.txt", b"A sea."), purpose="user_data")
        async with produce_client(routed) as stranger:
            with pytest.raises(openai.PermissionDeniedError):
                await stranger.files.retrieve("file-1")
    assert authorizer.calls == ["reserve", "settle", "reserve", "settle unknown"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_completions_of_a_text_are_accounted_for(
    routed: RoutedGateway, vendor: Vendor, streamed: bool
) -> None:
    """Streamed ones, too, whose client hears nothing of that."""
    account = Account()
    async with routed.run(TABLES, authorizer=account), produce_client(routed) as client:
        vendor.told = {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}
        if streamed:
            stream = await client.completions.create(model="kept", prompt="A sea is", stream=True)
            chunks = [chunk async for chunk in stream]
            assert [chunk.choices[0].text for chunk in chunks] == ["deep"]
        else:
            path = f"{routed.address}/v1/audio/transcriptions"
            async with routed.session.post(path, json={"model": "kept"}) as told:
                assert told.status == 200
        await wait_until(lambda: account.used)
    [(usage, _)] = account.used
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (3, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "tokens"),
    [
        ({"usage": {"prompt_tokens": 7, "total_tokens": 7}}, (7, 0)),  # embeddings
        ({"usage": {"total_tokens": 7}}, (7, 0)),  # rerankers
        ({"usage": {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}}, (7, 2)),  # pictures
        ({"usage": {"type": "tokens", "input_tokens": 7, "output_tokens": 2}}, (7, 2)),  # speech
        ({"usage": {"type": "duration", "seconds": 3}}, None),
        ({"usage": None}, None),
        ({"usage": [7]}, None),
        ({}, None),
    ],
)
async def test_what_other_paths_have_used_is_read_where_it_is_told(
    routed: RoutedGateway, vendor: Vendor, told: dict[str, Any], tokens: tuple[int, int] | None
) -> None:
    vendor.told = told
    path = "/v1/audio/transcriptions"
    async with (
        routed.run(TABLES),
        routed.session.post(f"{routed.address}{path}", json={"model": "kept"}) as answer,
    ):
        assert answer.status == 200
    [record] = routed.records
    usage = record.usage
    found = usage and (usage.total_input_tokens or 0, usage.total_output_tokens or 0)
    assert found == tokens
