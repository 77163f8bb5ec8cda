"""The server of ``vllm``: its address, and how to start it."""

from __future__ import annotations

from typing import Any, Final

from vibe_llms.dialects.call_quirks import (
    CallQuirks,
    CompletionQuirks,
    EmbeddingQuirks,
    RankingQuirks,
    TranscriptionQuirks,
)
from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.optional_packages import advise_packages
from vibe_llms.providers.children import ChildSettings
from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.hosting import HostedVendor

STARTUP_SECONDS: Final = 900.0
"""Default startup time: weights are read, and perhaps downloaded, before the server is ready."""


_QUIRKS: Final = Quirks(
    fields={
        "repeat_penalty": "repetition_penalty",
        "reasoning_budget_tokens": "thinking_token_budget",
    },
    supervisor_roles=("system",),
    reasoning_field="reasoning",
    takes_custom=False,
    takes_broken=False,  # https://github.com/vllm-project/vllm/issues/43995
    takes_refusals=False,
    name_pattern=r"[\s\S]+",
    media=("image_url", "input_audio", "audio_url", "video_url"),
    maximum_stops=None,
)
"""vLLM's OpenAI-compatible server; its chat templates do not know the role ``developer``.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html, and the protocol notes.
"""


class VllmVendor(CompletionsVendor, HostedVendor):
    """A vLLM server; a key is sent if there is one."""

    base_url = "http://127.0.0.1:8000/v1"
    key_variables = ("VLLM_API_KEY",)
    needs_key = False
    server_command = "vllm serve MODEL"
    quirks = _QUIRKS

    @property
    def call_quirks(self) -> CallQuirks:
        """The quirks of a server that was started with an embedding or ranking model."""
        return CallQuirks(
            embeddings=EmbeddingQuirks(),
            rankings=RankingQuirks(),
            completions=CompletionQuirks(),
            # https://docs.vllm.ai/en/latest/serving/openai_compatible_server, 2026-11-29: a stream
            # has other events.
            transcriptions=TranscriptionQuirks(streams=False),
        )

    def compose_child(self) -> ChildSettings:
        """Return the settings of the child process, which serves the model in the settings.

        Raises:
            ConfigurationError: They do not name a model.
        """
        values: dict[str, Any] = dict(self.settings.values)
        if not self.settings.model and "arguments" not in values:
            place = f"providers.{self.context.name}.model"
            message = "To start the server, set the model that it serves."
            raise ConfigurationError.at(place, message)
        default = ("serve", self.settings.model, "--host", "127.0.0.1", "--port", "{port}")
        return ChildSettings(
            name=self.context.name,
            command=(values.get("command", "vllm"), *values.get("arguments", default)),
            health_path="/health",
            startup_seconds=float(values.get("startup_seconds", STARTUP_SECONDS)),
            log_path=self.context.cache_directory / "server.log",
            remedy=f"{advise_packages('vllm')}, or set command to its full path.",
        )
