"""The provider, its client and its model, which plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from vibe_llms.dialects.processors import nativize_parts
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ProviderError, ProviderFault, UnknownNameError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.models.genera import Genus
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.conversing import ModelBase
from vibe_llms.providers.interfaces import GenusModel, ModelDescriptor, Translation
from vibe_llms.providers.scripted.decoder import ScriptedDecoder
from vibe_llms.providers.scripted.processors import PROCESSORS
from vibe_llms.providers.scripted.scripts import (
    Script,
    ScriptedResponse,
    read_script,
    survey_scripts,
)

Frame = Mapping[str, Any]


@define
class ScriptedProvider:
    """Makes clients that answer from scripts."""

    context: ProviderContext

    @property
    def name(self) -> str:
        """The name in the configuration."""
        return self.context.name

    def names_file(self, name: str) -> bool:
        """Return whether a model's name is the path of a file."""
        return name.endswith(".toml")

    def produce_client(self) -> ScriptedClient:
        """Make a client, which reads each script when its model is accessed."""
        return ScriptedClient(self)


@define
class ScriptedClient:
    """Client whose models are scripts."""

    provider: ScriptedProvider

    async def access_model(self, name: str = "") -> ScriptedModel:
        """Return the model that plays a script; by default the configured one, or ``echo``.

        Raises:
            UnknownNameError: There is no shipped script of this name.
            ConfigurationError: The script cannot be read, or is invalid.
        """
        context = self.provider.context
        name = name or str(context.settings.get("script", "echo"))
        if not name.endswith(".toml") and name not in survey_scripts():
            raise UnknownNameError(
                kind="script",
                name=name,
                known=survey_scripts(),
                remedy="Or name a TOML file by its path.",
            )
        return ScriptedModel(self._describe(name), read_script(name), context.limits)

    async def access(self, name: str, genus: Genus) -> GenusModel:
        """Return a script, or the only model of another genus. Raises UnknownNameError."""
        if genus is Genus.CONVERSER:
            return await self.access_model(name)
        from vibe_llms.providers.genera import refuse_genus
        from vibe_llms.providers.scripted.drawing import SquaresIllustrator
        from vibe_llms.providers.scripted.embedding import WordsEmbedder
        from vibe_llms.providers.scripted.speaking import NotesTranscriber, TonesSpeaker

        known: dict[Genus, tuple[str, Callable[[ModelDescriptor], Any]]] = {
            Genus.EMBEDDER: ("words", WordsEmbedder),
            Genus.ILLUSTRATOR: ("squares", SquaresIllustrator),
            Genus.SPEAKER: ("tones", TonesSpeaker),
            Genus.TRANSCRIBER: ("notes", NotesTranscriber),
        }
        if genus not in known:
            raise refuse_genus(self.provider.name, genus)
        own, produce = known[genus]
        if name not in ("", own):
            raise UnknownNameError(kind=f"scripted {genus}", name=name, known=(own,))
        model: GenusModel = produce(self._describe(own))
        return model

    async def survey_models(self, *, refresh: bool = False) -> Sequence[ModelDescriptor]:
        """List the shipped scripts."""
        integrator = self.provider.context.produce_attributes()
        return [
            ModelDescriptor(
                provider=self.provider.name, name=name, attributes=integrator.integrate(name)
            )
            for name in survey_scripts()
        ]

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _describe(self, name: str) -> ModelDescriptor:
        context = self.provider.context
        attributes = context.produce_attributes().integrate(Path(name).stem)
        return ModelDescriptor(provider=context.name, name=name, attributes=attributes)


class ScriptedModel(ModelBase[JsonObject]):
    """Plays a script."""

    protocol = "scripted"

    def __init__(
        self, descriptor: ModelDescriptor, script: Script, limits: Limits | None = None
    ) -> None:
        super().__init__(descriptor, PROCESSORS.tokenizer, limits)
        self._script = script

    def nativize(self, request: Request, *, streaming: bool) -> Translation[JsonObject]:
        """Check the controls and write all data. Raises ControlError."""
        request = attrs.evolve(request, controls=self.complete_controls(request))
        parts = nativize_parts(request, self.descriptor, PROCESSORS)
        losses = [*parts.losses]
        if request.schema is not None:
            reason = "Scripted answers ignore the schema."
            losses.append(Loss(kind=LossKind.DROPPED, path="schema", reason=reason))
        return Translation({**parts.messages, **parts.invocations, **parts.controls}, losses)

    async def send(
        self, native: JsonObject, request: Request, *, streaming: bool
    ) -> _ScriptedSource:
        """Choose the script's response to this request, and return its source."""
        user_canisters = [each for each in request.canisters if isinstance(each, UserCanister)]
        text = text_of(user_canisters[-1]) if user_canisters else ""
        answers = _count_answers(request)
        response = self._script.choose(text, answers)
        frames = list(_produce_frames(response, text))
        return _ScriptedSource(
            response, frames, ScriptedDecoder(self.descriptor.name), streaming=streaming
        )


def _produce_frames(response: ScriptedResponse, text: str) -> Iterator[Frame]:
    """Split the contents of a response into frames, and add usage and the stop."""
    for index, part in enumerate(response.parts):
        content = part.text.replace("{input}", text)
        extra = {}
        if part.kind == "invocation":
            extra = {"name": part.name, "id": part.identity or f"call-{index}"}
        for piece in response.cut(content):
            yield {"part": index, "kind": part.kind, "text": piece, **extra}
    if response.usage is not None:
        yield {"usage": attrs.asdict(response.usage)}
    invokes = any(part.kind == "invocation" for part in response.parts)
    usual_reason = StopReason.INVOCATION if invokes else StopReason.ANSWERED
    yield {"stop": str(response.stop_reason or usual_reason)}


def _count_answers(request: Request) -> int:
    """Count the turns of the model, including those with only invocations."""
    models = (AssistantCanister, InvocationCanister)
    return len({each.turn_id or each.id for each in request.canisters if isinstance(each, models)})


class _ScriptedSource:
    """An event source that plays the frames with their delays, and simulates a fault."""

    def __init__(
        self,
        response: ScriptedResponse,
        frames: Sequence[Frame],
        decoder: ScriptedDecoder,
        *,
        streaming: bool,
    ) -> None:
        self._response = response
        self._frames = frames
        self._decoder = decoder
        self._streaming = streaming
        self._position = 0

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the events of the next frame; of all frames without streaming."""
        if self._streaming:
            return await self._play_next()
        events: list[StreamEvent] = []
        while (batch := await self._play_next()) is not None:
            events.extend(batch)
        return events or None

    async def close(self) -> None:
        """Stop playing."""
        self._position = len(self._frames)

    async def _play_next(self) -> Sequence[StreamEvent] | None:
        if self._response.delay_seconds:
            await asyncio.sleep(self._response.delay_seconds)
        fault = self._response.fault
        frame: Frame | None = None
        if fault is not None and self._position == fault.at_chunk:
            if fault.kind == "cut":
                return None
            if fault.kind == "stall":
                await asyncio.get_running_loop().create_future()  # wait forever
            if fault.kind != "garbage":
                raise ProviderError(
                    provider="scripted",
                    fault=ProviderFault(fault.kind),
                    detail="the script requests this error.",
                    retry_after_seconds=fault.retry_after_seconds,
                )
            frame = {"garbage": True}
        elif self._position < len(self._frames):
            frame = self._frames[self._position]
        self._position += 1
        return None if frame is None else self._decoder.decode(frame)
