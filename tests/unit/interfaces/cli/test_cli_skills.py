"""``--skill`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

SKILL = """
description = "Speaks like a poet."
prompt = "You are a poet."
[controls]
temperature = 1
"""


def read_canisters(home: Path) -> list[dict[str, Any]]:
    """Returns what was stored of the one conversation."""
    (path,) = (home / ".local/share/vibe-llms/conversations").glob("*/*/messages.jsonl")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_skill_instructs_the_model(vibe: Callable[..., Any], home: Path) -> None:
    """Its prompt comes first, then what is said besides; it is kept with the conversation."""
    (home / "poet.toml").write_text(SKILL)

    outcome = vibe("ask", "--skill", "poet.toml", "--system", "Be brief.", "Hello")

    assert (outcome.code, outcome.out.strip()) == (0, "Hello")
    said = [each for each in read_canisters(home) if each.get("role") == "supervisor"]
    assert said[0]["content"][0]["text"] == "You are a poet.\n\nBe brief."


def test_a_skill_that_is_used_again_instructs_once(vibe: Callable[..., Any], home: Path) -> None:
    """Going on with a conversation and the same skill repeats nothing."""
    vibe("chat", "--skill", "plain-words", stdin=b"Hello\n")
    outcome = vibe("chat", "--continue", "--skill", "plain-words", stdin=b"Again\n")

    assert outcome.code == 0
    roles = [each.get("role") for each in read_canisters(home)]
    assert roles.count("supervisor") == 1


def test_what_is_wrong_with_a_skill_is_said_before_anything_is_stored(
    vibe: Callable[..., Any], home: Path
) -> None:
    """An unknown name is answered with the nearest; the project's needs consent."""
    folder = home / "work" / ".vibe-llms"

    outcome = vibe("ask", "--skill", "reviwer", "Hello")

    assert outcome.code != 0
    assert "reviewer" in outcome.err
    assert not folder.exists()
    assert not list((home / ".local/share/vibe-llms").glob("conversations/*"))
