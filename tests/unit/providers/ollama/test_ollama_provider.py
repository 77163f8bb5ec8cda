"""The provider ``ollama`` against answers made up here: addresses, windows, what it learns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.ollama import describe_model
from support.quality.working import measure
from support.vendors import remoting
from vibe_llms.exceptions import (
    ConfigurationError,
    ContextOverflowError,
    ControlError,
    ProviderError,
    StreamTruncatedError,
    UnknownNameError,
)
from vibe_llms.foundation.secrets import Secret
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import AttributeLayer, Capability
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.counting import estimate_request
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.ollama import produce_provider
from vibe_llms.providers.ollama.client import OllamaProvider, read_host
from vibe_llms.providers.ollama.windows import MIN_WINDOW, choose_window, round_up
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.memory import MemoryAnswer, MemoryTransport

SHOWN = {
    "model_info": {"general.architecture": "llama", "llama.context_length": 8192},
    "capabilities": ["completion", "tools"],
}
ANSWER = {
    "model": "llama3",
    "created_at": "2025-08-20T09:45:30Z",
    "message": {"role": "assistant", "content": "Hi."},
    "done": True,
    "done_reason": "stop",
}
ASK = Request(canisters=(UserCanister("hi"),))


@attrs.define
class Listener:
    """Consent that is given or not, and progress that is written down."""

    agrees: bool = True
    heard: list[Any] = attrs.field(factory=list)

    def ask(self, subject: str, question: str) -> bool:
        self.heard.append(subject)
        return self.agrees

    def start(self, total: int | None, label: str) -> None:
        self.heard.append((total, label))

    def advance(self, amount: int) -> None:
        self.heard.append(amount)

    def finish(self) -> None:
        self.heard.append("finish")


@attrs.define
class Server:
    """An Ollama server of a few lines: answers by path, and keeps what it was sent."""

    answers: dict[str, Callable[[Any], Any] | Any]
    bodies: list[tuple[str, Any]] = attrs.field(factory=list)
    headers: list[Any] = attrs.field(factory=list)

    async def handle(self, request: WireRequest) -> MemoryAnswer:
        path = request.url.partition("11434")[2]
        body = json.loads(request.body or b"null")
        self.bodies.append((path, body))
        self.headers.append(request.headers)
        answer = self.answers[path]
        answer = answer(body) if callable(answer) else answer
        if isinstance(answer, tuple):
            status, problem = answer
            return _answer(status, "application/json", [problem])
        if isinstance(answer, list):
            return _answer(200, "application/x-ndjson", answer)
        return _answer(200, "application/json", [answer])


def _answer(status: int, kind: str, lines: list[Any]) -> MemoryAnswer:
    body = [json.dumps(line).encode() + b"\n" for line in lines]
    return MemoryAnswer(status=status, headers={"content-type": kind}, chunks=body)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def produce(tmp_path: Path, listener: Listener) -> Callable[..., OllamaProvider]:
    """Makes the provider with settings, in front of a server."""

    def make(server: Server | None = None, **settings: Any) -> OllamaProvider:
        context = ProviderContext(
            name="ollama",
            settings=settings,
            data_directory=tmp_path / "data",
            cache_directory=tmp_path / "cache",
            consent=listener,
            progress=listener,
            produce_attributes=lambda: Catalogue().access_integrator("ollama"),
        )
        provider = produce_provider(context)
        assert isinstance(provider, OllamaProvider)
        if server is not None:
            provider.use_transport(MemoryTransport(server.handle))
        return provider

    return make


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("example.org", "http://example.org:11434"),
        ("example.org:80", "http://example.org:80"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:1", "http://127.0.0.1:1"),
        ("http://example.org", "http://example.org:80"),
        ("https://ollama.com", "https://ollama.com:443"),
        ("https://ollama.com:8443/", "https://ollama.com:8443"),
        ("https://example.org/ollama/", "https://example.org:443/ollama"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:99", "http://[::1]:99"),
        ("::", "http://[::1]:11434"),
        (' "10.0.0.1:7" ', "http://10.0.0.1:7"),
    ],
)
def test_the_host_is_read_as_the_server_reads_it(text: str, expected: str) -> None:
    """One variable tells both sides where they meet."""
    assert read_host(text) == expected


@pytest.mark.parametrize("text", ["ftp://a", "a:b", "a:70000", "a:-1"])
def test_a_host_that_is_none_is_refused(text: str) -> None:
    """The variable is named, so that it can be found."""
    with pytest.raises(ConfigurationError, match="OLLAMA_HOST"):
        read_host(text)


def test_the_users_address_wins_over_the_variable(
    produce: Callable[..., OllamaProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration is nearer to us than what the server goes by."""
    monkeypatch.setenv("OLLAMA_HOST", "elsewhere")
    assert produce().produce_client().vendor.settings.base_url == "http://elsewhere:11434"
    given = produce(base_url="http://here:1").produce_client()
    assert given.vendor.settings.base_url == "http://here:1"


