"""The provider ``ollama``: its server's address, requests and models."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from vibe_llms.dialects import ollama_chat
from vibe_llms.dialects.ollama_chat.calling.decoder import Decoder
from vibe_llms.dialects.ollama_chat.quirks import Quirks
from vibe_llms.events.stream import LossEvent, UsageEvent
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    ProviderError,
    Stage,
)
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.counting import count_canisters, estimate_overhead
from vibe_llms.models.genera import Genus
from vibe_llms.models.tokens import TokenCount
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.children import ChildSettings
from vibe_llms.providers.hosting import HostedVendor, HostingClient, HostingProvider
from vibe_llms.providers.interfaces import ModelDescriptor, Processors, Translation
from vibe_llms.providers.ollama.learning import learn, read_tags
from vibe_llms.providers.ollama.pulling import is_missing, pull
from vibe_llms.providers.ollama.windows import choose_window, count_minimum
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.providers.settings import RemoteSettings, strip_version
from vibe_llms.providers.vendors import VendorClient

if TYPE_CHECKING:
    from vibe_llms.dialects.call_quirks import CompletionQuirks
    from vibe_llms.dialects.calls import CallFormat
    from vibe_llms.providers.surveys import SurveyedModel

DEFAULT_PORT: Final = 11434
_PORTS: Final = {"http": 80, "https": 443}


def read_host(text: str) -> str:
    """Return the base URL for a value of ``OLLAMA_HOST``, as the server reads it.

    Raises:
        ConfigurationError: The value is invalid.
    """
    scheme, colon, rest = text.strip().strip("\"'").strip().rpartition("://")
    scheme = scheme if colon else "http"
    # With a scheme, the default port is the port of HTTP or HTTPS; without a scheme, Ollama's port.
    default = _PORTS.get(scheme, DEFAULT_PORT) if colon else DEFAULT_PORT
    address, slash, path = rest.partition("/")
    host, port = _split_port(address, default)
    # Addresses that mean all interfaces to a server; a client must use loopback instead.
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if scheme not in _PORTS or not 0 <= port <= 65_535:
        message = f"{text!r} is not an address; write host, host:port, or https://host:port."
        raise ConfigurationError.at("OLLAMA_HOST", message)
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}:{port}{slash}{path}".rstrip("/")


def _split_port(address: str, default: int) -> tuple[str, int]:
    """Split a host and its port; an IPv6 address may be in brackets or not."""
    if address.count(":") > 1 and not address.startswith("["):
        return address, default
    bracketed, closing, rest = address.rpartition("]")
    host, colon, port = (rest if closing else address).rpartition(":")
    if not colon:
        host, port = rest if closing else address, ""
    host = bracketed.removeprefix("[") if closing else host
    if not port:
        return host, default
    return host, int(port) if port.isascii() and port.isdigit() else -1


class OllamaDecoder(Decoder):
    """Decoder that detects a truncated request by the number of tokens that the server read.

    Args:
        min_tokens: Lower bound of the request's tokens. If the server read fewer, it has
            truncated the request.
    """

    def __init__(self, *, provider: str, model: str, min_tokens: int) -> None:
        super().__init__(provider=provider, model=model)
        self._min_tokens = min_tokens

    def _read_ending(self, data: Mapping[str, Any]) -> None:
        super()._read_ending(data)
        last = self._events[-1] if self._events else None
        read = last.usage.input_tokens if isinstance(last, UsageEvent) else None
        if read is None or read >= self._min_tokens:
            return
        reason = (
            f"the server read {read} tokens of at least {self._min_tokens}: it left out the "
            "beginning silently (or did not count tokens in its cache)"
        )
        loss = Loss(kind=LossKind.DROPPED, path="canisters", reason=reason)
        self._events.append(LossEvent(loss=loss))


class _EstimatedConversation(NamedTuple):
    """The estimate of a conversation, to which later turns are added."""

    canisters: tuple[AnyCanister, ...]
    attributes: ModelAttributes
    tokens: TokenCount

    def precedes(self, canisters: tuple[AnyCanister, ...], attributes: ModelAttributes) -> bool:
        """Return whether a conversation begins with this one."""
        is_shorter = len(self.canisters) <= len(canisters)
        is_same = is_shorter and all(map(operator.is_, self.canisters, canisters))
        return is_same and self.attributes == attributes


class _EstimatedOverhead(NamedTuple):
    """The estimate of everything except the conversation, and the values that it depends on."""

    invocables: tuple[InvocableDescription, ...]
    schema: JsonObject | None
    attributes: ModelAttributes
    tokens: TokenCount


class OllamaVendor(HostedVendor):
    """Quirks and requests of Ollama."""

    dialect = ollama_chat
    quirks = Quirks()
    base_url = f"http://127.0.0.1:{DEFAULT_PORT}"
    versions = ("v1", "api")  # of OpenAI's protocol, and of Ollama's native one
    key_variables = ("OLLAMA_API_KEY",)
    needs_key = False
    server_command = "ollama serve"
    framing = "ndjson"

    def __init__(self, context: ProviderContext) -> None:
        super().__init__(context)
        self._conversation: _EstimatedConversation | None = None
        self._overhead: _EstimatedOverhead | None = None

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings; without an address in them, OLLAMA_HOST applies."""
        settings = super().read_settings()
        host = os.environ.get("OLLAMA_HOST", "")
        if "base_url" in settings.values or not host.strip():
            return settings
        return attrs.evolve(settings, base_url=strip_version(read_host(host), self.versions))

    def compose_child(self) -> ChildSettings:
        """Return the settings of the child process, which gets a free port."""
        values = self.settings.values
        return ChildSettings(
            name=self.context.name,
            command=(values.get("command", "ollama"), *values.get("arguments", ("serve",))),
            environment={"OLLAMA_HOST": "127.0.0.1:{port}"},
            health_path="/api/version",
            startup_seconds=float(values.get("startup_seconds", 60)),
            log_path=self.context.cache_directory / "server.log",
            remedy="Install it from https://ollama.com/download, or set command to its full path.",
        )

    def nativize(
        self, request: Request, model: ModelDescriptor, processors: Processors, *, streaming: bool
    ) -> Translation[JsonObject]:
        """Return the body, with a window that is large enough. Raises RequestError."""
        translation = super().nativize(request, model, processors, streaming=streaming)
        options: Any = translation.value.get("options") or {}
        estimate = self._estimate(request, model.attributes)
        window = choose_window(request, model.attributes, options, estimate)
        body = {
            **translation.value,
            "options": {**options, "num_ctx": window},
            # With these, newer servers reject the request or stop the answer instead of truncating
            # silently.
            "truncate": translation.value.get("truncate", False),
            "shift": translation.value.get("shift", False),
        }
        return Translation(body, translation.losses)

    def _estimate(self, request: Request, attributes: ModelAttributes) -> TokenCount:
        """Estimate the tokens of a request; estimate the same turns and tools only once."""
        overhead = self._estimate_overhead(request, attributes)
        return overhead + self._estimate_conversation(request.canisters, attributes)

    def _estimate_conversation(
        self, canisters: tuple[AnyCanister, ...], attributes: ModelAttributes
    ) -> TokenCount:
        known, start, tokens = self._conversation, 0, TokenCount(tokens=0)
        if known is not None and known.precedes(canisters, attributes):
            start, tokens = len(known.canisters), known.tokens
        if start < len(canisters):
            tokens += count_canisters(canisters[start:], attributes)
            self._conversation = _EstimatedConversation(canisters, attributes, tokens)
        return tokens

    def _estimate_overhead(self, request: Request, attributes: ModelAttributes) -> TokenCount:
        if not request.invocables:
            return estimate_overhead(request, attributes)
        cached = self._overhead
        if (
            cached is None
            or (cached.schema, cached.attributes) != (request.schema, attributes)
            or len(cached.invocables) != len(request.invocables)
            or not all(map(operator.is_, cached.invocables, request.invocables))
        ):
            tokens = estimate_overhead(request, attributes)
            cached = _EstimatedOverhead(request.invocables, request.schema, attributes, tokens)
            self._overhead = cached
        return cached.tokens

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path of the chat interface."""
        return "/api/chat"

    def produce_decoder(self, model: ModelDescriptor, request: Request) -> OllamaDecoder:
        """Make the decoder of one response."""
        min_tokens = count_minimum(self._estimate(request, model.attributes))
        return OllamaDecoder(provider=model.provider, model=model.name, min_tokens=min_tokens)

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the format of ``/api/embed``."""
        if genus is not Genus.EMBEDDER:
            return None
        from vibe_llms.dialects.embeddings.ollama import CALL_FORMAT

        return CALL_FORMAT

    def find_completions(self, model: ModelDescriptor) -> CompletionQuirks | None:
        """Return the quirks of the server's completions.

        https://docs.ollama.com/api/openai-compatibility, read 2026-11-29.
        """
        from vibe_llms.dialects.call_quirks import CompletionQuirks

        lacks = ("best_of", "echo", "logit_bias", "n")
        return CompletionQuirks(path="/v1/completions", lacks=lacks, takes_lists=False)

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the server's models. Raises ConverseError."""
        return read_tags(await client.request_json("GET", "/api/tags"))


