"""The contract from the command line: what cannot be tested says why, in one sentence."""

from __future__ import annotations

import sys

import pytest

from vibe_llms.exceptions import PluginError
from vibe_llms.testing.conformance import run_contract


@pytest.mark.parametrize(
    ("module", "model", "name"),
    [
        ("vibe_llms.providers.deepgram", "", "deepgram"),
        ("vibe_llms.providers.deepgram", "unknown", "deepgram:unknown"),
        ("vibe_llms.providers.google", "gemini-embedding-001", "google:gemini-embedding-001"),
    ],
)
def test_a_model_that_does_not_converse_is_not_tested(
    module: str, model: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])

    with pytest.raises(PluginError, match=f"^{name} does not converse") as caught:
        run_contract(module, model=model, provider=name.partition(":")[0], report=print)

    assert "CallModelContract" in str(caught.value)


def test_a_setting_without_a_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])

    with pytest.raises(PluginError, match="'api_key' is not a setting"):
        run_contract("vibe_llms.providers.deepgram", settings=["api_key"], report=print)
