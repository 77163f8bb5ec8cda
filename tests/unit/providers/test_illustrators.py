"""Illustrators of vendors against the simulator: new images, edits, losses, errors, streams."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.vendors.remoting import Counterpart, answer_json, produce_context
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    RequestError,
    Stage,
    TranslationLossError,
    UnknownNameError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.illustrations import Illustration, IllustrationRequest
from vibe_llms.models.genera import Genus
from vibe_llms.providers.google import produce_provider as produce_google
from vibe_llms.providers.openai_compatible import produce_provider as produce_compatible
from vibe_llms.providers.openai_responses import produce_provider as produce_openai
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png
from vibe_llms.testing.simulator.forms import UploadedFile

FACTORIES = {"openai": produce_openai, "google": produce_google}
PICTURE = ImageContent(data=produce_png(5, 4))


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Starts the simulator."""
    async with Simulator() as running:
        yield running


def produce(name: str, directory: Path, address: str, **limits: Any) -> Any:
    """Makes a client of a service."""
    path = "" if name == "google" else "/v1"
    context = produce_context(
        name,
        directory,
        limits=Limits(**limits) if limits else None,
        base_url=address + path,
        api_key="canary",
    )
    return FACTORIES.get(name, produce_compatible)(context).produce_client()


async def draw(client: Any, model: str, **fields: Any) -> Illustration:
    """Draws images with a model of the client, and closes it."""
    try:
        illustrator = await client.access(model, Genus.ILLUSTRATOR)
        request = IllustrationRequest(**{"prompt": "Draw a red house.", **fields})
        illustration: Illustration = await illustrator.call(request)
    finally:
        await client.close()
    return illustration


def measure(image: ImageContent) -> tuple[int, int]:
    """Returns the size of a PNG."""
    assert image.data is not None
    assert image.data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", image.data[16:24])
    return width, height


async def test_openai_draws_images_of_the_wanted_size(simulator: Simulator, tmp_path: Path) -> None:
    client = produce("openai", tmp_path, simulator.url)
    illustration = await draw(
        client, "gpt-image-2", count=2, size="32x48", quality="low", options={"moderation": "low"}
    )

    assert [measure(image) for image in illustration] == [(32, 48), (32, 48)]
    assert [image.mime_type for image in illustration] == ["image/png"] * 2
    assert illustration.usage is not None
    assert illustration.usage.output_tokens == 544
    [sent] = simulator.requests
    assert sent.body == {
        "model": "gpt-image-2",
        "prompt": "Draw a red house.",
        "n": 2,
        "size": "32x48",
        "quality": "low",
        "moderation": "low",
    }


async def test_an_edit_is_a_form_with_the_files(simulator: Simulator, tmp_path: Path) -> None:
    client = produce("openai", tmp_path, simulator.url)
    illustration = await draw(
        client, "gpt-image-2", images=[PICTURE, PICTURE], mask=PICTURE, options={"stream": False}
    )

    assert len(illustration) == 1
    assert illustration.usage is not None
    assert (illustration.usage.input_tokens or 0) > 200  # two images
    [sent] = simulator.requests
    assert sent.path == "/v1/images/edits"
    assert sent.body["image"] == [
        UploadedFile(f"image-{number}.png", "image/png", PICTURE.data or b"") for number in (1, 2)
    ]
    assert sent.body["mask"].name == "mask.png"
    assert sent.body["stream"] == "false"


async def test_the_service_of_a_user_gets_base64_and_edits_too(
    simulator: Simulator, tmp_path: Path
) -> None:
    illustration = await draw(produce("mine", tmp_path, simulator.url), "flux", images=PICTURE)

    assert measure(illustration[0]) == (64, 64)
    assert simulator.requests[0].body["response_format"] == "b64_json"
    assert b'name="image"; filename=' in simulator.requests[0].data  # a list for several only


