"""vLLM: its parameters, its windows, and how its server is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.dialects.extras import make_native
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.requests import Request
from vibe_llms.providers.vllm import produce_provider
from vibe_llms.providers.vllm.client import VllmVendor


def produce_client(directory: Path, *answers: Any) -> tuple[Any, Counterpart]:
    """Makes a client of a server that a function plays."""
    counterpart = Counterpart([answer_json(json.dumps(answer).encode()) for answer in answers])
    provider: Any = produce_provider(produce_context("vllm", directory))
    provider.use_transport(counterpart.transport)
    return provider.produce_client(), counterpart


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_either_spelling_of_reasoning_is_read(tmp_path: Path, field: str) -> None:
    """The field was renamed; servers of both ages are about."""
    message = {"role": "assistant", "content": "Yes.", field: "Hm."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    client, _ = produce_client(tmp_path, {"id": "c", "model": "m", "choices": [choice]})
    model = await client.access_model("m")

    response = await model.converse(Request(canisters=[UserCanister("?")]), stream=False)

    reasoning = response.canisters[0].content[0]
    assert isinstance(reasoning, ReasoningContent)
    assert reasoning.text == "Hm."


async def test_further_parameters_are_controls_or_natives(tmp_path: Path) -> None:
    """A control by its name or the server's, all else as it is."""
    choice = {"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}
    client, counterpart = produce_client(tmp_path, {"id": "c", "choices": [choice]})
    model = await client.access_model("m")
    extras = {"chat_template_kwargs": {"enable_thinking": False}}
    request = Request(
        canisters=[UserCanister("?")],
        controls={"top_k": 5, "min_p": 0.1, "repeat_penalty": 1.1},
        native=make_native("chat_completions", extras),
    )

    await model.converse(request, stream=False)

    body = msgspec.json.decode(counterpart.requests[0].body)
    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (5, 0.1, 1.1)
    assert extras.items() <= body.items()
    assert "authorization" not in counterpart.requests[0].headers


async def test_the_window_is_learnt_from_the_server(tmp_path: Path) -> None:
    """It lists its models with the longest input that it was started for."""
    listed = {"data": [{"id": "qwen", "max_model_len": 4096}]}
    client, counterpart = produce_client(tmp_path, listed)

    (model,) = await client.survey_models()

    assert counterpart.requests[0].url == "http://127.0.0.1:8000/v1/models"
    assert model.attributes.access_value("context_window_tokens") == 4096


def test_a_server_of_ours_is_started_with_its_model(tmp_path: Path) -> None:
    """On a port of its own; without a model there is nothing to start."""
    vendor = VllmVendor(produce_context("vllm", tmp_path, start=True, model="qwen"))
    bare = VllmVendor(produce_context("vllm", tmp_path, start=True))

    assert vendor.compose_child().command[:3] == ("vllm", "serve", "qwen")
    assert "{port}" in vendor.compose_child().command
    with pytest.raises(ConfigurationError, match="set the model"):
        bare.compose_child()