@given(st.integers(0, 2**30))
def test_windows_come_in_few_steps(tokens: int) -> None:
    """A window is large enough, at most half as large again or the least, and seldom changes."""
    window = round_up(tokens)
    odd = window // (window & -window)

    assert window >= tokens
    assert window <= max(MIN_WINDOW, 2 * tokens)
    assert odd in (1, 3)


@given(st.integers(0, 3000), st.none() | st.integers(1, 4000))
def test_a_window_never_cuts_what_surely_fits(words: int, asked: int | None) -> None:
    """The window holds the input at its largest and the answer, or is the whole of the model's."""
    request = Request(canisters=(UserCanister("word " * words),))
    options: dict[str, Any] = {} if asked is None else {"num_predict": asked}
    model = describe_model(context_window_tokens=6000)
    estimate = estimate_request(request, model)
    needed = estimate.tokens + estimate.error_tokens + (asked or 0)
    try:
        window = choose_window(request, model, options)
    except ContextOverflowError:
        assert estimate.tokens - estimate.error_tokens + (asked or 1) > 6000
    else:
        assert window == 6000 or window >= needed
        assert window <= 6000


@pytest.mark.parametrize("words", [100, 1000, 2600, 9000])
def test_a_window_has_room_for_the_error_of_the_estimate(words: int) -> None:
    """The input may be as large as the estimate's bound, and the answer still fits."""
    request = Request(canisters=(UserCanister("word " * words),))
    estimate = estimate_request(request, describe_model())

    window = choose_window(request, describe_model(), {"num_predict": 300})

    assert window >= estimate.tokens + estimate.error_tokens + 300


def test_a_window_of_the_users_own_is_kept_or_refused() -> None:
    """What the user chose is not corrected in silence."""
    long = Request(canisters=(UserCanister("word " * 5000),))

    assert choose_window(ASK, describe_model(), {"num_ctx": 2048}) == 2048
    with pytest.raises(ContextOverflowError, match="num_ctx"):
        choose_window(long, describe_model(), {"num_ctx": 2048})
    with pytest.raises(ContextOverflowError, match="window of 1,024"):
        choose_window(long, describe_model(context_window_tokens=1024), {})


async def test_a_request_says_its_window_and_forbids_to_cut(
    produce: Callable[..., OllamaProvider],
) -> None:
    """The body has the window, and the words that make newer servers refuse instead of cutting."""
    server = Server({"/api/show": SHOWN, "/api/chat": [ANSWER]})
    client = produce(server, api_key="secret-key").produce_client()
    model = await client.access_model("llama3")

    response = await model.converse(ASK)

    assert response.text == "Hi."
    assert response.losses == ()
    path, body = server.bodies[-1]
    assert path == "/api/chat"
    assert body["options"]["num_ctx"] == 6144
    assert body["truncate"] is False
    assert body["shift"] is False
    key = server.headers[-1]["authorization"]
    assert isinstance(key, Secret)
    assert key.reveal() == "Bearer secret-key"
    assert "secret-key" not in repr(server.headers)


