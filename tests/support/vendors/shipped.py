"""The shipped remote providers, configured for a server of the tests."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import attrs

from support.vendors.remoting import produce_context
from vibe_llms.foundation.limits import Limits
from vibe_llms.plugins.specification.models import ANY_NAME
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.testing.contracts.worlds import World

PATIENCE: Final = {"connect_seconds": 5, "first_byte_seconds": 5, "between_chunks_seconds": 5}


SURVEYED: Final = b'{"version": 1, "models": []}'
"""An answer to a request for models, without any."""


def is_survey(line: str) -> bool:
    """Return whether a request is for facts about a model, which some providers send first."""
    return "/api/show" in line or "/converse/models" in line


@attrs.frozen(kw_only=True)
class ShippedProvider:
    """A shipped provider.

    Attributes:
        folder: Folder of its plugin.
        protocol: Protocol of its dialect.
        model: Name of any of its models.
        path: Path of its base URL, after the server's address.
        simulate: Quirks for the simulator.
        name: Name in the configuration; by default, the folder.
        framing: Content type of its streams.
    """

    folder: str
    protocol: str
    model: str = "any"
    path: str = ""
    simulate: str = ""
    name: str = ""
    framing: str = "text/event-stream"

    async def access(
        self, url: str, directory: Path, *, limits: Limits | None = None, **settings: Any
    ) -> ConverserModel:
        """Return a model that uses a server, without retries and with short timeouts."""
        name = self.name or self.folder
        module = importlib.import_module(f"vibe_llms.providers.{self.folder}")
        specifications = {each.name: each for each in module.survey_providers()}
        specification = specifications.get(name) or specifications[ANY_NAME]
        if "api_key_file" not in settings:
            settings.setdefault("api_key", "key-of-a-user")
        context = produce_context(
            name,
            directory,
            limits=limits or Limits(attempts=1),
            **{"base_url": url + self.path, **PATIENCE, **settings},
        )
        client = specification.factory(context).produce_client()
        model: ConverserModel = await client.access_model(self.model)
        return model

    def configure(self, url: str, directory: Path, **settings: Any) -> World:
        """Return a world in which it uses a server, with short timeouts."""
        return World(
            module=f"vibe_llms.providers.{self.folder}",
            name=self.name or self.folder,
            model_name=self.model,
            settings={
                "base_url": url + self.path,
                **PATIENCE,
                **settings,
            },
            directory=directory / (self.name or self.folder),
        )


def _complete(name: str, path: str, simulate: str = "") -> ShippedProvider:
    return ShippedProvider(
        folder="openai_compatible",
        protocol="chat_completions",
        name=name,
        path=path,
        simulate=simulate or name,
    )


_ALL: Final = {
    "anthropic": ShippedProvider(folder="anthropic", protocol="messages", model="claude-sonnet-5"),
    "bedrock": ShippedProvider(
        folder="bedrock",
        protocol="bedrock",
        model="global.anthropic.claude-sonnet-5",
        framing="application/vnd.amazon.eventstream",
    ),
    "google": ShippedProvider(folder="google", protocol="generate_content", model="gemini-3-flash"),
    "ollama": ShippedProvider(
        folder="ollama",
        protocol="ollama_chat",
        model="llama3.2",
        framing="application/x-ndjson",
    ),
    "openai_conversations": ShippedProvider(
        folder="openai_conversations", protocol="chat_completions", model="gpt-4.1", path="/v1"
    ),
    "openai_responses": ShippedProvider(
        folder="openai_responses", protocol="responses", model="gpt-5", path="/v1"
    ),
    "cohere": ShippedProvider(
        folder="cohere", protocol="chat_completions", model="command-a-03-2025"
    ),
    "perplexity": _complete("perplexity", "", "perplexity"),
    "vllm": ShippedProvider(
        folder="vllm", protocol="chat_completions", path="/v1", simulate="vllm"
    ),
    "deepseek": _complete("deepseek", ""),
    "groq": _complete("groq", "/openai/v1"),
    "llamacpp": _complete("llamacpp", "/v1", "llama_cpp"),
    "mistral": _complete("mistral", "/v1"),
    "openrouter": _complete("openrouter", "/api/v1"),
    "remote": ShippedProvider(
        folder="gateway", protocol="converse", name="remote", model="anthropic:claude-sonnet-5"
    ),
    "xai": _complete("xai", "/v1"),
}

SHIPPED: Final = {
    name: each for name, each in _ALL.items() if find_spec(f"vibe_llms.providers.{each.folder}")
}
"""Providers by their names in the configuration; a vendor's folder can be deleted."""
