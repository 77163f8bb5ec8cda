"""What a client has got wrong is told in the words of its protocol, and of none of our insides."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import openai
import pytest
import pytest_asyncio
from google import genai

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Simulator

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"content-type": "application/json"}
MODEL = "anthropic:claude-sonnet-5"
INSIDES = ("anister", "Error(", "object is not", "indices must", "attribute", "KeyError")


def find_openai(body: Any) -> str:
    """Returns the message of an error of OpenAI's; the others likewise."""
    assert body["error"].keys() == {"message", "type", "param", "code"}
    return str(body["error"]["message"])


def find_anthropic(body: Any) -> str:
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message"}
    return str(body["error"]["message"])


def find_gemini(body: Any) -> str:
    assert isinstance(body["error"]["code"], int)
    assert body["error"]["status"].isupper()
    return str(body["error"]["message"])


def find_ollama(body: Any) -> str:
    assert isinstance(body["error"], str)
    return str(body["error"])


Find = Callable[[Any], str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a gateway, which is none the worse for any of this."""
    folder = tmp_path_factory.mktemp("refusals")
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(folder, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        yield session


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "status", "find"),
    [
        ("GET", "/v1/nothing", 404, find_openai),
        ("POST", "/v1/chat/completions/x", 404, find_openai),
        ("GET", "/v1/chat/completions", 405, find_openai),
        ("PUT", "/v1/responses", 405, find_openai),
        ("POST", "/v1/images/variations", 404, find_openai),
        ("GET", "/v1/models/none", 404, find_openai),
        ("POST", "/v1/models", 405, find_openai),
        ("GET", "/v1/messages", 405, find_anthropic),
        ("POST", "/v1/messages/drafts", 404, find_anthropic),
        ("POST", f"/v1beta/models/{MODEL}:embedContent", 404, find_gemini),
        ("POST", "/v1/models/gemini-3-pro:predictLongRunning", 404, find_gemini),
        ("POST", "/v1beta/models/gemini-3-pro", 405, find_gemini),
        ("GET", f"/v1beta/models/{MODEL}:generateContent", 404, find_gemini),
        ("GET", "/v1beta/models/none", 404, find_gemini),
        ("POST", "/api/pull", 404, find_ollama),
        ("GET", "/api/chat", 405, find_ollama),
    ],
)
async def test_a_path_that_is_none_is_told_in_the_words_of_its_neighbour(
    session: aiohttp.ClientSession, method: str, path: str, status: int, find: Find
) -> None:
    """As a client of that protocol may ask it by mistake, and reads the error."""
    async with session.request(method, path) as told:
        body = await told.json()
        assert told.status == status, body
        assert find(body)
        assert ("allow" in told.headers) == (status == 405)


async def test_what_is_of_no_protocol_is_told_plainly(session: aiohttp.ClientSession) -> None:
    for path in ("/nothing", "/metrics/x", "/"):
        async with session.post(path) as told:
            assert (await told.json())["error"]["type"] == "invalid_request_error"


TALK = [{"role": "user", "content": "Well?"}]
PARTS = [{"parts": [{"text": "Well?"}]}]
ASKED: dict[str, tuple[str, dict[str, Any], str, Find]] = {
    "chat": ("/v1/chat/completions", {"messages": TALK}, "messages", find_openai),
    "responses": ("/v1/responses", {"input": TALK}, "input", find_openai),
    "messages": ("/v1/messages", {"messages": TALK, "max_tokens": 9}, "messages", find_anthropic),
    "gemini": ("/v1beta/models/{model}:generateContent", {"contents": PARTS}, "contents",
               find_gemini),
    "ollama": ("/api/chat", {"messages": TALK}, "messages", find_ollama),
}  # fmt: skip
NONSENSE: list[Any] = [[], "text", 5, {"a": 1}, [5], [None], [[]], ["x"], [{"role": 5}]]


@pytest.mark.parametrize("face", ASKED)
async def test_nonsense_in_place_of_messages_is_refused_in_words_of_the_client(
    session: aiohttp.ClientSession, face: str
) -> None:
    """Neither with our names of things nor with those of the language that we are written in."""
    path, body, field, find = ASKED[face]
    for wrong in (*NONSENSE, [{**body[field][0], "content": 5, "parts": 5}]):
        asked = {**body, "model": MODEL, field: wrong}
        async with session.post(path.format(model=MODEL), json=asked) as told:
            said = await told.json()
            if told.status == 200:  # a text is as good as a message in some
                continue
            assert told.status == 400, (wrong, said)
            assert find(said)
            shown = json.dumps(said)
            assert not [word for word in INSIDES if word in shown], (wrong, said)


PICTURED: dict[str, Callable[[str], Any]] = {
    "chat": lambda data: [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
            ],
        }
    ],
    "responses": lambda data: [
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": f"data:image/png;base64,{data}"}],
        }
    ],
    "messages": lambda data: [
        {
            "role": "user",
            "content": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": data},
                }
            ],
        }
    ],
    "gemini": lambda data: [{"parts": [{"inlineData": {"mimeType": "image/png", "data": data}}]}],
    "ollama": lambda data: [{"role": "user", "content": "What?", "images": [data]}],
}


@pytest.mark.parametrize("face", PICTURED)
async def test_a_picture_that_nobody_can_read_is_refused(
    session: aiohttp.ClientSession, face: str
) -> None:
    """And not left out of what the model is asked: every vendor refuses it, too."""
    path, body, field, find = ASKED[face]
    model = "openai_conversations:m" if face == "messages" else MODEL
    for data, status in (("iVBORw0KGgo=", 200), ("iVBO\nRw0KGgo", 200), ("<picture>", 400)):
        asked = {**body, "model": model, field: PICTURED[face](data)}
        asked["stream"] = False
        async with session.post(path.format(model=model), json=asked) as told:
            said = await told.json()
            assert told.status == status, said
            if status == 400:
                assert "'<picture>'" in find(said)
                assert not [word for word in INSIDES if word in json.dumps(said)]


@pytest.mark.parametrize("face", ASKED)
@pytest.mark.parametrize(
    ("pack", "status", "words"),
    [
        (gzip.compress, 415, "The body is compressed"),
        (lambda data: data.decode().encode("utf-16"), 400, "(byte 0)"),
        (lambda data: data[:-1] + b',"x":' + b"[" * 99_999 + b"]" * 99_999 + b"}", 400, ""),
        (lambda data: data[:-2], 400, ""),
        (lambda data: b"", 400, ""),
    ],
    ids=["packed", "of another coding", "deep", "cut", "empty"],
)
async def test_a_body_that_cannot_be_read_is_told_to_be_so(
    session: aiohttp.ClientSession,
    face: str,
    pack: Callable[[bytes], bytes],
    status: int,
    words: str,
) -> None:
    path, body, _, find = ASKED[face]
    data = pack(json.dumps({**body, "model": MODEL}).encode())
    async with session.post(path.format(model=MODEL), data=data, headers=JSON) as told:
        said = await told.json()
        assert told.status == status, said
        assert words in find(said)
        assert "codec" not in find(said)


@pytest.mark.parametrize("face", ASKED)
@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/octet-stream"},
        {"content-encoding": "gzip"},
        {"content-encoding": "br"},
    ],
    ids=lambda headers: " ".join(*headers.items()),
)
async def test_a_body_that_is_not_sent_as_json_gets_415_in_the_words_of_the_face(
    session: aiohttp.ClientSession, face: str, headers: dict[str, str]
) -> None:
    """Browsers send some of these for a page of any site, without asking."""
    path, body, _, find = ASKED[face]
    data = json.dumps({**body, "model": MODEL}).encode()
    data = gzip.compress(data) if "content-encoding" in headers else data
    headers = JSON | headers
    async with session.post(path.format(model=MODEL), data=data, headers=headers) as told:
        said = await told.json()
        assert told.status == 415, said
    name = "compressed" if "content-encoding" in headers else "application/json"
    assert name in find(said)


@pytest.mark.parametrize("face", ASKED)
@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "text/plain;application/json", "", "application/x-www-form-urlencoded"],
)
async def test_only_ollamas_clients_may_leave_out_what_their_body_is(
    session: aiohttp.ClientSession, face: str, content_type: str
) -> None:
    """Curl, ``fetch`` and HTTP libraries send these for JSON, and Ollama answers them."""
    path, body, _, _ = ASKED[face]
    data = json.dumps({**body, "model": MODEL}).encode()
    headers = {"content-type": content_type}
    async with session.post(path.format(model=MODEL), data=data, headers=headers) as told:
        assert told.status == (200 if face == "ollama" else 415), await told.text()


async def test_so_it_is_in_our_own_protocol(session: aiohttp.ClientSession) -> None:
    """In the same words, which are about the body, and nothing of how we read it."""
    body = json.dumps({"version": 1, "request": {"model": MODEL}}).encode()
    for data, status, words in (
        (gzip.compress(body), 415, "The body is compressed"),
        (body.decode().encode("utf-16"), 400, "it is not UTF-8 (byte 0)"),
        (b'{"request":' + b"[" * 99_999 + b"]" * 99_999 + b"}", 400, "Invalid request"),
    ):
        async with session.post("/v1/converse", data=data, headers=JSON) as told:
            said = await told.text()
            assert told.status == status
            assert words in said
            assert "codec" not in said


async def test_a_number_that_is_too_large_is_told_to_be_so(session: aiohttp.ClientSession) -> None:
    """And nothing of how we hold numbers."""
    asked = {"model": MODEL, "messages": TALK, "max_tokens": 10**23}
    async with session.post("/v1/chat/completions", json=asked) as told:
        assert told.status == 400
        assert "integer exceeds 64 bits" in find_openai(await told.json())


async def test_the_log_says_what_a_client_is_told_that_it_says(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Also without a line for each request: of a key that is missing nobody else would hear."""
    async with session.post(
        "/v1/chat/completions", json={"model": "groq:x", "messages": TALK}
    ) as told:
        assert told.status == 500
        assert "Its log has the cause" in find_openai(await told.json())
    assert "key for groq is missing" in caplog.text
    caplog.clear()
    async with session.post("/v1/chat/completions", json={"model": MODEL, "messages": []}) as told:
        assert told.status == 400
    assert not caplog.text


@pytest.mark.parametrize("face", ASKED)
@pytest.mark.parametrize("model", ["none", "none:at-all"])
async def test_a_model_that_is_not_there_is_a_model_that_is_not_there(
    session: aiohttp.ClientSession, face: str, model: str
) -> None:
    """To a client, which knows of no provider; OpenAI's look for the code."""
    path, body, _, find = ASKED[face]
    async with session.post(path.format(model=model), json={**body, "model": model}) as told:
        said = await told.json()
        assert told.status == 404
        assert f"model {model!r}" in find(said)
        assert "provider" not in find(said)
        if find is find_openai:
            assert said["error"]["code"] == "model_not_found"


async def test_an_earlier_response_that_is_gone_has_the_code_that_clients_look_for(
    session: aiohttp.ClientSession,
) -> None:
    """They then send all that was said before once more."""
    url = str(session._base_url).removesuffix("/")
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError, match="resp_none") as caught:
            await client.responses.create(
                model=MODEL, input="On.", previous_response_id="resp_none"
            )
    assert caught.value.code == "previous_response_not_found"
    assert caught.value.param == "previous_response_id"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
