"""Providers under the names that people know: aliases, clouds, default models, addresses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import Counterpart, answer_json
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConfigurationError, UnknownNameError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.missing_requirements import survey_missing
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.requirements import RequirementKind

Apply = Callable[..., Application]
OWN_SERVERS = {"llamacpp", "lmstudio", "ollama", "remote", "vllm"}
DEPLOYED = {"azure", "bedrock"}
"""What is asked there is a deployment, or a profile, of the user's own."""

CHOICE = b'{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}'
ANSWER = b'{"id": "1", "model": "m", "choices": [' + CHOICE + b"]}"


@pytest.fixture(autouse=True)
def forget_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Takes away what the machine's own environment says of vendors."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    words = ("_API_KEY", "_BASE_URL", "_TOKEN", "_ENDPOINT", "OLLAMA_HOST", "GOOGLE_CLOUD", "AWS_")
    for name in list(os.environ):
        if any(word in name for word in words):
            monkeypatch.delenv(name)


@pytest.fixture
def apply(tmp_path: Path) -> Apply:
    """Makes the application of a user's file, and of a project's."""

    def perform(user: str = "", project: str | None = None) -> Application:
        (tmp_path / "user.toml").write_text(user, encoding="utf-8")
        folder = tmp_path / "project"
        (folder / ".vibe-llms").mkdir(parents=True, exist_ok=True)
        if project is not None:
            (folder / ".vibe-llms" / "config.toml").write_text(project, encoding="utf-8")
        environment = {"VIBE_LLMS_CONFIG": str(tmp_path / "user.toml"), "HOME": str(tmp_path)}
        return Application(load_configuration(environment=environment, working_directory=folder))

    return perform


def access_vendor(application: Application, name: str) -> Any:
    provider = application.plugins.load_provider(name)
    assert isinstance(provider, RemoteProvider)
    return provider.produce_client().vendor


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("openai:gpt-5.1", "openai_responses:gpt-5.1"),
        ("gemini:gemini-3.8-flash", "google:gemini-3.8-flash"),
        ("openai", "openai_responses:gpt-5.5"),
        ("anthropic", "anthropic:claude-sonnet-5-5"),
        ("claude-sonnet-4-6", "anthropic:claude-sonnet-4-6"),
        ("claude-sonnet-4.5", "anthropic:claude-sonnet-4-5"),
        ("gpt-5.1", "openai_responses:gpt-5.1"),
        ("gemini-3.8-flash", "google:gemini-3.8-flash"),
        ("grok-4.7", "xai:grok-4.7"),
        ("azure:mine", "azure:mine"),
        ("fast", "groq:openai/gpt-oss-120b"),
        ("quick", "groq:openai/gpt-oss-120b"),
        ("best", "openai_responses:gpt-5.4"),
    ],
)
def test_a_model_is_found_by_the_name_that_people_know(
    apply: Apply, typed: str, meant: str
) -> None:
    """A vendor's usual name, a model's bare name, and aliases, also of aliases."""
    aliases = 'fast = "groq"\nquick = "fast"\nbest = "openai:gpt-5.4"\nround = "round"\n'

    assert str(apply(f"[aliases]\n{aliases}").resolve_address(typed)) == meant


def test_an_alias_hides_no_provider_and_one_of_itself_ends(apply: Apply) -> None:
    """Whatever else somebody calls a provider's name, the provider answers to it."""
    application = apply('[aliases]\ngroq = "xai"\nround = "square"\nsquare = "round"\n')

    assert application.resolve_address("groq:m").provider == "groq"
    with pytest.raises(UnknownNameError, match=r"Unknown provider or model '(round|square)'"):
        application.resolve_address("round")


def test_what_is_said_of_a_provider_by_another_name_is_said_of_it(apply: Apply) -> None:
    """``[providers.openai]`` is the table of the provider behind it, each value with its line."""
    application = apply('[providers.openai]\nbase_url = "https://gate.example/v1"\n')

    assert access_vendor(application, "openai").settings.base_url == "https://gate.example/v1"
    setting = application.configuration.settings["providers.openai_responses.base_url"]
    assert setting.source.line == 2


def test_a_table_with_a_module_is_a_provider_of_its_own(apply: Apply) -> None:
    """Whoever had a provider of such a name keeps it, and other layers speak of that one."""
    user = '[providers.openai]\nmodule = "vibe_llms.providers.scripted"\n'
    application = apply(user, project="[providers.openai]\nenabled = false\n")

    assert application.configuration.providers["openai"].module.endswith("scripted")
    assert not application.configuration.providers["openai"].is_enabled
    assert application.configuration.providers["openai_responses"].is_enabled
    assert application.resolve_address("openai:echo").provider == "openai"