@pytest.mark.parametrize(
    ("name", "fields", "losses"),
    [
        ("xai", {"aspect_ratio": "3:2", "response_format": "b64_json"}, ["size", "quality"]),
        ("together", {"width": 96, "height": 64, "response_format": "base64"}, ["quality"]),
        ("deepinfra", {"size": "96x64"}, ["quality"]),
    ],
)
async def test_each_service_gets_the_size_in_its_own_fields(
    name: str, fields: dict[str, Any], losses: list[str], simulator: Simulator, tmp_path: Path
) -> None:
    illustration = await draw(
        produce(name, tmp_path, simulator.url), "m", size="96x64", quality="high"
    )

    assert illustration[0].data is not None
    assert [loss.path for loss in illustration.losses] == losses
    assert fields.items() <= simulator.requests[0].body.items()


async def test_xai_edits_images_of_a_json_body(simulator: Simulator, tmp_path: Path) -> None:
    elsewhere = ImageContent(url="https://example.org/a.png")
    await draw(produce("xai", tmp_path, simulator.url), "m", images=[PICTURE, elsewhere])

    images = simulator.requests[0].body["images"]
    assert images[0]["url"].startswith("data:image/png;base64,")
    assert images[1] == {"url": "https://example.org/a.png"}


async def test_gemini_draws_by_its_conversation(simulator: Simulator, tmp_path: Path) -> None:
    client = produce("google", tmp_path, simulator.url)
    illustration = await draw(
        client, "gemini-3-pro-image-preview", prompt="draw a house", size="3840x2160", quality="low"
    )

    assert measure(illustration[0]) == (2, 3)
    assert [loss.path for loss in illustration.losses] == ["size", "quality"]
    generation = simulator.requests[0].body["generationConfig"]
    assert generation["responseModalities"] == ["IMAGE"]
    assert generation["imageConfig"] == {"aspectRatio": "16:9", "imageSize": "4K"}
    assert illustration.usage is not None
    assert illustration.usage.input_tokens


async def test_vertex_draws_as_gemini(simulator: Simulator, tmp_path: Path) -> None:
    context = produce_context(
        "vertex",
        tmp_path,
        base_url=simulator.url,
        api_key="canary",
        cloud="vertex",
        project="p",
    )
    client: Any = produce_google(context).produce_client()
    illustration = await draw(client, "gemini-3-pro-image-preview", prompt="draw a house")

    assert measure(illustration[0]) == (2, 3)
    assert simulator.requests[0].path.endswith("/gemini-3-pro-image-preview:generateContent")


