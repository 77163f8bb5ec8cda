"""Suites in files, models with scripts that answer and judge, and runs in a folder of a test."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from support.runs.scripting import write_script
from vibe_llms.evals.evaluating import evaluate
from vibe_llms.evals.reports import EvalReport
from vibe_llms.evals.suites import Suite

CAPITALS = """
prompt = "What is the capital of {{ country }}?"
repeats = 2

[[subjects]]
name = "echo"
model = "scripted:echo"

[[judges]]
name = "mentions"
kind = "contains"

[[cases]]
name = "france"
variables = { country = "France" }
expected = "Paris"
tags = ["europe"]

[[cases]]
name = "italy"
variables = { country = "Italy" }
expected = "Italy"
"""
"""A suite of which one case passes and one fails."""


def write_suite(folder: Path, text: str = CAPITALS) -> Path:
    """Write a suite into a folder; return its path."""
    path = folder / "suite.toml"
    path.write_text(text, "utf-8")
    return path


def script_model(folder: Path, name: str, *texts: str, **matches: str) -> str:
    """Write a script; return the address of its model.

    Args:
        texts: Answers in their order, of a model that is asked anything.
        matches: Answers to questions that contain a word.
    """
    home = folder / name
    home.mkdir(exist_ok=True)
    usage = {"input_tokens": 10, "output_tokens": 5}
    responses: list[dict[str, Any]] = [
        {"match": word, "contents": [{"text": text}], "usage": usage}
        for word, text in matches.items()
    ]
    responses += [{"contents": [{"text": text}], "usage": usage} for text in texts]
    return f"scripted:{write_script(home, *responses)}"


def replace_script(folder: Path, name: str, text: str) -> None:
    """Replace a scripted answer by one of the same length, which caches do not notice."""
    (path,) = (folder / name).iterdir()
    before = path.stat()
    script_model(folder, name, text)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def write_judgment(is_met: bool, reason: str = "So it is.", confidence: float = 0.9) -> str:
    """Return the answer of a model that judges."""
    return json.dumps({"reason": reason, "is_met": is_met, "confidence": confidence})


async def run_in(folder: Path, suite: Suite | Path, **options: Any) -> EvalReport:
    """Run a suite with a cache in a folder."""
    return await evaluate(suite, **{"cache": folder / "cache", **options})
