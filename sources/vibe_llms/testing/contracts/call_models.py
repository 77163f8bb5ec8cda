"""Contract of models that answer calls: embedders, illustrators, speakers and so on.

Inherit it, name the plugin and a request, and run it with pytest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import attrs

from vibe_llms.exceptions import TranslationLossError
from vibe_llms.messages.canisters import Origin
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.transcripts import InterimText, LiveTranscriptionRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.interfaces import CallModel, GenusClient
from vibe_llms.testing.contracts.live_inputs import LiveInput
from vibe_llms.testing.contracts.many_texts import (
    check_order_of_scores,
    check_order_of_vectors,
    check_width,
)
from vibe_llms.testing.contracts.promises import BrokenPromise, describe, require
from vibe_llms.testing.contracts.worlds import find_provider, load_manager


class CallModelContract:
    """Contract of every model of another genus than converser.

    Attributes:
        module: The plugin's module.
        name: The provider's name, if the plugin has several.
        genus: The genus of the model, such as ``Genus.EMBEDDER``.
        model: The model's name; by default the provider's default model of the genus.
        request: A request that the model answers, such as an ``EmbeddingRequest``.
        lossy_request: A request that the model answers with losses; ``None`` if there is none.
        live_request: A request whose input is still arriving, such as a
            ``LiveTranscriptionRequest``; ``None`` if the model takes only complete input.
        live_pieces: At least two pieces of input for it; the model answers before the last one.
        reports_usage: Whether the vendor reports the usage of a call.
        settings: The provider's table in the configuration.
    """

    module: ClassVar[str]
    name: ClassVar[str] = ""
    genus: ClassVar[Genus]
    model: ClassVar[str] = ""
    request: ClassVar[Any]
    lossy_request: ClassVar[Any] = None
    live_request: ClassVar[Any] = None
    live_pieces: ClassVar[Sequence[bytes | str]] = ()
    reports_usage: ClassVar[bool] = True
    settings: ClassVar[Mapping[str, Any]] = {}

    def produce_client(self, directory: Path) -> GenusClient:
        """Make the client under test; override this if a client needs more than settings.

        Args:
            directory: An empty directory for its data.
        """
        name = self.name or find_provider(self.module)
        manager = load_manager(self.module, name, self.settings, directory)
        return cast(GenusClient, manager.load_provider(name).produce_client())

    def test_the_model_describes_itself(self, tmp_path: Path) -> None:
        """Its name and bounds are known before the first call."""

        async def check(model: CallModel[Any, Any]) -> None:
            name = model.descriptor.name
            require(name, "The descriptor has no name.", "Set the name that users give.")
            for bound in ("max_inputs", "max_bytes"):
                value = getattr(model, bound, None)
                is_count = isinstance(value, int) and value > 0
                require(is_count, f"{bound} is {value!r}.", "Set it to a positive integer.")

        self._run(tmp_path, check)

    def test_a_call_returns_a_result_with_its_origin(self, tmp_path: Path) -> None:
        """Callers read origin, usage and losses of any result."""

        async def check(model: CallModel[Any, Any]) -> None:
            result = await model.call(self.request)
            origin, losses = result.origin, result.losses
            require(isinstance(origin, Origin), "The origin is missing.", "Set an Origin.")
            provider = model.descriptor.provider
            require(
                origin.provider == provider,
                f"The origin names {origin.provider!r}, not {provider!r}.",
                "Take the provider from the descriptor.",
            )
            is_right = isinstance(losses, tuple) and all(isinstance(each, Loss) for each in losses)
            require(is_right, f"The losses are {losses!r}.", "Return a tuple of Loss.")
            usage = result.usage
            require(usage == origin.usage, "usage is not that of the origin.", "Return it.")
            remedy = "Read it from the answer, or set reports_usage = False in the test."
            require(usage or not self.reports_usage, "The usage is missing.", remedy)

        self._run(tmp_path, check)

    def test_many_texts_have_results_in_their_order(self, tmp_path: Path) -> None:
        """An embedder or a ranker takes max_inputs texts at once, and mixes up none."""

        async def check(model: CallModel[Any, Any]) -> None:
            if self.genus is Genus.EMBEDDER:
                await check_order_of_vectors(model, self.request)
            elif self.genus is Genus.RANKER:
                await check_order_of_scores(model, self.request)

        self._run(tmp_path, check)

    def test_vectors_have_the_requested_length(self, tmp_path: Path) -> None:
        """An embedder returns vectors of this length, or reports a loss."""

        async def check(model: CallModel[Any, Any]) -> None:
            for request in filter(None, (self.request, self.lossy_request)):
                if self.genus is Genus.EMBEDDER and request.dimensions is not None:
                    check_width(await model.call(request), request)

        self._run(tmp_path, check)

    def test_several_calls_at_once_have_their_own_results(self, tmp_path: Path) -> None:
        """Many texts are split into several calls, which are made at once."""

        async def check(model: CallModel[Any, Any]) -> None:
            results = await asyncio.gather(*(model.call(self.request) for _ in range(8)))
            kinds = {type(result) for result in results}
            require(len(kinds) == 1, f"The results differ: {kinds}.", "Keep no state of a call.")

        self._run(tmp_path, check)

    def test_a_strict_call_with_losses_is_refused(self, tmp_path: Path) -> None:
        """Nothing is lost without the consent of the caller."""
        if self.lossy_request is None:
            return

        async def check(model: CallModel[Any, Any]) -> None:
            result = await model.call(self.lossy_request)
            remedy = "Report in losses what the model cannot do."
            require(result.losses, "A lossy request has no losses.", remedy)
            strict = attrs.evolve(self.lossy_request, strict=True)
            try:
                await model.call(strict)
            except TranslationLossError:
                return
            raise BrokenPromise(
                "A strict request with losses is answered. Call refuse_losses(losses) first."
            )

        self._run(tmp_path, check)

    def test_a_stream_has_the_same_result(self, tmp_path: Path) -> None:
        """The pieces come before the result, which is complete."""

        async def check(model: Any) -> None:
            if not hasattr(model, "stream"):
                return
            async with model.stream(self.request) as stream:
                pieces = [piece async for piece in stream]
                result = await stream.result()
            whole = await model.call(self.request)
            # Only speeches and transcripts have pieces.
            is_complete = bool(pieces) or not hasattr(whole, "pieces")
            remedy = "Yield bytes or texts before the result."
            require(is_complete, "The stream has no pieces.", remedy)
            is_same = type(result) is type(whole)
            require(is_same, f"The stream ends with {result!r}.", "Yield the result last.")

        self._run(tmp_path, check)

    def test_a_stream_may_be_left_early(self, tmp_path: Path) -> None:
        """The model answers again afterwards."""

        async def check(model: Any) -> None:
            if not hasattr(model, "stream"):
                return
            async with model.stream(self.request) as stream:
                async for _ in stream:
                    break
            await model.call(self.request)

        self._run(tmp_path, check)

    def test_live_input_is_answered_as_it_arrives(self, tmp_path: Path) -> None:
        """Users read the first words while they speak."""
        if self.live_request is None:
            return

        async def check(model: Any) -> None:
            source = LiveInput(self.live_pieces)
            async with model.stream_live(self.live_request, source) as stream:
                await source.await_answer(anext(stream))
                source.finish()
                rest = [piece async for piece in stream]
                result = await stream.result()
            require(source.is_read, "The end of the input was not read.", "Read all pieces.")
            require(rest or result, "The stream has no result.", "Yield the result last.")

        self._run(tmp_path, check)

    def test_text_that_may_change_is_marked(self, tmp_path: Path) -> None:
        """A caller that asks for such texts can tell them from final ones."""
        if not isinstance(self.live_request, LiveTranscriptionRequest):
            return

        async def check(model: Any) -> None:
            source = LiveInput(self.live_pieces)
            source.finish()
            request = attrs.evolve(self.live_request, interim=True)
            async with model.stream_live(request, source) as stream:
                pieces = [piece async for piece in stream]
                transcript = await stream.result()
            final = "".join(piece for piece in pieces if isinstance(piece, str)).strip()
            remedy = "Yield text that may change as an InterimText."
            require(final == transcript.text.strip(), f"The texts are {final!r}.", remedy)
            is_marked = any(isinstance(piece, InterimText) for piece in pieces)
            is_told = any(loss.path == "interim" for loss in transcript.losses)
            remedy = "Yield each InterimText, or report the loss of `interim`."
            require(is_marked or is_told, "All texts are final, without a loss.", remedy)

        self._run(tmp_path, check)

    def test_leaving_a_live_call_stops_its_input(self, tmp_path: Path) -> None:
        """A microphone must not stay on."""
        if self.live_request is None:
            return

        async def check(model: Any) -> None:
            source = LiveInput(self.live_pieces)
            async with model.stream_live(self.live_request, source) as stream:
                await source.await_answer(anext(stream))
            for _ in range(10):  # the event loop finalizes an abandoned iterator
                await asyncio.sleep(0)
            remedy = "Cancel the task that reads it when the stream is closed."
            require(source.is_closed, "The input is still read after the stream.", remedy)

        self._run(tmp_path, check)

    def test_a_closed_client_may_be_closed_again(self, tmp_path: Path) -> None:
        """Several owners may close it."""

        async def check() -> None:
            client = self.produce_client(tmp_path)
            await client.close()
            await client.close()

        asyncio.run(check())

    def _run(self, directory: Path, check: Callable[[Any], Awaitable[None]]) -> None:
        async def run() -> None:
            client = self.produce_client(directory)
            try:
                model = await client.access(self.model, self.genus)
                await check(model)
            except (BrokenPromise, AssertionError):
                raise
            except Exception as error:
                raise BrokenPromise(f"The model raises {describe(error)}.") from error
            finally:
                await client.close()

        asyncio.run(run())
