"""``vibe store uploads`` lists what vendors have, and removes it there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from vibe_llms import Conversation, SyncModel
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.messages.contents import ImageContent
from vibe_llms.testing.simulator import SynchronousSimulator
from vibe_llms.testing.simulator.behaviour import produce_png

PICTURE = ImageContent(mime_type="image/png", data=produce_png(40, 30), name="holiday.png")


@pytest.mark.slow
def test_uploads_are_listed_and_removed(
    monkeypatch: pytest.MonkeyPatch, vibe: Callable[..., Any]
) -> None:
    with SynchronousSimulator() as simulator:
        vibe("config", "set", "providers.anthropic.base_url", simulator.url)
        vibe("config", "set", "providers.anthropic.upload_bytes", "20")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-canary")
        assert "No contents" in vibe("store", "uploads").err
        application = Application(load_configuration())
        conversation = Conversation()
        conversation.add_user_message(["What is it?", PICTURE])
        conversation.save(application.store)
        with SyncModel("anthropic:claude-sonnet-4-5", application=application) as model:
            assert "40 x 30" in model.ask(conversation).text

        (listed,) = json.loads(vibe("store", "uploads", "--json").out)
        assert listed["content_id"] == PICTURE.content_id
        assert listed["account"].startswith(simulator.url)
        assert listed["file"].startswith("file_")
        shown = vibe("store", "uploads").out
        assert listed["file"] in shown
        assert "image/png" in shown

        assert "1 files" in vibe("store", "uploads", "--remove", "anthropic").err
        deleted = [each for each in simulator.requests if each.method == "DELETE"]
        assert [each.path for each in deleted] == [f"/v1/files/{listed['file']}"]
        assert json.loads(vibe("store", "uploads", "--json").out) == []
        refused = vibe("store", "uploads", "--remove", "ollama")
        assert refused.code == 2
        assert "ollama" in refused.err
