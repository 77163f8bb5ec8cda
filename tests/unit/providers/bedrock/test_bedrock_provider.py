"""The provider asks Bedrock as it wants to be asked, and understands what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, answer_stream, produce_context
from vibe_llms.exceptions import (
    ConfigurationError,
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
    StreamTruncatedError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import StopReason, SupervisorCanister, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.providers.bedrock import produce_provider, survey_providers
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.requirements import RequirementKind
from vibe_llms.wire.event_stream import encode_message
from vibe_llms.wire.memory import MemoryAnswer

REQUEST = Request(canisters=[SupervisorCanister("Be brief."), UserCanister("Hello")])
USAGE = {"inputTokens": 4, "outputTokens": 1, "totalTokens": 5}
BODY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
    "stopReason": "end_turn",
    "usage": USAGE,
    "metrics": {"latencyMs": 7},
}
SENT = {
    "system": [{"text": "Be brief."}],
    "messages": [{"role": "user", "content": [{"text": "Hello"}]}],
}
MODEL = "eu.anthropic.claude-unheard-of-v1:0"


@pytest.fixture(autouse=True)
def forget_amazon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Takes away the settings of Amazon's tools."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def produce_client(
    directory: Path, *answers: MemoryAnswer, **settings: Any
) -> tuple[RemoteClient, Counterpart]:
    """Returns a client, and what plays the vendor."""
    counterpart = Counterpart(list(answers))
    settings = {"api_key": "canary", "region": "eu-central-1", **settings}
    context = produce_context("bedrock", directory, limits=Limits(attempts=1), **settings)
    provider = produce_provider(context)
    assert isinstance(provider, RemoteProvider)
    provider.use_transport(counterpart.transport)
    return provider.produce_client(), counterpart


def compose_event(kind: str, **fields: Any) -> bytes:
    """Returns an event of a stream, or an exception."""
    is_exception = kind.endswith("Exception")
    headers = {
        ":exception-type" if is_exception else ":event-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception" if is_exception else "event",
    }
    return encode_message(headers, msgspec.json.encode(fields))


STREAM = [
    compose_event("messageStart", role="assistant", p="abc"),
    compose_event("contentBlockDelta", contentBlockIndex=0, delta={"text": "H"}),
    compose_event("contentBlockDelta", contentBlockIndex=0, delta={"text": "i"}, p="abcd"),
    compose_event("contentBlockStop", contentBlockIndex=0),
    compose_event("messageStop", stopReason="end_turn"),
    compose_event("metadata", usage=USAGE, metrics={"latencyMs": 7}, p="ab"),
]
STREAM_TYPE = "application/vnd.amazon.eventstream"


async def test_a_whole_answer_is_asked_for_by_its_operation(tmp_path: Path) -> None:
    """The model stands in the path, with all its signs escaped; a key is a bearer's token."""
    client, counterpart = produce_client(tmp_path, answer_json(msgspec.json.encode(BODY)))
    model = await client.access_model(MODEL)
    response = await model.converse(REQUEST, stream=False)
    assert (response.text, response.metadata.stop_reason) == ("Hi", StopReason.ANSWERED)
    (request,) = counterpart.requests
    assert request.url == (
        "https://bedrock-runtime.eu-central-1.amazonaws.com/model/"
        "eu.anthropic.claude-unheard-of-v1%3A0/converse"
    )
    assert request.headers["authorization"].reveal() == "Bearer canary"  # type: ignore[union-attr]
    assert msgspec.json.decode(request.body) == SENT


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_stream_is_asked_for_by_another(tmp_path: Path, size: int) -> None:
    """Its messages are binary, and may be cut anywhere."""
    data = b"".join(STREAM)
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    headers = {"x-amzn-requestid": "req-7"}
    client, counterpart = produce_client(tmp_path, answer_stream(chunks, STREAM_TYPE, **headers))
    response = await (await client.access_model(MODEL)).converse(REQUEST)
    assert response.text == "Hi"
    assert response.metadata.usage is not None
    assert (response.metadata.usage.input_tokens, response.metadata.usage.output_tokens) == (4, 1)
    assert response.metadata.request_id == "req-7"
    assert counterpart.requests[0].url.endswith("/converse-stream")


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-gov-west-1", "bedrock-runtime.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "bedrock-runtime.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_regions_have_their_addresses(tmp_path: Path, region: str, host: str) -> None:
    """Those of China are in another domain."""
    client, _ = produce_client(tmp_path, region=region)
    assert client.vendor.settings.base_url == f"https://{host}"


async def test_an_address_is_a_model_as_well(tmp_path: Path) -> None:
    """Of a profile, with its slashes."""
    client, counterpart = produce_client(tmp_path, answer_json(msgspec.json.encode(BODY)))
    name = "arn:aws:bedrock:eu-central-1:1:inference-profile/x"
    await (await client.access_model(name)).converse(REQUEST, stream=False)
    assert "/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A1%3Ainference-profile%2Fx/" in (
        counterpart.requests[0].url
    )


async def test_the_vendor_counts_tokens(tmp_path: Path) -> None:
    """Parameters that do not matter are left out, as the vendor refuses them."""
    client, counterpart = produce_client(tmp_path, answer_json(b'{"inputTokens": 7}'))
    model = await client.access_model(MODEL)
    request = Request(canisters=REQUEST.canisters, controls={"max_tokens": 9})
    assert (await model.tokenizer.count_request(request, model.descriptor)).tokens == 7
    assert counterpart.requests[0].url.endswith("/count-tokens")
    assert msgspec.json.decode(counterpart.requests[0].body) == {"input": {"converse": SENT}}


