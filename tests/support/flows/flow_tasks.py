"""Tasks for tests. Their models follow scripts, so that all runs of a task are equal."""

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
    """Create a task from the lines of a diagram; without a script, models repeat their prompts."""
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
    """Write a script that answers prompts which contain a word.

    Several answers for a word are given one after the other.
    """
    responses = [
        {"match": word, "contents": [{"text": answer}]}
        for word, texts in answers.items()
        for answer in ([texts] if isinstance(texts, str) else texts)
    ]
    return write_script(directory, *responses)