async def test_the_server_teaches_what_its_model_can(
    produce: Callable[..., OllamaProvider],
) -> None:
    """Window and abilities come from the server, as such, and are asked once a model."""
    server = Server({"/api/show": SHOWN, "/api/chat": ANSWER})
    client = produce(server).produce_client()
    attributes = (await client.access_model("llama3")).descriptor.attributes
    model = await client.access_model("llama3")

    assert attributes.access_value("context_window_tokens") == 8192
    provenance = attributes.access_provenance("context_window_tokens")
    assert provenance is not None
    assert provenance.layer is AttributeLayer.VENDOR
    assert attributes.access_capability("supports_invocations") is Capability.YES
    assert attributes.access_capability("supports_images") is Capability.NO
    assert len(server.bodies) == 1
    with pytest.raises(ControlError, match="num_ctx"):
        model.check(attrs.evolve(ASK, controls={"num_ctx": 9000}))
    with pytest.raises(ContextOverflowError):
        model.check(Request(canisters=(UserCanister("word " * 40_000),)))


@pytest.mark.parametrize(
    "shown", [(405, {"error": "no"}), (404, {"error": "404 page not found"}), [], {}, 7]
)
async def test_a_server_that_cannot_describe_models_is_asked_all_the_same(
    shown: Any, produce: Callable[..., OllamaProvider]
) -> None:
    """What speaks Ollama's chat need not know its other calls."""
    server = Server({"/api/show": shown, "/api/chat": ANSWER})
    model = await produce(server).produce_client().access_model("llama3")

    assert (await model.converse(ASK, stream=False)).text == "Hi."


async def test_a_cut_that_the_server_keeps_to_itself_is_told(
    produce: Callable[..., OllamaProvider],
) -> None:
    """A count far below what was sent is the only sign of it."""
    cut = {**ANSWER, "prompt_eval_count": 300}
    server = Server({"/api/show": {}, "/api/chat": lambda body: [cut] if body["stream"] else cut})
    model = await produce(server).produce_client().access_model("llama3")
    long = Request(canisters=(UserCanister("word " * 3000),))

    for stream in (True, False):
        response = await model.converse(long, stream=stream)
        assert [(loss.kind, loss.path) for loss in response.losses] == [
            (LossKind.DROPPED, "canisters")
        ]
    assert (await model.converse(ASK)).losses == ()


async def test_a_later_turn_estimates_only_its_new_messages(
    produce: Callable[..., OllamaProvider],
) -> None:
    """The work does not grow with the conversation, and the window is that of the whole."""
    server = Server({"/api/show": {}})
    model = await produce(server).produce_client().access_model("llama3")
    other = await produce(server).produce_client().access_model("llama3")

    def take_turn(count: int) -> int:
        turn = (UserCanister("What of the rain? " * 9), AssistantCanister("It is wet. " * 9))
        begun = (*turn * count, UserCanister("And?"))
        model.translate(Request(canisters=begun), streaming=False)
        longer = Request(canisters=(*begun, *turn[1:], UserCanister("And the snow?")))
        lines, _ = measure(lambda: model.translate(longer, streaming=False))
        anew = other.translate(longer, streaming=False)
        assert model.translate(longer, streaming=False).value == anew.value
        return lines

    few, many = take_turn(50), take_turn(150)

    assert many - few < 50


def serve_pull(*lines: Any) -> Server:
    """A server without the model until it was made to fetch it."""
    fetched: list[str] = []

    def show(body: Any) -> Any:
        return SHOWN if fetched else (404, {"error": f"model '{body['model']}' not found"})

    def pull(body: Any) -> Any:
        fetched.append(body["model"])
        return list(lines)

    return Server({"/api/show": show, "/api/pull": pull, "/api/chat": [ANSWER]})


