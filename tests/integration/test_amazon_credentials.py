"""Requests that botocore signs, with credentials from its chain; the simulator checks them."""

from __future__ import annotations

import asyncio
import datetime
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from aiohttp import web

from support.vendors.remoting import produce_context
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    ProviderError,
    ProviderFault,
    TransportError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.bedrock import produce_provider
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.amazon_signatures import EXPIRED_KEY, SECRETS, SESSION_TOKENS

REQUEST = Request(canisters=[UserCanister("Hello there")])
KEY, TEMPORARY = SECRETS
Access = Callable[..., Awaitable[ConverserModel]]


@pytest.fixture(autouse=True)
def hide_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Takes away the credentials of whoever runs the tests."""
    for name in (
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
        *("AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"),
        *("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendor."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def access(simulator: Simulator, tmp_path: Path) -> AsyncIterator[Access]:
    """Gives access to a model at the simulator."""
    clients = []

    async def access_model(name: str = "eu.anthropic.claude-x-v1:0", **settings: Any) -> Any:
        settings = {"base_url": simulator.url, "region": "eu-central-1", **settings}
        context = produce_context("bedrock", tmp_path, limits=Limits(attempts=1), **settings)
        clients.append(produce_provider(context).produce_client())
        return await clients[-1].access_model(name)

    yield access_model
    for client in clients:
        await client.close()


async def ask(model: ConverserModel, **options: Any) -> str:
    """Returns the answer of a model."""
    return (await model.converse(REQUEST, **options)).text


def set_keys(monkeypatch: pytest.MonkeyPatch, key: str, secret: str = "", token: str = "") -> None:
    """Puts credentials into the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret or SECRETS.get(key, "a-wrong-secret"))
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", ["eu.anthropic.claude-x-v1:0", "arn:aws:bedrock:x:1:prompt/a b+c"])
async def test_requests_are_signed(
    access: Access, monkeypatch: pytest.MonkeyPatch, name: str, stream: bool
) -> None:
    """The path, with all its escapes, and the body are under the signature."""
    set_keys(monkeypatch, KEY)
    model = await access(name)
    assert "Hello there" in await ask(model, stream=stream)
    assert (await model.tokenizer.count_request(REQUEST, model.descriptor)).tokens


async def test_temporary_keys_have_a_token(
    access: Access, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what the gateway passes through is signed as well."""
    set_keys(monkeypatch, TEMPORARY, token=SESSION_TOKENS[TEMPORARY])
    model: Any = await access()
    body = json.dumps({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}).encode()
    path = model.compose_path(streaming=False)
    exchange = await model.client.pass_through(
        "POST", path, body, {"content-type": "application/json"}
    )
    assert exchange.status == 200, await exchange.read()
    await exchange.close()
    assert simulator.requests[-1].headers["x-amz-security-token"] == SESSION_TOKENS[TEMPORARY]


async def test_a_body_that_is_changed_is_found_out(
    access: Access, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which shows that the simulator looks."""
    set_keys(monkeypatch, KEY)
    model: Any = await access()
    transport = model.client._access_transport()
    inner = transport._transport

    class Changing:
        async def send(self, request: Any) -> Any:
            return await inner.send(attrs.evolve(request, body=request.body + b" "))

    object.__setattr__(transport, "_transport", Changing())
    with pytest.raises(ProviderError, match="does not match"):
        await ask(model, stream=False)
    object.__setattr__(transport, "_transport", inner)


async def test_a_wrong_secret_is_one_line(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not show the secret."""
    set_keys(monkeypatch, KEY, "wrong-secret-of-mine")
    with pytest.raises(ProviderError) as caught:
        await ask(await access())
    assert caught.value.fault is ProviderFault.AUTHENTICATION
    assert "wrong-secret-of-mine" not in str(caught.value)


async def test_a_key_for_bedrock_wins(
    access: Access, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is signed then."""
    set_keys(monkeypatch, KEY)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-for-bedrock")
    assert await ask(await access())
    assert simulator.requests[-1].headers["authorization"] == "Bearer key-for-bedrock"


async def test_a_profile_is_chosen_by_the_settings(
    access: Access, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Or by the environment."""
    (tmp_path / "credentials").write_text(
        f"[mine]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRETS[KEY]}\n"
    )
    assert await ask(await access(profile="mine"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert await ask(await access())


async def test_credentials_that_have_ended_are_looked_up_again(
    access: Access, simulator: Simulator, tmp_path: Path
) -> None:
    """Once for all requests; after that, each is sent once more."""
    source, count = tmp_path / "current.json", tmp_path / "count"

    def write(key: str) -> None:
        fields = {"AccessKeyId": key, "SecretAccessKey": SECRETS.get(key, "x")}
        source.write_text(json.dumps({"Version": 1, **fields}))

    program = tmp_path / "give.py"
    program.write_text(
        f"print(open({str(source)!r}).read()); open({str(count)!r}, 'a').write('x')\n"
    )
    process = f"credential_process = {sys.executable} {program}"
    (tmp_path / "config").write_text(f"[profile mine]\n{process}\n")
    write(EXPIRED_KEY)
    model = await access(profile="mine")
    with pytest.raises(ProviderError, match="expired"):
        await ask(model)
    assert (count.read_text(), len(simulator.requests)) == ("xx", 2)
    write(KEY)
    answers = await asyncio.gather(*(ask(model) for _ in range(4)))
    assert all("Hello there" in answer for answer in answers)
    assert count.read_text() == "xxx"


async def test_the_role_of_a_container_is_renewed_in_time(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many requests at once ask its server once, and not in the thread of the loop."""
    asked = []

    async def give(request: web.Request) -> web.Response:
        asked.append(request.headers.get("authorization"))
        await asyncio.sleep(0.05)  # the loop that is asked is the one that asks
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(
            minutes=20 if len(asked) == 1 else 60
        )
        response = web.json_response(
            {
                "AccessKeyId": TEMPORARY,
                "SecretAccessKey": SECRETS[TEMPORARY],
                "Token": SESSION_TOKENS[TEMPORARY],
                "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )
        response.force_close()  # urllib3 closes idle connections only when it is collected
        return response

    application = web.Application()
    application.router.add_get("/role", give)
    runner = web.AppRunner(application, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/role"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "token-of-the-container")
    try:
        model = await access()
        assert all(await asyncio.gather(*(ask(model) for _ in range(5))))
        assert asked == ["token-of-the-container"]
        # Twenty minutes are left; more than that is wanted now, so that they are renewed.
        wanted = "botocore.credentials.RefreshableCredentials._advisory_refresh_timeout"
        monkeypatch.setattr(wanted, 30 * 60)
        assert all(await asyncio.gather(*(ask(model) for _ in range(5))))
        assert len(asked) == 2
        assert await ask(model)
        assert len(asked) == 2
    finally:
        await runner.cleanup()


MISSING: list[tuple[dict[str, str], type[ConverseError], str]] = [
    ({}, ConfigurationError, r"none were found\. Run: aws configure"),
    ({"AWS_PROFILE": "nobody"}, ConfigurationError, "nobody.*Run: aws configure"),
    (
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/role"},
        ProviderError,
        "no valid credentials",
    ),
]


@pytest.mark.parametrize(("variables", "kind", "message"), MISSING, ids=["none", "profile", "off"])
async def test_credentials_that_are_not_there_are_one_line(
    access: Access,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    kind: type[ConverseError],
    message: str,
) -> None:
    """It says what to do."""
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises((kind, TransportError), match=message) as caught:
        await ask(await access())
    assert "\n" not in str(caught.value)
