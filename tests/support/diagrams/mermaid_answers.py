"""Store how Mermaid reads all diagrams of ``mermaid_texts``.

Run ``VIBE_LLMS_NODE=FOLDER python tests/support/diagrams/mermaid_answers.py`` after you add a
diagram; the folder is the one of the tests that are marked ``node``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of its own finds `support`

from support.diagrams.mermaid_cases import ask, compose_oracle
from support.diagrams.mermaid_texts import TEXTS

ANSWERS = Path(__file__).parents[2] / "fixtures" / "mermaid" / "answers.jsonl"


def read_answers() -> list[dict[str, Any]]:
    """Return the stored answers, each with its text."""
    lines = ANSWERS.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def write_answers() -> None:
    """Store the current answers of Mermaid; rejections without their texts, which change."""
    answers = ask(compose_oracle(), TEXTS)
    lines = [
        json.dumps({"text": text, **({"refused": ""} if "refused" in answer else answer)})
        for text, answer in zip(TEXTS, answers, strict=True)
    ]
    ANSWERS.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    write_answers()
