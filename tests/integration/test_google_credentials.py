"""Application Default Credentials, obtained by google-auth from servers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.vendors.google_cloud import (
    PROJECT,
    GoogleCloud,
    hide_credentials,
    serve_google_cloud,
    use_machine,
)
from support.vendors.remoting import produce_context
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    DependencyError,
    ProviderError,
    ProviderFault,
    TransportError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.requests import Request
from vibe_llms.providers import anthropic, google
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.requirements import RequirementKind
from vibe_llms.testing.simulator import Simulator

REQUEST = Request(canisters=[UserCanister("Hello")])
Access = Callable[..., Awaitable[ConverserModel]]


@pytest.fixture
async def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[GoogleCloud]:
    """The servers, and no credentials."""
    hide_credentials(monkeypatch, tmp_path)
    async with serve_google_cloud() as running:
        yield running


@pytest.fixture
async def access(cloud: GoogleCloud, tmp_path: Path) -> AsyncIterator[Access]:
    """Gives access to a model of Vertex AI at the servers."""
    clients = []

    async def access_model(module: Any = google, **settings: Any) -> ConverserModel:
        context = produce_context(
            "vertex",
            tmp_path,
            limits=Limits(attempts=1),
            **{"cloud": "vertex", "base_url": cloud.url, **settings},
        )
        clients.append(module.produce_provider(context).produce_client())
        model: ConverserModel = await clients[-1].access_model("claude-x")
        return model

    yield access_model
    for client in clients:
        await client.close()


async def ask(model: ConverserModel) -> str:
    """Returns the answer of a model."""
    return (await model.converse(REQUEST, stream=False)).text


async def test_a_machine_of_the_cloud_needs_no_settings(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata server has the token and the project; many requests at once ask it once."""
    use_machine(monkeypatch, cloud)
    model = await access()
    assert await asyncio.gather(*(ask(model) for _ in range(8))) == ["Hi"] * 8
    assert cloud.tokens == 1
    path, headers, _ = cloud.asked[0]
    assert path == (
        f"/v1beta1/projects/{PROJECT}/locations/global/publishers/google/models/claude-x"
        ":generateContent"
    )
    assert headers["Authorization"] == "Bearer ya29.token-number-1"