class OllamaClient(HostingClient):
    """Connections to one server; the data about a model are requested once."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._facts: dict[str, JsonObject] = {}

    async def access_model(self, name: str = "") -> RemoteModel:
        """Return a model; if the server lacks it and the user agrees, download the model.

        Raises:
            UnknownNameError: The server does not have the model, and the user does not agree; or
                the name is empty, and there is no default model.
            TransportError: The server is unreachable.
        """
        descriptor = self.describe(name or await self.choose_model())
        facts = await self._acquire_facts(descriptor.name)
        attributes = self._integrator.integrate(
            descriptor.name, facts=facts, facts_source="the server's description of the model"
        )
        return RemoteModel(attrs.evolve(descriptor, attributes=attributes), self)

    async def _acquire_facts(self, model: str) -> JsonObject:
        """Return the server's data about a model, or minimal data if the server has none."""
        if model not in self._facts:
            try:
                answer = await self.request_json("POST", "/api/show", {"model": model})
            except ConverseError as error:
                if not is_missing(error):
                    if isinstance(error, ProviderError) or error.stage is Stage.DECODE:
                        # If it matters, the request itself will report the error.
                        return learn(None)
                    raise
                await pull(self, model)
                answer = await self.request_json("POST", "/api/show", {"model": model})
            self._facts[model] = learn(answer)
        return self._facts[model]


class OllamaProvider(HostingProvider):
    """Makes clients of an Ollama server."""

    client_class = OllamaClient
