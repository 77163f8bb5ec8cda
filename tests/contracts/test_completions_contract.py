"""The providers that speak Chat Completions keep the contract, each with its vendor's quirks."""

from __future__ import annotations

from vibe_llms.testing.contracts import SimulatedContract


class TestOpenAIConversations(SimulatedContract):
    """OpenAI's Chat Completions, which tell nothing of what was thought."""

    module = "vibe_llms.providers.openai_conversations"
    model = "gpt-4.1"
    path = "/v1"
    reasons = False


class TestVllm(SimulatedContract):
    """vLLM, with its reasoning."""

    module = "vibe_llms.providers.vllm"
    model = "qwen3"
    path = "/v1"
    simulate = "vllm"


class TestPerplexity(SimulatedContract):
    """Perplexity: no tools, and sources beside the message."""

    module = "vibe_llms.providers.perplexity"
    model = "sonar"
    simulate = "perplexity"
    reasons = False
    invokes = False


class TestDeepSeek(SimulatedContract):
    """DeepSeek, by data alone."""

    module = "vibe_llms.providers.openai_compatible"
    name = "deepseek"
    model = "deepseek-chat"
    simulate = "deepseek"


class TestGroq(SimulatedContract):
    """Groq, by data alone."""

    module = "vibe_llms.providers.openai_compatible"
    name = "groq"
    model = "openai/gpt-oss-20b"
    path = "/openai/v1"
    simulate = "groq"


class TestMistral(SimulatedContract):
    """Mistral, by data alone."""

    module = "vibe_llms.providers.openai_compatible"
    name = "mistral"
    model = "mistral-medium-latest"
    path = "/v1"
    simulate = "mistral"


class TestOpenRouter(SimulatedContract):
    """OpenRouter, by data alone."""

    module = "vibe_llms.providers.openai_compatible"
    name = "openrouter"
    model = "anthropic/claude-sonnet-5"
    path = "/api/v1"
    simulate = "openrouter"


class TestXai(SimulatedContract):
    """xAI, by data alone."""

    module = "vibe_llms.providers.openai_compatible"
    name = "xai"
    model = "grok-4"
    path = "/v1"
    simulate = "xai"


class TestLlamaCpp(SimulatedContract):
    """A llama.cpp server, by data alone."""

    module = "vibe_llms.providers.openai_compatible"
    name = "llamacpp"
    model = "any"
    path = "/v1"
    simulate = "llama_cpp"
