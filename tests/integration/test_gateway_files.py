"""Files that clients upload to the gateway reach any vendor, by the official libraries."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

from support.gateways.authorizers import FriendAuthorizer
from support.gateways.gateway_files import RoutedGateway
from support.gateways.libraries import reach_anthropic, reach_openai
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png

PICTURE = produce_png(40, 30)
SEEN = "image/png of 40 x 30 pixels"
TABLES = """
[models.chat]
targets = ["first:gpt-5.5"]
[models.claude]
targets = ["claude:claude-sonnet-4-5"]
[models.gemini]
targets = ["bard:gemini-3-pro"]
[models.llama]
targets = ["ollama:llama"]
[models.responses]
targets = ["answers:gpt-5.5"]
"""
PROVIDERS = """
[providers.bard]
module = "vibe_llms.providers.google"
base_url = "{url}"
api_key = "sk-gemini"
upload_bytes = 20
[providers.answers]
module = "vibe_llms.providers.openai_responses"
base_url = "{url}/v1"
api_key = "sk-answers"
upload_bytes = 20
"""
MODELS = ("chat", "claude", "gemini", "llama", "responses")


class OpenAuthorizer(FriendAuthorizer):
    """Authorizer that admits all clients, and names each after its key."""

    class Grant(FriendAuthorizer.Grant):
        def admits(self, model: str) -> bool:
            return True


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet."""
    async with Simulator() as first, Simulator() as second:
        providers = PROVIDERS.replace("{url}", first.url)
        yield RoutedGateway(tmp_path, first, second, providers=providers)


def list_uploads(routed: RoutedGateway) -> list[str]:
    requests = [*routed.first.requests, *routed.second.requests]
    return [each.path for each in requests if each.path.endswith("/files")]


@pytest.mark.parametrize("model", MODELS)
async def test_responses_refer_to_a_picture(routed: RoutedGateway, model: str) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        file = await client.files.create(file=("a.png", PICTURE, "image/png"), purpose="user_data")
        content: Any = [
            {"type": "input_text", "text": "What is it?"},
            {"type": "input_image", "file_id": file.id, "detail": "auto"},
        ]
        message: Any = {"role": "user", "content": content}
        answer = await client.responses.create(model=model, input=[message])
        assert SEEN in answer.output_text
        async with client.responses.stream(model=model, input=[message]) as stream:
            final = await stream.get_final_response()
        assert SEEN in final.output_text
    assert len(list_uploads(routed)) == (1 if model in ("gemini", "responses") else 0)


@pytest.mark.parametrize("model", MODELS)
async def test_messages_refer_to_a_document_of_any_client(
    routed: RoutedGateway, model: str
) -> None:
    async with (
        routed.run(TABLES),
        reach_openai(routed) as uploading,
        reach_anthropic(routed) as client,
    ):
        name = ("a.png", PICTURE, "image/png")
        file = await uploading.files.create(file=name, purpose="user_data")
        source: Any = {"type": "file", "file_id": file.id}
        message: Any = {"role": "user", "content": [{"type": "image", "source": source}]}
        answer = await client.messages.create(model=model, max_tokens=99, messages=[message])
        assert SEEN in answer.content[-1].text  # type: ignore[union-attr]
        count = await client.messages.count_tokens(model=model, messages=[message])
        assert count.input_tokens > 0