def test_a_project_that_is_not_trusted_renames_nothing(apply: Apply) -> None:
    """An alias, an address, a default for all models: none of them has effect unasked."""
    project = '[aliases]\nfast = "xai"\nopenai = "xai"\n[defaults]\ntitle = "X"\n'
    project += '[providers.openai]\nbase_url = "https://evil.example"\n'
    application = apply('[aliases]\nfast = "groq"\n', project)

    request = application.configuration.trust_request
    assert request is not None
    assert {setting.name for setting in request.settings} == {
        "aliases.fast", "aliases.openai", "defaults", "providers.openai_responses.base_url"
    }  # fmt: skip
    assert application.resolve_address("fast").provider == "groq"
    assert application.resolve_address("openai").provider == "openai_responses"
    assert access_vendor(application, "openai").settings.base_url == "https://api.openai.com/v1"
    assert application.configuration.overrides == ()


def test_every_vendor_has_a_default_model(apply: Apply) -> None:
    """So a provider's name is enough; a server of one's own says itself what it has."""
    application = apply()
    names = (
        set(application.configuration.providers) - OWN_SERVERS - DEPLOYED - {"local", "scripted"}
    )

    assert len(names) >= 30
    assert [name for name in names if not application.resolve_address(name).name] == []


@pytest.mark.parametrize(
    ("variable", "value", "provider", "base_url"),
    [
        ("OPENAI_BASE_URL", "https://gate.example/v1/", "openai", "https://gate.example/v1"),
        ("OPENAI_BASE_URL", "http://g.example/v1", "openai_conversations", "http://g.example/v1"),
        ("ANTHROPIC_BASE_URL", "https://gate.example", "anthropic", "https://gate.example"),
        ("GOOGLE_GEMINI_BASE_URL", "https://gate.example", "gemini", "https://gate.example"),
        ("GOOGLE_VERTEX_BASE_URL", "https://gate.example", "vertex", "https://gate.example"),
        ("GROQ_BASE_URL", "https://gate.example/v1", "groq", "https://gate.example/v1"),
        ("OLLAMA_HOST", "gate.example:99", "ollama", "http://gate.example:99"),
        (
            "AZURE_OPENAI_ENDPOINT",
            "https://mine.openai.azure.com/",
            "azure",
            "https://mine.openai.azure.com/openai/v1",
        ),
        (
            "CLOUDFLARE_ACCOUNT_ID",
            "abc",
            "cloudflare",
            "https://api.cloudflare.com/client/v4/accounts/abc/ai/v1",
        ),
        (
            "GOOGLE_CLOUD_LOCATION",
            "europe-west1",
            "vertex",
            "https://europe-west1-aiplatform.googleapis.com",
        ),
    ],
)
def test_the_services_own_variables_say_where_they_are(
    apply: Apply,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    provider: str,
    base_url: str,
) -> None:
    """As the official packages have it; what the user's file says comes first."""
    monkeypatch.setenv(variable, value)

    assert access_vendor(apply(), provider).settings.base_url == base_url
    said = apply(f'[providers.{provider}]\nbase_url = "https://said.example"\n')
    assert access_vendor(said, provider).settings.base_url == "https://said.example"


