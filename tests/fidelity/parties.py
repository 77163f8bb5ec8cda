"""The vendors that a conversation is walked through, each as its dialect and its habits.

The rooms of the providers stay out of it: a vendor's folder may go, and the dialects remain.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Final

import attrs

from vibe_llms.dialects import (
    bedrock,
    chat_completions,
    generate_content,
    interactions,
    messages,
    ollama_chat,
    responses,
)
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.definitions import produce_control
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.keys import KEYS, KeyRole
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.lowering import find_lowered, lower

BEGIN: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)


@attrs.frozen(kw_only=True)
class Party:
    """A vendor, by the protocol that it speaks.

    Attributes:
        name: As a provider is called in the configuration.
        title: As it is called in the documentation.
        dialect: The package of its protocol.
        model: The name of a model that reasons, sees, hears and invokes.
        habits: Its quirks, where they are not the dialect's own.
    """

    name: str
    title: str
    dialect: ModuleType
    model: str
    habits: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def protocol(self) -> str:
        """The stable word of its protocol."""
        return str(self.dialect.PROTOCOL)

    @functools.cached_property
    def quirks(self) -> Any:
        """What it does differently."""
        return self.dialect.Quirks(**self.habits)

    @functools.cached_property
    def attributes(self) -> ModelAttributes:
        """Of its model, which has all controls; what it can do is not known, so that all goes."""
        attributes = ModelsIntegrator(provider=self.name).integrate(self.model)
        address, controls = (
            attributes.address,
            tuple(
                produce_control(key.name, key.definition)
                for key in KEYS
                if key.role is KeyRole.CONTROL
            ),
        )
        traced = tuple(each for each in attributes.traced_values if each.key in _KNOWN)
        return attrs.evolve(attributes, address=address, controls=controls, traced_values=traced)

    def nativize(self, request: Request) -> Translation[JsonObject]:
        """Returns the body that this vendor is sent."""
        nativize: Callable[..., Translation[JsonObject]] = self.dialect.nativize_request
        lowered = lower(request, find_lowered(request, self.protocol, self.quirks))
        written = nativize(lowered.value, self.attributes, self.quirks, provider=self.name)
        return Translation(written.value, (*lowered.losses, *written.losses))

    def read(self, body: Mapping[str, Any]) -> Request:
        """Returns the request that a body is, as the vendor's own server would see it."""
        request: Request = self.dialect.normalize_request(body, self.attributes).value
        return request

    def answer(self, body: Mapping[str, Any], turn: str) -> tuple[AnyCanister, ...]:
        """Returns the canisters of an answer.

        Args:
            turn: What the ids of the canisters begin with, so that they are always the same.
        """
        numbers = itertools.count()
        assembler = Assembler(
            provider=self.name,
            model=self.model,
            protocol=self.protocol,
            produce_id=lambda: f"{turn}-{next(numbers)}",
            now=lambda: BEGIN,
        )
        for event in self.dialect.Decoder(provider=self.name, model=self.model).decode_response(
            body
        ):
            assembler.feed(event)
        return assembler.produce_canisters()


_KNOWN: Final = ("output_limit_tokens",)

PARTIES: Final[Sequence[Party]] = (
    Party(name="anthropic", title="Anthropic", dialect=messages, model="claude-opus-5"),
    Party(
        name="openai_responses",
        title="OpenAI Responses",
        dialect=responses,
        model="gpt-5.5",
        habits={"siblings": (("openai", "chat_completions"),)},
    ),
    Party(
        name="openai",
        title="OpenAI Chat",
        dialect=chat_completions,
        model="gpt-5.5",
        habits={"siblings": (("openai_responses", "responses"),)},
    ),
    Party(
        name="deepseek",
        title="DeepSeek",
        dialect=chat_completions,
        model="deepseek-reasoner",
        habits={
            "fields": {"max_tokens": "max_tokens"},
            "supervisor_roles": ("system",),
            "reasoning_field": "reasoning_content",
            "needs_reasoning": True,
            "takes_parts": False,
            "takes_refusals": False,
            "takes_custom": False,
            "media": (),
            "schema_form": "json_object",
        },
    ),
    Party(
        name="openrouter",
        title="OpenRouter",
        dialect=chat_completions,
        model="open/model",
        habits={
            "reasoning_field": "reasoning",
            "file_part": "file",
            "takes_refusals": False,
            "takes_custom": False,
            "media": ("image_url", "input_audio", "file", "video_url"),
        },
    ),
    Party(name="google", title="Gemini", dialect=generate_content, model="gemini-3-pro"),
    Party(
        name="google_interactions",
        title="Gemini Interactions",
        dialect=interactions,
        model="gemini-3-pro",
        habits={"siblings": (("google", "generate_content"),)},
    ),
    Party(
        name="bedrock",
        title="Bedrock",
        dialect=bedrock,
        model="global.anthropic.claude-opus-5",
    ),
    Party(name="ollama", title="Ollama", dialect=ollama_chat, model="qwen3"),
)
"""Two of one protocol are two vendors: what one has signed is nothing to the other."""

BY_NAME: Final = {party.name: party for party in PARTIES}
