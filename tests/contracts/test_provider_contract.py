"""Every provider passes the provider contract: built-in ones, and those of plugins."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import attrs
import pytest

from support.gateways.remote_gateways import RemoteGateway
from support.quality.properties import sample
from support.vendors.embedded import acquire_shared_weights, keep_loaded
from vibe_llms.testing.contracts import ProviderContract, SimulatedContract, simulated
from vibe_llms.testing.contracts.oddities import ELSEWHERE, ODDITIES, survey_names
from vibe_llms.testing.contracts.worlds import CANARY, World
from vibe_llms.testing.simulator import FAULTS, QUIRKS


def test_every_quirk_of_the_simulator_is_tested() -> None:
    """A new fault or quirk needs a row with the expected effect on an answer."""
    assert survey_names() == FAULTS.keys() | QUIRKS.keys()
    assert all(hasattr(SimulatedContract, promise) for promise in ELSEWHERE.values())


class TestScripted(ProviderContract):
    """The provider that replays scripts."""

    module = "vibe_llms.providers.scripted"
    model = "echo"
    invokes = False
    loses_nothing = True


@pytest.mark.samples
class _Peer(SimulatedContract):
    """One of many providers that share the code of Chat Completions: each is tested with some of
    the oddities.

    OpenAI's own provider is tested with all of them.
    """

    turn: ClassVar[int]

    @pytest.fixture(autouse=True)
    def take_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave this provider its share of the oddities."""
        monkeypatch.setattr(simulated, "ODDITIES", dict(sample(ODDITIES.items(), self.turn)))


FIXTURES = Path(__file__).parents[1] / "fixtures"
EXAMPLES = [str(FIXTURES / "example-provider" / "sources"), str(FIXTURES / "example-vendor")]