async def test_a_missing_model_is_fetched_on_consent(
    produce: Callable[..., OllamaProvider], listener: Listener
) -> None:
    """Each file has a bar; the last line says that all is there."""
    part = {"status": "pulling aa", "digest": "aa", "total": 10}
    server = serve_pull(
        {"status": "pulling manifest"},
        part,
        {**part, "completed": 4},
        {**part, "completed": 10},
        {"status": "pulling bb", "digest": "bb", "total": 3, "completed": 3},
        {"status": "success"},
    )
    model = await produce(server).produce_client().access_model("llama3")

    assert listener.heard == [
        "model:ollama:llama3",
        (10, "pulling aa"),
        4,
        6,
        "finish",
        (3, "pulling bb"),
        3,
        "finish",
    ]
    assert (await model.converse(ASK)).text == "Hi."


async def test_nothing_is_fetched_without_consent(
    produce: Callable[..., OllamaProvider], listener: Listener
) -> None:
    """The error names the model and the command that would fetch it."""
    listener.agrees = False
    server = serve_pull({"status": "success"})

    with pytest.raises(UnknownNameError, match="vibe models pull ollama:llama3"):
        await produce(server).produce_client().access_model("llama3")
    assert [path for path, _ in server.bodies] == ["/api/show"]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([{"error": "pull model manifest: file does not exist"}], ProviderError),
        ([{"status": "pulling manifest"}], StreamTruncatedError),
        ([], StreamTruncatedError),
    ],
)
async def test_a_fetch_that_fails_is_an_error_and_ends_its_bar(
    lines: list[Any],
    error: type[Exception],
    produce: Callable[..., OllamaProvider],
    listener: Listener,
) -> None:
    """Half a model is none; the display is left as it was."""
    begun = {"status": "pulling aa", "digest": "aa", "total": 10, "completed": 1}
    server = serve_pull(begun, *lines)

    with pytest.raises(error):
        await produce(server).produce_client().access_model("llama3")
    assert listener.heard[-1] == "finish"


async def test_models_are_listed(produce: Callable[..., OllamaProvider]) -> None:
    """Names and abilities as the server lists them."""
    tags = {
        "models": [
            {"name": "a:latest", "model": "a:latest", "capabilities": ["completion", "vision"]},
            {"name": "b:1b"},
            {},
        ]
    }
    client = produce(Server({"/api/tags": tags})).produce_client()
    first, second = await client.survey_models()

    assert (first.name, second.name) == ("a:latest", "b:1b")
    assert first.attributes.access_capability("supports_images") is Capability.YES
    assert second.attributes.access_capability("supports_images") is Capability.UNKNOWN


def test_an_address_and_a_server_of_our_own_exclude_each_other(
    produce: Callable[..., OllamaProvider],
) -> None:
    """Two answers to one question are a mistake, and are told so at once."""
    with pytest.raises(ConfigurationError, match="remove one of them"):
        produce(base_url="http://here:1", start=True).produce_client()


@pytest.mark.parametrize(
    "settings",
    [{"start": "yes"}, {"arguments": "serve"}, {"startup_seconds": 0}, {"command": ""}],
)
def test_settings_of_the_wrong_kind_are_refused(
    settings: dict[str, Any], produce: Callable[..., OllamaProvider]
) -> None:
    """The place in the configuration is named."""
    with pytest.raises(ConfigurationError, match=rf"providers\.ollama\.{next(iter(settings))}"):
        produce(**settings).produce_client()


async def test_a_password_in_the_address_is_not_told(tmp_path: Path) -> None:
    """Neither in the question whether to fetch a model nor in the error of a missing one."""
    counterpart = remoting.Counterpart(
        [remoting.answer_json(b'{"error": "model \'x\' not found"}', status=404)]
    )
    context = remoting.produce_context("ollama", tmp_path, base_url="http://me:canary@host:1")
    provider = produce_provider(context)
    assert isinstance(provider, OllamaProvider)
    provider.use_transport(counterpart.transport)
    with pytest.raises(
        UnknownNameError, match="The server at http://host:1 does not have the model"
    ) as caught:
        await provider.produce_client().access_model("x")
    assert "canary" not in str(caught.value)
