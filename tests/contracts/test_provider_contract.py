"""Every provider keeps the contract: those that ship, and a stranger's."""

from __future__ import annotations

from vibe_llms.testing.contracts import ProviderContract, SimulatedContract


class TestScripted(ProviderContract):
    """The provider that plays scripts."""

    module = "vibe_llms.providers.scripted"
    model = "echo"
    invokes = False
    loses_nothing = True


class TestGoogle(SimulatedContract):
    """Gemini's own protocol."""

    module = "vibe_llms.providers.google"
    model = "gemini-3-flash"
    reports_overload_midstream = True


class TestOllama(SimulatedContract):
    """Ollama's own protocol."""

    module = "vibe_llms.providers.ollama"
    model = "llama3.2"


class TestOpenAIResponses(SimulatedContract):
    """OpenAI's Responses."""

    module = "vibe_llms.providers.openai_responses"
    model = "gpt-5"
    path = "/v1"
