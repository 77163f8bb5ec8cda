"""What vendors of Chat Completions share: a few lines in their rooms choose the rest from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.dialects.chat_completions.controls import nativize_controls, normalize_controls
from vibe_llms.dialects.chat_completions.decoder import Decoder
from vibe_llms.dialects.chat_completions.errors import produce_error
from vibe_llms.dialects.chat_completions.invocations import (
    nativize_invocables,
    normalize_invocables,
)
from vibe_llms.dialects.chat_completions.messages import nativize_canisters
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.chat_completions.reading import normalize_messages
from vibe_llms.dialects.chat_completions.requests import nativize_request
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.models.counting import estimate_request
from vibe_llms.models.tokens import TokenCount, count_text
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.providers.interfaces import ModelDescriptor, Translation
from vibe_llms.providers.remote import RemoteClient, Vendor
from vibe_llms.secrets import Secret

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel


@attrs.frozen
class CompletionsControls:
    """Controls of a vendor with these quirks."""

    quirks: Quirks

    def nativize(
        self, controls: Mapping[str, JsonValue], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns the parameters. Raises ControlError."""
        return nativize_controls(controls, model.attributes, self.quirks)

    def normalize(
        self, parameters: JsonObject, model: ModelDescriptor
    ) -> Translation[Mapping[str, JsonValue]]:
        """Returns the control values that the model knows."""
        return normalize_controls(parameters, model.attributes)


@attrs.frozen
class CompletionsMessages:
    """Messages of a vendor with these quirks."""

    quirks: Quirks

    def nativize(
        self, canisters: Sequence[AnyCanister], model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``{"messages": […]}``. Raises RequestError."""
        return nativize_canisters(canisters, model.attributes, self.quirks, provider=model.provider)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Returns the canisters. Raises RequestError."""
        return normalize_messages(native)


@attrs.frozen
class CompletionsInvocations:
    """Invocables of a vendor with these quirks."""

    quirks: Quirks

    def nativize(
        self, invocables: Sequence[InvocableDescription], choice: str, model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``tools`` and ``tool_choice``."""
        return nativize_invocables(invocables, choice, self.quirks, provider=model.provider)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Returns the descriptions and the choice."""
        return normalize_invocables(native)


class CompletionsTokenizer:
    """Counts here: exactly where the model's encoding is public, else with a bound of the error."""

    async def count_text(self, text: str, model: ModelDescriptor) -> TokenCount:
        """Counts the tokens of a text by itself."""
        return count_text(text, model.attributes)

    async def count_request(self, request: Request, model: ModelDescriptor) -> TokenCount:
        """Estimates what a request would occupy as input, overhead included."""
        return estimate_request(request, model.attributes)


class CompletionsVendor(Vendor):
    """A service that speaks Chat Completions.

    Attributes:
        quirks: What it does differently.
    """

    protocol = PROTOCOL
    quirks: Quirks = Quirks()

    def nativize(
        self, request: Request, model: ModelDescriptor, *, streaming: bool
    ) -> Translation[JsonObject]:
        """Returns the body of the request. Raises RequestError."""
        return nativize_request(
            request, model.attributes, self.quirks, provider=model.provider, streaming=streaming
        )

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Returns the path behind the base URL, which ends in the version."""
        return "/chat/completions"

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Returns the key, where there is one."""
        return {} if key is None else {"authorization": Secret(f"Bearer {key.reveal()}")}

    def produce_decoder(self, model: ModelDescriptor, request: Request) -> Decoder:
        """Makes the decoder of one response."""
        return Decoder(provider=model.provider, model=model.name)

    def produce_error(
        self, body: JsonObject | str, model: str, *, status: int, headers: Mapping[str, str]
    ) -> ConverseError:
        """Says what an answer with the status of an error means."""
        return produce_error(
            body, provider=self.context.name, model=model, status=status, headers=headers
        )

    def produce_tokenizer(self, client: RemoteClient) -> CompletionsTokenizer:
        """Makes what counts tokens."""
        return CompletionsTokenizer()

    async def survey(self, client: RemoteClient) -> Sequence[SurveyedModel]:
        """Asks for the models. Raises ConverseError."""
        answer: Any = await client.request_json("GET", "/models")
        listed = answer.get("data") if isinstance(answer, Mapping) else answer
        entries = listed if isinstance(listed, list) else ()
        models = [entry for entry in entries if isinstance(entry, Mapping) and entry.get("id")]
        return [read_model(entry) for entry in models]


def read_model(entry: Mapping[str, Any]) -> SurveyedModel:
    """Returns what a list of models says of one; hosts differ in what that is.

    The window is ``max_model_len`` at vLLM, ``context_window`` at Groq, ``context_length`` at
    OpenRouter, ``max_context_length`` at Mistral.
    """
    from vibe_llms.providers.surveys import SurveyedModel

    names = ("max_model_len", "context_window", "context_length", "max_context_length")
    meta = entry.get("meta")
    window = next((entry[name] for name in names if _is_count(entry.get(name))), None)
    if window is None and isinstance(meta, Mapping) and _is_count(meta.get("n_ctx")):
        window = meta["n_ctx"]  # llama.cpp
    limit = entry.get("max_completion_tokens")
    title = entry.get("name")
    return SurveyedModel(
        name=str(entry["id"]),
        title=title if isinstance(title, str) and title != entry["id"] else None,
        context_window_tokens=window,
        output_limit_tokens=limit if _is_count(limit) else None,
        capabilities=_read_capabilities(entry),
    )


def _read_capabilities(entry: Mapping[str, Any]) -> dict[str, str]:
    """Returns what OpenRouter and Mistral say that a model can do."""
    capabilities = {}
    architecture = entry.get("architecture")
    if isinstance(architecture, Mapping) and isinstance(architecture.get("input_modalities"), list):
        taken = architecture["input_modalities"]
        words = {"images": "image", "files": "file", "audio": "audio", "video": "video"}
        capabilities = {
            f"supports_{name}": "yes" if word in taken else "no" for name, word in words.items()
        }
    told = entry.get("capabilities")
    if isinstance(told, Mapping):
        named = {"vision": "supports_images", "function_calling": "supports_invocations"}
        capabilities |= {
            name: "yes" if told[word] else "no" for word, name in named.items() if word in told
        }
    return capabilities


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
