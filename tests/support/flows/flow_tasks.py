"""Tasks to test with: their models play scripts, so that each run of them is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.runs.scripting import write_script


def compose_task(
    diagram: str,
    *prompts: str,
    script: Path | None = None,
    conditions: list[dict[str, Any]] | None = None,
    **parts: Any,
) -> dict[str, Any]:
    """Makes a task of the lines of a diagram; without a script, models say what they are asked."""
    lines = "\n".join(line.strip() for line in diagram.strip().splitlines())
    return {
        "goal": {"description": "Find out.", "target_conditions": conditions or []},
        "resource_llm": {
            "provider": "scripted",
            "model": "echo" if script is None else str(script),
        },
        "resource_registry": {"entries": []},
        "prompts": [{"template": prompt} for prompt in prompts],
        "flow_diagram": {"mermaid": f"graph TD\n{lines}"},
        **parts,
    }


def write_answers(directory: Path, **answers: str | list[str]) -> Path:
    """Writes a script: what is answered where a word stands in what is asked.

    Several answers to one word are given in turn, as ``word_1``, ``word_2`` … stand in it.
    """
    responses = [
        {"match": word, "contents": [{"text": answer}]}
        for word, said in answers.items()
        for answer in ([said] if isinstance(said, str) else said)
    ]
    return write_script(directory, *responses)