async def test_anthropics_client_keeps_files(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_anthropic(routed) as client:
        file = await client.files.upload(
            file=("a.png", PICTURE, "image/png"), expires_in_seconds=3600
        )
        assert (file.type, file.mime_type, file.size_bytes) == ("file", "image/png", len(PICTURE))
        assert file.expires_at is not None
        other = await client.beta.files.upload(file=("b.txt", b"words", "text/plain"))
        listed = [each.id async for each in client.files.list(limit=1)]  # on two pages
        assert sorted(listed) == sorted([other.id, file.id])
        assert await (await client.files.download(file.id)).read() == PICTURE
        assert (await client.files.retrieve_metadata(file.id)).filename == "a.png"
        await client.files.delete(file.id)
        with pytest.raises(anthropic.NotFoundError, match=file.id):
            await client.files.retrieve_metadata(file.id)
        source: Any = {"type": "file", "file_id": file.id}
        message: Any = {"role": "user", "content": [{"type": "image", "source": source}]}
        with pytest.raises(anthropic.NotFoundError, match=file.id):
            await client.messages.create(model="chat", max_tokens=99, messages=[message])
        with pytest.raises(anthropic.BadRequestError, match="3600"):
            await client.files.upload(file=("a.png", PICTURE, "image/png"), expires_in_seconds=5)


@pytest.mark.parametrize("model", MODELS)
async def test_gemini_refers_to_a_file_in_pieces(routed: RoutedGateway, model: str) -> None:
    def use(version: str) -> None:
        options = types.HttpOptions(base_url=routed.address, api_version=version)
        with genai.Client(api_key="x", http_options=options) as client:
            file = client.files.upload(
                file=io.BytesIO(PICTURE), config={"mime_type": "image/png", "display_name": "a.png"}
            )
            assert (file.display_name, file.size_bytes) == ("a.png", len(PICTURE))
            assert file.name
            answer = client.models.generate_content(model=model, contents=[file])
            assert SEEN in str(answer.text)
            assert client.files.get(name=file.name).uri == file.uri
            assert file.name in [each.name for each in client.files.list()]
            client.files.delete(name=file.name)
            with pytest.raises(errors.ClientError, match="file-"):
                client.files.get(name=file.name)

    async with routed.run(TABLES):
        await asyncio.to_thread(use, "v1")
        await asyncio.to_thread(use, "v1beta")


async def test_a_large_upload_of_gemini_comes_in_several_pieces(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), aiohttp.ClientSession(routed.address) as session:
        start = {
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": "8",
            "x-goog-upload-header-content-type": "text/plain",
        }
        async with session.post("/upload/v1beta/files", json={}, headers=start) as begun:
            url = begun.headers["x-goog-upload-url"]
        piece = {"x-goog-upload-command": "upload", "x-goog-upload-offset": "0"}
        async with session.post(url, data=b"1234", headers=piece) as answer:
            assert answer.headers["x-goog-upload-status"] == "active"
        async with session.post(url, data=b"again", headers=piece) as answer:
            assert answer.status == 400
            assert "offset must be 4" in await answer.text()
        last = {"x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": "4"}
        async with session.post(url, data=b"5678", headers=last) as answer:
            assert answer.headers["x-goog-upload-status"] == "final"
            file = (await answer.json())["file"]
        assert (file["mimeType"], file["sizeBytes"]) == ("text/plain", "8")
        async with session.post(url, data=b"9", headers=last) as answer:
            assert answer.status == 404
        body = (
            b"--b\r\nContent-Type: application/json\r\n\r\n{}\r\n"
            b"--b\r\nContent-Type: text/plain\r\n\r\nwhole\r\n--b--\r\n"
        )
        kind = {"content-type": "multipart/related; boundary=b"}
        path = "/upload/v1beta/files?uploadType=multipart"
        async with session.post(path, data=body, headers=kind) as answer:
            whole = (await answer.json())["file"]
        identity = whole["name"].removeprefix("files/")
        async with session.get(f"/v1/files/{identity}/content") as answer:
            assert await answer.read() == b"whole"


async def test_a_chat_refers_to_a_document(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        data = b"%PDF-1.4 " + b"x" * 100
        file = await client.files.create(
            file=("a.pdf", data, "application/pdf"), purpose="user_data"
        )
        part: Any = {"type": "file", "file": {"file_id": file.id}}
        message: Any = {"role": "user", "content": [part]}
        for model in ("chat", "claude", "gemini"):
            answer = await client.chat.completions.with_raw_response.create(
                model=model, messages=[message]
            )
            text = answer.parse().choices[0].message.content
            assert "application/pdf of 109 bytes" in str(text)
            losses = answer.headers.get("x-vibe-losses", "")
            assert ("no files" in losses) == (model != "gemini")


async def test_another_client_cannot_refer_to_a_file(routed: RoutedGateway) -> None:
    async with (
        routed.run(TABLES, authorizer=OpenAuthorizer()),
        reach_openai(routed, "sk-ann") as client,
        reach_openai(routed, "sk-bob") as other,
    ):
        name = ("a.png", PICTURE, "image/png")
        file = await client.files.create(file=name, purpose="user_data")
        content: Any = [{"type": "input_image", "file_id": file.id, "detail": "auto"}]
        message: Any = {"role": "user", "content": content}
        assert (await client.responses.create(model="chat", input=[message])).output_text
        with pytest.raises(openai.NotFoundError, match=file.id):
            await other.responses.create(model="chat", input=[message])


async def test_equal_files_are_stored_once_until_the_last_is_deleted(
    routed: RoutedGateway, tmp_path: Path
) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        name = ("a.png", PICTURE, "image/png")
        files = await asyncio.gather(
            *(client.files.create(file=name, purpose="user_data") for _ in range(4))
        )
        stored = lambda: [  # noqa: E731
            path for path in tmp_path.rglob("content/*/*/data") if path.read_bytes() == PICTURE
        ]
        assert len(stored()) == 1
        for file in files[:-1]:
            await client.files.delete(file.id)
        assert (await client.files.content(files[-1].id)).read() == PICTURE
        await client.files.delete(files[-1].id)
        assert stored() == []


async def test_an_upstreams_own_file_is_passed_through(routed: RoutedGateway) -> None:
    async with routed.run(TABLES), reach_openai(routed) as client:
        part: Any = {"type": "file", "file": {"file_id": "file-AbCdEfGhIjKlMnOpQrStUv"}}
        message: Any = {"role": "user", "content": [part]}
        answer = await client.chat.completions.create(model="chat", messages=[message])
        assert answer.choices
        assert routed.first.requests[-1].body["messages"][0]["content"] == [part]
