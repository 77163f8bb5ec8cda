"""Illustrators: several requests for many images, and images from and for a content store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vibe_llms import Conversation, Illustrator, SyncIllustrator, UserCanister
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConverseError, RequestError, UnknownNameError
from vibe_llms.messages.contents import ImageContent
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png


def point(simulator: Simulator, directory: Path) -> Application:
    """Makes an application whose services are the simulator, with a store of its own."""
    settings: dict[str, Any] = {}
    for name, path in (("openai_responses", "/v1"), ("google", ""), ("mine", "/v1")):
        settings[f"providers.{name}.base_url"] = f"{simulator.url}{path}"
        settings[f"providers.{name}.api_key"] = "canary"
    settings["providers.mine.module"] = "vibe_llms.providers.openai_compatible"
    environment = {"HOME": str(directory)}
    return Application(load_configuration(command_line=settings, environment=environment))


async def test_many_images_are_drawn_by_several_requests(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        application = point(simulator, tmp_path)
        async with Illustrator("openai:gpt-image-2", application=application) as illustrator:
            illustration = await illustrator.draw("A house", count=23)
        counts = sorted(request.body.get("n", 1) for request in simulator.requests)

    assert counts == [3, 10, 10]
    assert len(illustration) == 23
    assert illustration.usage is not None
    assert illustration.usage.output_tokens == 23 * 272


async def test_a_failure_cancels_the_other_requests(tmp_path: Path) -> None:
    async with Simulator(simulate="server_error=99") as simulator:
        application = point(simulator, tmp_path)
        async with Illustrator("google:gemini-3-image", application=application) as illustrator:
            with pytest.raises(ConverseError, match="Internal"):
                await illustrator.draw("draw a house", count=3)


async def test_images_go_to_the_content_store_and_come_from_it(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        application = point(simulator, tmp_path)
        async with Illustrator("openai:gpt-image-2", application=application) as illustrator:
            drawn = await illustrator.draw("A house")
            conversation = Conversation()
            conversation.add_canister(UserCanister([*drawn]))
            conversation.save(application.store)
            stored = ImageContent(content_id=drawn[0].content_id)
            await illustrator.draw("Make it red", stored)

    assert application.store.contents.read(str(drawn[0].content_id)) == drawn[0].data
    assert simulator.requests[1].body["image"].data == drawn[0].data
    assert simulator.requests[1].body["image"].media_type == "image/png"


def test_the_synchronous_face_draws_alike() -> None:
    with SyncIllustrator("scripted:squares", size="8x8") as illustrator:
        first, second = illustrator.draw("A house", count=2)
        again = illustrator.draw("A house")

    assert first == again[0] != second


async def test_an_illustrator_needs_a_name() -> None:
    with pytest.raises(ConverseError, match="illustrator"):
        await Illustrator().draw("A house")
    with pytest.raises(UnknownNameError, match="squares"):
        await Illustrator("scripted:circles").draw("A house")


async def test_a_mask_needs_an_image() -> None:
    mask = ImageContent(data=produce_png(1, 1))
    with pytest.raises(RequestError, match="no image to edit"):
        await Illustrator("scripted:squares").draw("A house", mask=mask)
