"""A model with a small window that summarizes as told, and records every request."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ContextOverflowError
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.models.counting import estimate_request
from vibe_llms.providers.scripted import client
from vibe_llms.providers.scripted.client import ScriptedModel
from vibe_llms.providers.scripted.scripts import Part

WINDOW = 2000


def load_small(directory: Path, *, window: str = "summarize", tokens: int = WINDOW) -> Application:
    """Return an application whose model ``scripted:echo`` has a small window."""
    file = directory / "config.toml"
    file.write_text(
        f"""
        model = "scripted:echo"
        window = "{window}"
        [[models]]
        pattern = "echo"
        context_window_tokens = {tokens}
        """
    )
    environment = {"HOME": str(directory), "VIBE_LLMS_CONFIG": str(file)}
    return Application(load_configuration(environment=environment, working_directory=directory))


def is_summarizing(request: Request) -> bool:
    """Return whether a request asks for a summary."""
    return "Summarize the beginning" in text_of(request.canisters[0])


@attrs.define
class Player:
    """Answers each request by a function, as a model that reports its usage.

    Attributes:
        answer: Returns the answer to a request.
        requests: All requests, in order.
        sizes: Their tokens.
    """

    answer: Callable[[Request], str]
    requests: list[Request] = attrs.field(factory=list)
    sizes: list[int] = attrs.field(factory=list)

    @property
    def summarizing(self) -> list[Request]:
        """The requests for summaries."""
        return list(filter(is_summarizing, self.requests))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let ``scripted:echo`` answer like this."""
        player = self

        async def send(
            model: ScriptedModel, native: object, request: Request, *, streaming: bool
        ) -> object:
            attributes = model.descriptor.attributes
            size = estimate_request(request, attributes).tokens
            window = attributes.access_value("context_window_tokens")
            player.requests.append(request)
            player.sizes.append(size)
            output = request.controls.get("max_tokens", 0)
            assert isinstance(window, int)
            assert isinstance(output, int)
            if size + output > window:
                raise ContextOverflowError(model="echo", detail="Too long.")
            text = player.answer(request)
            usage = Usage(input_tokens=size, output_tokens=len(text.split()))
            response = attrs.evolve(
                model._script.choose("", 0), parts=(Part(kind="text", text=text),), usage=usage
            )
            return client._ScriptedSource(
                response,
                list(client._produce_frames(response, "")),
                client.ScriptedDecoder(model.descriptor.name),
                streaming=streaming,
            )

        monkeypatch.setattr(ScriptedModel, "send", send)


_FACT = re.compile(r"[Ff]act: [^.]*\.")


def repeat_facts(request: Request) -> str:
    """Answer briefly; summarize by the facts, each once; recall all facts if asked."""
    text = "\n".join(text_of(canister) for canister in request.canisters)
    facts: Sequence[str] = list(dict.fromkeys(_FACT.findall(text)))
    if is_summarizing(request):
        return " ".join(facts) or "They talked."
    if "facts?" in text_of(request.canisters[-1]):
        return " ".join(facts)
    return "All right."