ERRORS = [
    ("ThrottlingException", 429, ProviderFault.RATE_LIMITED),
    ("AccessDeniedException:http://x", 403, ProviderFault.PERMISSION),
    ("ExpiredTokenException", 403, ProviderFault.AUTHENTICATION),
    ("ModelNotReadyException", 429, ProviderFault.OVERLOADED),
    ("ServiceQuotaExceededException", 400, ProviderFault.QUOTA),
    ("ModelErrorException", 424, ProviderFault.SERVER),
    ("ModelTimeoutException", 408, ProviderFault.TIMEOUT),
    ("com.amazon#ResourceNotFoundException", 404, ProviderFault.NOT_FOUND),
    ("", 424, ProviderFault.SERVER),
    ("", 503, ProviderFault.OVERLOADED),
]


@pytest.mark.parametrize(("kind", "status", "fault"), ERRORS)
async def test_errors_are_told_by_their_type(
    tmp_path: Path, kind: str, status: int, fault: ProviderFault
) -> None:
    """Which a header has, perhaps with an address behind it."""
    headers = {"x-amzn-errortype": kind, "x-amzn-requestid": "req-7"}
    answer = answer_json(b'{"message": "No."}', status, headers)
    client, _ = produce_client(tmp_path, answer)
    with pytest.raises(ProviderError) as caught:
        await (await client.access_model(MODEL)).converse(REQUEST, stream=False)
    assert (caught.value.fault, caught.value.status) == (fault, status)
    assert caught.value.request_id == "req-7"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Input is too long for requested model.", ContextOverflowError),
        ("The provided model identifier is invalid.", ProviderError),
    ],
)
async def test_some_errors_are_told_by_their_words(
    tmp_path: Path, message: str, kind: type[ConverseError]
) -> None:
    """Of those whose type is that of any invalid request."""
    body = msgspec.json.encode({"message": message})
    answer = answer_json(body, 400, {"x-amzn-errortype": "ValidationException"})
    client, _ = produce_client(tmp_path, answer)
    with pytest.raises(kind) as caught:
        await (await client.access_model(MODEL)).converse(REQUEST, stream=False)
    fault = getattr(caught.value, "fault", None)
    assert fault in (None, ProviderFault.NOT_FOUND)


async def test_an_exception_in_a_stream_is_that_error(tmp_path: Path) -> None:
    """What came before it is kept by whoever listens."""
    failing = compose_event("modelStreamErrorException", message="No.", originalStatusCode=500)
    client, _ = produce_client(tmp_path, answer_stream([*STREAM[:2], failing], STREAM_TYPE))
    with pytest.raises(ProviderError) as caught:
        await (await client.access_model(MODEL)).converse(REQUEST)
    assert (caught.value.fault, caught.value.detail) == (ProviderFault.SERVER, "No.")


@pytest.mark.parametrize("data", [b"".join(STREAM[:4]), b"".join(STREAM[:3])[:-5]])
async def test_a_stream_that_is_cut_is_an_error(tmp_path: Path, data: bytes) -> None:
    """Between two messages, or within one."""
    client, _ = produce_client(tmp_path, answer_stream([data], STREAM_TYPE))
    with pytest.raises(StreamTruncatedError):
        await (await client.access_model(MODEL)).converse(REQUEST)


async def test_a_page_in_place_of_a_stream_is_an_error(tmp_path: Path) -> None:
    """It names both types."""
    client, _ = produce_client(tmp_path, answer_stream([b"<html>"], "text/html"))
    with pytest.raises(ConverseError, match=r"text/html, not application/json or .*eventstream"):
        await (await client.access_model(MODEL)).converse(REQUEST)


def test_what_is_missing_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A region, and without a key the package that signs."""

    def survey(**settings: Any) -> list[tuple[RequirementKind, str]]:
        context = produce_context("bedrock", tmp_path, **settings)
        found = produce_provider(context).survey_requirements()
        return [(each.kind, each.name) for each in found]

    region = (RequirementKind.SETTING, "AWS_REGION")
    assert survey() == [region]
    assert survey(api_key="k") == [region]
    assert survey(region="eu-west-1") == []
    assert survey(api_key="k", base_url="https://gate.example") == []
    assert survey(base_url="https://gate.example") == [region]  # a signature names it
    monkeypatch.setattr("vibe_llms.providers.requirements._is_installed", lambda module: False)
    assert survey(region="eu-west-1") == [(RequirementKind.PACKAGE, "botocore")]
    assert survey(region="eu-west-1", api_key="k") == []
    (tmp_path / "config").write_text("[profile mine]\nregion = eu-west-1\n")
    assert survey(profile="mine", api_key="k") == []


def test_settings_are_checked(tmp_path: Path) -> None:
    """A region that would change the address is refused."""
    with pytest.raises(ConfigurationError, match="region"):
        produce_client(tmp_path, region="a/b")


def test_the_plugin_names_its_provider() -> None:
    """There is one, under whatever name the configuration gives it."""
    assert [specification.name for specification in survey_providers()] == [ANY_NAME]