async def test_gemini_gets_the_images_before_the_prompt(tmp_path: Path) -> None:
    parts = [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]
    answer = {"candidates": [{"content": {"parts": parts}}]}
    counterpart = Counterpart([answer_json(json.dumps(answer).encode())])
    provider: Any = produce_google(produce_context("google", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)
    await draw(provider.produce_client(), "gemini-2.5-flash-image", images=PICTURE, size="300x200")

    [request] = counterpart.requests
    body = json.loads(request.body)
    kinds = [next(iter(part)) for part in body["contents"][0]["parts"]]
    assert kinds == ["inlineData", "text"]
    assert body["generationConfig"]["imageConfig"] == {"aspectRatio": "3:2"}


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "SAFETY"),
        ({"candidates": [{"finishReason": "IMAGE_SAFETY"}]}, "IMAGE_SAFETY"),
    ],
)
async def test_a_blocked_image_is_an_error_that_names_the_reason(
    answer: Any, word: str, tmp_path: Path
) -> None:
    counterpart = Counterpart([answer_json(json.dumps(answer).encode())])
    provider: Any = produce_google(produce_context("google", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)

    with pytest.raises(ProviderError, match=word) as caught:
        await draw(provider.produce_client(), "gemini-2.5-flash-image")

    assert caught.value.fault is ProviderFault.BLOCKED


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"data": []},
        {"data": [{}]},
        {"data": [{"b64_json": "%"}]},
        {"data": [{"b64_json": 1}]},
    ],
)
async def test_an_invalid_answer_is_an_error(answer: Any, tmp_path: Path) -> None:
    counterpart = Counterpart([answer_json(json.dumps(answer).encode())])
    provider: Any = produce_openai(produce_context("openai", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)

    with pytest.raises(ConverseError) as caught:
        await draw(provider.produce_client(), "gpt-image-2")

    assert caught.value.stage is Stage.DECODE


async def test_a_url_and_the_revised_prompt_are_kept(tmp_path: Path) -> None:
    row = {"url": "https://example.org/a.png", "revised_prompt": "A bright red house."}
    counterpart = Counterpart([answer_json(json.dumps({"data": [row]}).encode())])
    provider: Any = produce_openai(produce_context("openai", tmp_path, api_key="canary"))
    provider.use_transport(counterpart.transport)
    illustration = await draw(provider.produce_client(), "gpt-image-2")

    assert illustration[0].url == "https://example.org/a.png"
    assert illustration[0].native is not None
    assert "bright" in illustration[0].native.data


async def test_a_strict_request_with_losses_is_not_sent(
    simulator: Simulator, tmp_path: Path
) -> None:
    with pytest.raises(TranslationLossError, match="quality"):
        await draw(produce("xai", tmp_path, simulator.url), "m", quality="high", strict=True)

    assert simulator.requests == []


async def test_a_service_that_cannot_edit_says_so(simulator: Simulator, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="does not edit"):
        await draw(produce("together", tmp_path, simulator.url), "m", images=PICTURE)


async def test_an_image_elsewhere_cannot_be_uploaded(simulator: Simulator, tmp_path: Path) -> None:
    elsewhere = ImageContent(url="https://example.org/a.png")
    with pytest.raises(RequestError, match="not a URL") as caught:
        await draw(produce("openai", tmp_path, simulator.url), "gpt-image-2", images=elsewhere)

    assert caught.value.path == "images[0]"


async def test_an_edit_is_retried_like_any_request(simulator: Simulator, tmp_path: Path) -> None:
    address = simulator.access_url("overloaded=1")
    await draw(produce("openai", tmp_path, address, attempts=2), "gpt-image-2", images=PICTURE)

    assert len(simulator.requests) == 2
    assert simulator.requests[0].data == simulator.requests[1].data


async def test_an_error_of_the_vendor_is_told_in_its_words(
    simulator: Simulator, tmp_path: Path
) -> None:
    client = produce("openai", tmp_path, simulator.url)
    with pytest.raises(ProviderError, match="Invalid quality") as caught:
        await draw(client, "gpt-image-2", quality="best")

    assert caught.value.fault is ProviderFault.INVALID_REQUEST


async def test_other_services_say_that_they_do_not_draw(tmp_path: Path) -> None:
    client = produce("deepseek", tmp_path, "http://127.0.0.1:9")
    with pytest.raises(UnknownNameError, match="illustrator"):
        await client.access("m", Genus.ILLUSTRATOR)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"prompt": " "}, "prompt"),
        ({"prompt": "a\ud800"}, "prompt"),
        ({"prompt": 1}, "prompt"),
        ({"count": 0}, "count"),
        ({"count": "2"}, "count"),
        ({"size": "big"}, "size"),
        ({"size": "0x10"}, "size"),
        ({"images": [b"x"]}, "images[0]"),
        ({"mask": PICTURE}, "mask"),
    ],
)
def test_a_wrong_request_names_its_place(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(RequestError) as caught:
        IllustrationRequest(**{"prompt": "a", **fields})

    assert caught.value.path == path


async def test_the_simulator_answers_the_official_library(simulator: Simulator) -> None:
    async with openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="canary") as client:
        drawn = await client.images.generate(model="gpt-image-2", prompt="A house", n=2)
        edited = await client.images.edit(
            model="gpt-image-2", prompt="Red", image=("a.png", PICTURE.data or b"", "image/png")
        )
        stream = await client.images.generate(
            model="gpt-image-2", prompt="A house", stream=True, partial_images=1
        )
        events = [event.type async for event in stream]

    assert [len(drawn.data or ()), len(edited.data or ())] == [2, 1]
    assert events == ["image_generation.partial_image", "image_generation.completed"]
