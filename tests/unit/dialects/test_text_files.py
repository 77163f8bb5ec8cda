"""A file of plain text is sent as text to vendors that do not accept it; the rest is a loss."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from vibe_llms.dialects.messages import normalize_messages
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue

REQUEST = {
    "type": "document",
    "title": "Tides",
    "context": "Of last year.",
    "citations": {"enabled": True},
    "source": {"type": "text", "media_type": "text/plain", "data": "High at noon."},
}


@pytest.mark.parametrize(
    ("protocol", "provider", "model"),
    [
        ("chat_completions", "openai_conversations", "gpt-5.5"),
        ("ollama_chat", "ollama", "llama3.2"),
    ],
)
def test_the_other_fields_of_the_file_are_lost(protocol: str, provider: str, model: str) -> None:
    """The model reads its text, but not its name, nor that it may be cited."""
    dialect: Any = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    attributes = Catalogue().access_integrator(provider).integrate(model)
    message = {"role": "user", "content": [REQUEST, {"type": "text", "text": "When?"}]}
    canisters = normalize_messages({"messages": [message]}).value

    written = dialect.nativize_request(Request(canisters=canisters), attributes, dialect.Quirks())

    sent = str(written.value["messages"])
    assert "High at noon." in sent
    assert "Tides" not in sent
    lost = {loss.path.removeprefix("canisters[0].content[0]") for loss in written.losses}
    assert {"", ".title", ".context", ".native"} <= lost
