"""A custom tool is told to a local model as a function, and called with free text."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import InvocationCanister, UserCanister
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.local.client import LocalModel

DESCRIPTOR = ModelDescriptor(
    provider="local",
    name="mine",
    attributes=Catalogue().access_integrator("local").integrate("mine"),
)
PATCH = "*** Begin Patch\n*** End Patch"


class Answering:
    """A loaded model that answers with one text."""

    def __init__(self, text: str) -> None:
        self.asked: list[Any] = []
        delta = {"role": "assistant", "content": text}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self._chunks: list[Any] = [
            [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}],
            [{**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}],
            [{**head, "choices": [], "usage": usage}],
            None,
        ]

    async def acquire(self, settings: Any) -> Answering:
        return self

    async def use(self, settings: Any, ask: Callable[[Answering], Awaitable[Any]]) -> Any:
        return await ask(self)

    async def open_exchange(self, native: Any) -> Answering:
        self.asked.append(native)
        return self

    async def receive(self) -> Sequence[Any] | None:
        chunks: Sequence[Any] | None = self._chunks.pop(0)
        return chunks

    async def close(self) -> None: ...


@pytest.mark.parametrize("stream", [False, True])
async def test_a_custom_tool_is_called_by_a_local_model(stream: bool) -> None:
    """Its text goes into JSON and out of it."""
    call = {"name": "apply_patch", "arguments": {"input": PATCH}}
    server = Answering(json.dumps(call))
    context = SimpleNamespace(limits=Limits())
    provider = SimpleNamespace(context=context)
    client: Any = SimpleNamespace(provider=provider, acquire=server.acquire, use=server.use)
    model = LocalModel(DESCRIPTOR, client, settings=None)  # type: ignore[arg-type]
    tool = InvocableDescription(name="apply_patch", description="Edits files.", schema=None)
    request = Request(canisters=[UserCanister("Edit it.")], invocables=[tool])

    response = await model.converse(request, stream=stream)

    (made,) = response.canisters
    assert isinstance(made, InvocationCanister)
    assert (made.name, made.form, made.arguments) == ("apply_patch", "text", PATCH)
    assert [loss.path for loss in response.losses if loss.kind == "coerced"] == ["invocables[0]"]
    assert "apply_patch" in json.dumps(server.asked[0]["messages"])