async def test_a_token_is_renewed_before_it_ends(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is valid, a server that does not answer does no harm."""
    path = cloud.write_service_account(Path(cloud.url.rpartition(":")[2]))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    cloud.lifetime = 60  # less than the minutes for which a token must be valid
    model = await access()
    assert [await ask(model), await ask(model)] == ["Hi", "Hi"]
    assert cloud.tokens == 2
    cloud.token_error = (400, {"error": "invalid_grant"})
    assert await ask(model) == "Hi"
    assert cloud.asked[-1][1]["Authorization"] == "Bearer ya29.token-number-2"


async def test_a_cached_prefix_belongs_to_the_project_of_the_credentials(
    cloud: GoogleCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its description names the project, before the first request does."""
    use_machine(monkeypatch, cloud)
    rules = SupervisorCanister(["Be brief. " * 2000, CacheHint()])
    async with Simulator() as simulator:
        context = produce_context("vertex", tmp_path, cloud="vertex", base_url=simulator.url)
        client = google.produce_provider(context).produce_client()
        try:
            model = await client.access_model("gemini-2.5-flash")
            request = Request(canisters=[rules, UserCanister("Hello")], strict=True)
            await model.converse(request, stream=False)
        finally:
            await client.close()
        sent = [each.path.partition("/locations/")[0] for each in simulator.requests]
        described = simulator.requests[1].body["model"]
    assert sent == [f"/v1beta1/projects/{PROJECT}"] * 3
    assert described.startswith(f"projects/{PROJECT}/locations/global/")


@pytest.fixture(autouse=True)
def work_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Relative paths belong to the test."""
    monkeypatch.chdir(tmp_path)


async def test_a_refused_token_is_renewed_once(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a 401 all requests together renew it once, and each is sent once more, not twice."""
    monkeypatch.setenv(
        "GOOGLE_APPLICATION_CREDENTIALS", str(cloud.write_service_account(Path("a.json")))
    )
    model = await access()
    assert await ask(model) == "Hi"
    assert cloud.grants[0]["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    cloud.revoked.add("ya29.token-number-1")
    assert await asyncio.gather(*(ask(model) for _ in range(4))) == ["Hi"] * 4
    assert cloud.tokens == 2
    asked = len(cloud.asked)
    cloud.revoked |= {f"ya29.token-number-{number}" for number in range(9)}
    with pytest.raises(ProviderError) as caught:
        await ask(model)
    assert caught.value.fault is ProviderFault.AUTHENTICATION
    assert "ya29" not in str(caught.value)  # the vendor repeats it
    assert len(cloud.asked) == asked + 2


async def test_the_login_of_a_user_pays_with_its_project(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a project of its own, the user must name one."""
    endpoint = "google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT"
    monkeypatch.setattr(endpoint, f"{cloud.url}/token")
    cloud.write_user(tmp_path / "gcloud" / "application_default_credentials.json")
    model = await access(project="mine")
    assert await ask(model) == "Hi"
    path, headers, _ = cloud.asked[0]
    assert headers["x-goog-user-project"] == "payer"
    assert "/projects/mine/" in path
    with pytest.raises(ConfigurationError, match=r"do not name a project\. Set GOOGLE_CLOUD"):
        await ask(await access())


async def test_a_token_of_the_user_wins(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent as it is, also if it is refused."""
    use_machine(monkeypatch, cloud)
    cloud.revoked.add("my-own-token")
    with pytest.raises(ProviderError, match="Check the key"):
        await ask(await access(project="mine", api_key="my-own-token"))
    assert (cloud.tokens, len(cloud.asked)) == (0, 1)


async def test_claude_on_the_cloud_needs_no_package_of_its_vendor(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model stands in the path, and the version in the body."""
    use_machine(monkeypatch, cloud)
    model = await access(anthropic, region="europe-west1")
    assert await ask(model) == "Hi"
    path, headers, body = cloud.asked[0]
    assert path == (
        f"/v1/projects/{PROJECT}/locations/europe-west1/publishers/anthropic/models/claude-x"
        ":rawPredict"
    )
    assert headers["Authorization"] == "Bearer ya29.token-number-1"
    assert "anthropic-version" not in headers
    assert body["anthropic_version"]
    assert "model" not in body
    with pytest.raises(ConfigurationError, match="CLOUD_ML_REGION"):
        await ask(await access(anthropic))


async def test_bytes_of_the_gateway_are_addressed_likewise(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a client of Anthropic has sent, with its version and its beta features."""
    use_machine(monkeypatch, cloud)
    model: Any = await access(anthropic, region="eu", project="mine")
    body = b'{"model":"claude-x","max_tokens":1,"stream":true,"messages":[]}'
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "one,two"}
    exchange = await model.client.pass_through("POST", "/v1/messages?beta=true", body, headers)
    assert exchange.status == 200
    await exchange.close()
    path, sent, fields = cloud.asked[0]
    assert path.endswith(
        "/projects/mine/locations/eu/publishers/anthropic/models/claude-x"
        ":streamRawPredict?beta=true"
    )
    assert sent["anthropic-beta"] == "one,two"
    assert fields["anthropic_version"] == "2023-06-01"
    assert fields.keys() == {"anthropic_version", "max_tokens", "stream", "messages"}


async def test_tokens_of_claude_are_counted(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a path of its own, where the body names the model."""
    use_machine(monkeypatch, cloud)
    model = await access(anthropic, region="eu", project="mine")
    with pytest.raises(ConverseError):  # the answer of the servers is no count
        await model.tokenizer.count_request(REQUEST, model.descriptor)
    path, _, fields = cloud.asked[0]
    assert path.endswith("/models/count-tokens:rawPredict")
    assert fields["model"] == "claude-x"


ERRORS: list[tuple[Any, type[ConverseError], str]] = [
    ("missing.json", ConfigurationError, "missing.json.*Run: gcloud auth"),
    ("{", ConfigurationError, "not a valid json file.*Run: gcloud auth"),
    ((400, {"error": "invalid_grant", "error_description": "Revoked."}), ProviderError, "Revoked"),
    (None, TransportError, "access tokens is unreachable"),
]


@pytest.mark.parametrize(("trouble", "kind", "message"), ERRORS, ids=["file", "json", "no", "off"])
async def test_trouble_with_credentials_is_one_line(
    cloud: GoogleCloud,
    access: Access,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Any,
    kind: type[ConverseError],
    message: str,
) -> None:
    """It says what failed and what to do, and shows no secret."""
    path = cloud.write_service_account(Path("a.json"))
    if trouble == "{":
        path.write_text("{")
    elif isinstance(trouble, str):
        path = Path(trouble)
    elif trouble is None:
        path.write_text(path.read_text().replace(cloud.url, "http://127.0.0.1:9"))
    else:
        cloud.token_error = trouble
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setattr("google.auth._exponential_backoff._DEFAULT_RETRY_TOTAL_ATTEMPTS", 1)
    with pytest.raises(kind, match=message) as caught:
        await ask(await access(project="mine"))
    assert "\n" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


async def test_missing_credentials_are_requirements(
    cloud: GoogleCloud, access: Access, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are found without the network, before anything is sent."""
    provider = google.produce_provider(produce_context("vertex", tmp_path, cloud="vertex"))
    assert [each.kind for each in provider.survey_requirements()] == [RequirementKind.KEY]
    with pytest.raises(ConfigurationError, match=r"key for vertex is missing.*gcloud auth"):
        await ask(await access())
    monkeypatch.setenv("CLOUDSDK_AUTH_ACCESS_TOKEN", "token-of-gcloud")
    assert [each.name for each in provider.survey_requirements()] == ["GOOGLE_CLOUD_PROJECT"]
    monkeypatch.delenv("CLOUDSDK_AUTH_ACCESS_TOKEN")
    monkeypatch.setattr("vibe_llms.providers.requirements._is_installed", lambda module: False)
    (requirement,) = provider.survey_requirements()
    assert (requirement.kind, requirement.name) == (
        RequirementKind.PACKAGE,
        "google.auth, requests",
    )
    assert "google-auth" in requirement.remedy
    with pytest.raises(DependencyError):
        await ask(await access())