class _ExamplePlugins:
    """Plugins that are not built in."""

    @pytest.fixture(autouse=True)
    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the plugins' modules on the path, also of other processes."""
        for folder in EXAMPLES:
            monkeypatch.syspath_prepend(folder)
        paths = [*EXAMPLES, os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


class TestExampleProvider(_ExamplePlugins, ProviderContract):
    """The provider of an example package."""

    module = "parrot_provider"
    name = "parrot"
    invokes = False


class TestExampleVendor(_ExamplePlugins, _Peer):
    """A plugin's provider for Chat Completions, in one file."""

    turn = 0
    module = "toucan_provider"
    path = "/v1"
    model = "any"
    simulate = "reasoning_content"


@pytest.fixture(scope="module")
def loaded() -> Iterator[Path]:
    """The weights, loaded once for all tests."""
    with keep_loaded(acquire_shared_weights()) as path:
        yield path


@pytest.mark.weights
class TestLocal(ProviderContract):
    """The embedded model, whose answers are not scripted."""

    module = "vibe_llms.providers.local"
    invokes = False
    is_repeatable = False
    controls: ClassVar = {"max_tokens": 24, "temperature": 0}

    @pytest.fixture(autouse=True)
    def provide(self, monkeypatch: pytest.MonkeyPatch, loaded: Path) -> None:
        """Configure the weights."""
        monkeypatch.setattr(type(self), "settings", {"path": str(loaded)})


class TestAnthropic(SimulatedContract):
    """Messages."""

    module = "vibe_llms.providers.anthropic"
    model = "claude-sonnet-4-6"


class TestBedrock(SimulatedContract):
    """Converse, asked with a key for Bedrock."""

    module = "vibe_llms.providers.bedrock"
    model = "global.anthropic.claude-sonnet-4-6"


class TestGoogle(SimulatedContract):
    """Gemini's own protocol."""

    module = "vibe_llms.providers.google"
    model = "gemini-3-flash"


@pytest.mark.slow
class TestGoogleInteractions(SimulatedContract):
    """Gemini's Interactions."""

    module = "vibe_llms.providers.google"
    name = "google_interactions"
    model = "gemini-3-flash"
    settings: ClassVar = {"protocol": "interactions"}


class TestOllama(SimulatedContract):
    """Ollama's own protocol."""

    module = "vibe_llms.providers.ollama"
    model = "llama3.2"


@pytest.mark.slow
class TestOpenAIConversations(SimulatedContract):
    """Chat Completions of OpenAI, which returns no reasoning."""

    module = "vibe_llms.providers.openai_conversations"
    path = "/v1"
    model = "gpt-5.1"
    reasons = False


class TestOpenAIResponses(SimulatedContract):
    """Responses."""

    module = "vibe_llms.providers.openai_responses"
    path = "/v1"
    model = "gpt-5.1"


@pytest.mark.slow
class TestVllm(_Peer):
    """Chat Completions with vLLM's extras."""

    turn = 1
    module = "vibe_llms.providers.vllm"
    path = "/v1"
    model = "some-model"
    simulate = "vllm"


@pytest.mark.slow
class TestPerplexity(_Peer):
    """Chat Completions with sources, and without tools."""

    turn = 2
    module = "vibe_llms.providers.openai_compatible"
    name = "perplexity"
    model = "sonar"
    simulate = "perplexity"
    invokes = False


@pytest.mark.slow
class TestCohere(_Peer):
    """Chat Completions at another path, and a list of models of its own."""

    turn = 9
    module = "vibe_llms.providers.cohere"
    model = "command-a-03-2025"
    reasons = False


class TestRemote(ProviderContract):
    """Another vibe-llms, whose model is scripted."""

    module = "vibe_llms.providers.gateway"
    name = "remote"
    answers_as = "scripted"
    invokes = False
    loses_nothing = True

    @contextlib.contextmanager
    def prepare(self, directory: Path) -> Iterator[World]:
        """Start the other side, and configure the provider to call it."""
        with RemoteGateway({"model": "scripted:echo"}).run_in_thread() as far:
            settings = {"base_url": far.url, "api_key": CANARY}
            yield World(
                module=self.module, name=self.name, settings=settings, directory=directory / "world"
            )


class TestRemoteVendor(SimulatedContract):
    """A vendor behind another vibe-llms: its errors are reported as if it were called directly."""

    module = "vibe_llms.providers.gateway"
    name = "remote"
    model = "anthropic:claude-sonnet-4-6"
    answers_as = "anthropic"
    foresees_losses = False

    @contextlib.contextmanager
    def prepare(self, directory: Path) -> Iterator[World]:
        """Starts both, one behind the other."""
        with super().prepare(directory) as world:
            settings = {**world.settings, "api_key": "theirs"}
            far = RemoteGateway({"providers": {"anthropic": settings}})
            with far.run_in_thread():
                ours = {**world.settings, "base_url": far.url}
                yield attrs.evolve(world, settings=ours)


@pytest.mark.slow
class _Compatible(_Peer):
    """Row of the table of compatible services, in the dialect of TestOpenAIConversations."""

    module = "vibe_llms.providers.openai_compatible"
    path = "/v1"


class TestDeepSeek(_Compatible):
    """With reasoning that must be sent back."""

    turn = 3
    name = "deepseek"
    model = "deepseek-chat"
    simulate = "deepseek"


class TestGroq(_Compatible):
    """With its own format of usage."""

    turn = 4
    name = "groq"
    model = "llama-3.3-70b-versatile"
    simulate = "groq"


class TestMistral(_Compatible):
    """With content in chunks, and ids of nine letters."""

    turn = 5
    name = "mistral"
    model = "magistral-medium-latest"
    simulate = "mistral"


class TestOpenRouter(_Compatible):
    """With signed reasoning in details."""

    turn = 6
    name = "openrouter"
    model = "openai/gpt-5"
    simulate = "openrouter"


class TestXai(_Compatible):
    """With usage in every chunk."""

    turn = 7
    name = "xai"
    model = "grok-4"
    simulate = "xai"


class TestLlamaCpp(_Compatible):
    """The server of llama.cpp, by its quirks; other tests use the real one."""

    turn = 8
    name = "llamacpp"
    model = "any"
    simulate = "llama_cpp"
