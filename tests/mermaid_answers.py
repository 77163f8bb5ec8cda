"""Asks Mermaid about all diagrams of ``mermaid_texts`` and stores its answers.

Run ``VIBE_LLMS_NODE=FOLDER python tests/mermaid_answers.py`` after a diagram was added; the folder
is the one of the tests that are marked ``node``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mermaid_cases import ask, compose_oracle
from mermaid_texts import TEXTS

ANSWERS = Path(__file__).parent / "fixtures" / "mermaid" / "answers.jsonl"


def read_answers() -> list[dict[str, Any]]:
    """Returns what is stored: each with its text."""
    lines = ANSWERS.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def write_answers() -> None:
    """Stores what Mermaid says now; of a refusal only that it is one, words change."""
    answers = ask(compose_oracle(), TEXTS)
    lines = [
        json.dumps({"text": text, **({"refused": ""} if "refused" in answer else answer)})
        for text, answer in zip(TEXTS, answers, strict=True)
    ]
    ANSWERS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    write_answers()
