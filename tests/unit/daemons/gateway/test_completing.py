"""Which calls for completions are passed through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.vendors.remoting import produce_context
from vibe_llms.daemons.gateway.completing import find_path
from vibe_llms.providers.ollama import produce_provider as produce_ollama
from vibe_llms.providers.openai_compatible import produce_provider as produce_compatible
from vibe_llms.providers.openai_compatible.kinds import read_services
from vibe_llms.providers.openai_conversations import produce_provider as produce_openai
from vibe_llms.providers.remote_models import RemoteModel

FACTORIES: dict[str, Any] = {
    "ollama": produce_ollama,
    "openai_conversations": produce_openai,
    "mistral": produce_compatible,
    "groq": produce_compatible,
    "deepseek": produce_compatible,
}


@pytest.mark.parametrize(
    ("provider", "model", "fields", "path"),
    [
        ("ollama", "m", {}, "/v1/completions"),
        ("ollama", "m", {"n": 1, "echo": False, "best_of": None}, "/v1/completions"),
        ("ollama", "m", {"suffix": "."}, "/v1/completions"),
        ("ollama", "m", {"n": 2}, ""),
        ("ollama", "m", {"logit_bias": {"5": 1}}, ""),
        ("ollama", "m", {"prompt": ["a"]}, ""),
        ("openai_conversations", "gpt-3.5-turbo-instruct-0914", {}, "/completions"),
        ("openai_conversations", "ft:davinci-002:me::x", {"prompt": [1, 2]}, "/completions"),
        ("openai_conversations", "gpt-5.5", {}, ""),
        ("mistral", "codestral-latest", {"suffix": "."}, ""),
        ("groq", "m", {}, ""),
        ("deepseek", "m", {"echo": True}, "/beta/completions"),
    ],
)
def test_a_call_goes_to_a_path_that_takes_all_of_its_fields(
    provider: str, model: str, fields: dict[str, Any], path: str, tmp_path: Path
) -> None:
    context = produce_context(provider, tmp_path, api_key="canary")
    client = FACTORIES[provider](context).produce_client()
    found = RemoteModel(client.describe(model), client)

    assert find_path(found, {"prompt": "a", **fields}) == path


def test_other_models_than_those_over_the_network_have_no_path() -> None:
    assert find_path(object(), {"prompt": "a"}) == ""


def test_services_name_their_paths() -> None:
    rows = read_services().items()
    completions = {name: row.calls.completions for name, row in rows if row.calls.completions}

    assert completions["deepseek"].path == "/beta/completions"
    assert completions["mistral"].fim_path == "/fim/completions"
    assert all(row.path or row.fim_path for row in completions.values())