def test_a_variable_that_is_no_address_is_refused_by_its_name(
    apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable, and does not repeat what may hold a password."""
    monkeypatch.setenv("OPENAI_BASE_URL", "ftp://me:secret@gate.example")

    with pytest.raises(
        ConfigurationError, match="OPENAI_BASE_URL: It must be an address"
    ) as caught:
        access_vendor(apply(), "openai")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("azure", "Set AZURE_OPENAI_ENDPOINT, or base_url in"),
        ("cloudflare", "Set CLOUDFLARE_ACCOUNT_ID, or base_url in"),
        ("vertex", "Run: gcloud auth application-default login"),
        ("bedrock", "Set AWS_REGION, or region in"),
        ("together", "Set TOGETHER_API_KEY, or api_key_file in"),
    ],
)
async def test_what_is_missing_is_named_before_anything_is_sent(
    apply: Apply, provider: str, words: str
) -> None:
    """One line with the variable, and what does in its place."""
    model = await apply().access_model(f"{provider}:m")

    with pytest.raises(ConfigurationError, match=words):
        await model.converse(Request(canisters=[UserCanister("Hi")]))


@pytest.mark.parametrize("place", ["variable", "config", "credentials", "setting"])
def test_bedrock_is_meant_by_who_says_a_region(
    apply: Apply, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    """In the environment, in the profile, or in the settings."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    (tmp_path / "config").write_text("[default]\nregion = eu-west-1\n[profile other]\n")

    (need,) = survey_missing(apply().plugins, ["bedrock"])["bedrock"].requirements

    assert (need.kind, need.prevents) == (RequirementKind.SETTING, True)
    assert need.remedy == "Set AWS_REGION, or region in [providers.bedrock]."
    match place:
        case "variable":
            monkeypatch.setenv("AWS_REGION", "eu-west-1")
        case "config":
            (tmp_path / "config").write_text("[profile mine]\nregion = eu-west-1\n")
        case "credentials":
            (tmp_path / "credentials").write_text("[mine]\nregion = eu-west-1\n")
    user = '[providers.bedrock]\nregion = "eu-west-1"\n' if place == "setting" else ""
    assert survey_missing(apply(user).plugins, ["bedrock"])["bedrock"].requirements == ()


async def test_azure_is_asked_by_its_own_variables(
    apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own key goes to its own address; OpenAI's is left alone."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-of-azure")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    counterpart = Counterpart([answer_json(ANSWER)])
    application = apply()
    provider = application.plugins.load_provider("azure")
    assert isinstance(provider, RemoteProvider)
    provider.use_transport(counterpart.transport)
    model = await application.access_model("azure:mine")

    response = await model.converse(Request(canisters=[UserCanister("Hi")]), stream=False)

    (sent,) = counterpart.requests
    assert response.text == "Yes."
    assert sent.url == "https://mine.openai.azure.com/openai/v1/chat/completions"
    key = sent.headers["authorization"]
    assert "key-of-azure" in (key if isinstance(key, str) else key.reveal())


def test_a_cloud_is_not_given_the_key_of_anthropic(
    apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is its address Anthropic's: a key goes to whom it belongs."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-anthropic")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gate.example")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")

    for user in ("", '[providers.anthropic]\ntransport = "sdk"\ncloud = "foundry"\n'):
        application = apply(user)
        name = "anthropic" if user else "bedrock"
        client = application.plugins.load_provider(name).produce_client()

        assert client.require_key() is None  # type: ignore[attr-defined]
        assert "gate.example" not in client.vendor.settings.base_url  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("served", "chosen"),
    [(["only"], "only"), (["one", "two"], "several models: one, two"), ([], "")],
)
async def test_a_server_of_ones_own_is_asked_what_it_has(
    apply: Apply, served: list[str], chosen: str
) -> None:
    """The only model is the default; of several the user names one."""
    listed = ", ".join(f'{{"id": "{name}"}}' for name in served)
    counterpart = Counterpart([answer_json(f'{{"data": [{listed}]}}'.encode())])
    application = apply()
    provider = application.plugins.load_provider("llamacpp")
    assert isinstance(provider, RemoteProvider)
    provider.use_transport(counterpart.transport)

    if len(served) == 1:
        assert (await application.access_model("llamacpp")).descriptor.name == chosen
        return
    with pytest.raises(UnknownNameError, match=chosen or "lists no models"):
        await application.access_model("llamacpp")


def test_a_second_account_knows_what_is_known_of_the_vendors_models(apply: Apply) -> None:
    """A vendor's module under a name of one's own has the vendor's knowledge, and its own key."""
    table = '[providers.work]\nmodule = "vibe_llms.providers.anthropic"\napi_key = "k"\n'
    application = apply(table)

    known = application.catalogue.access_attributes(
        application.resolve_address("work:claude-sonnet-5-5")
    )

    assert known.access_value("context_window_tokens") == 1_000_000
    assert application.resolve_address("claude-sonnet-5-5").provider == "anthropic"


def test_defaults_of_the_users_file_hold_for_every_model(apply: Apply) -> None:
    """As the requirements write them: a control for all that have it, and any attribute."""
    user = '[defaults]\ntemperature = 0.25\n\n[[models]]\npattern = "^claude-"\ntemperature = 0.5\n'
    catalogue, resolve = apply(user).catalogue, apply(user).resolve_address

    groq = catalogue.access_attributes(resolve("groq"))
    claude = catalogue.access_attributes(resolve("anthropic:claude-sonnet-4-5"))
    thinker = catalogue.access_attributes(resolve("openai:o3"))

    assert groq.control_defaults["temperature"] == 0.25
    assert claude.control_defaults["temperature"] == 0.5
    assert "temperature" not in thinker.control_defaults