async def test_a_client_of_gemini_is_told_of_its_models(session: aiohttp.ClientSession) -> None:
    """Its official library asks the path that OpenAI's asks as well."""
    client = genai.Client(
        api_key="any", http_options=genai.types.HttpOptions(base_url=str(session._base_url))
    )
    listed = [model async for model in await client.aio.models.list()]
    assert len(listed) > 2
    for model in listed[:2]:
        assert model.name is not None
        assert (await client.aio.models.get(model=model.name)).name == model.name
        async with session.get(f"/v1beta/{model.name}") as told:
            assert (await told.json())["name"] == model.name
    async with session.get("/v1/models") as told:
        assert "data" in await told.json()


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("anthropic-version", lambda said: said["error"]["type"] == "not_found_error"),
        ("x-goog-api-key", lambda said: said["error"]["status"] == "NOT_FOUND"),
        ("x-stranger", lambda said: said["error"]["code"] == "model_not_found"),
    ],
)
async def test_who_asks_for_a_model_that_is_none_is_told_in_their_own_protocol(
    session: aiohttp.ClientSession, header: str, says: Callable[[Any], bool]
) -> None:
    """Three protocols have the path; whose client asks is seen in its headers alone."""
    async with session.get("/v1/models/none", headers={header: "any"}) as told:
        assert told.status == 404
        assert says(await told.json())
