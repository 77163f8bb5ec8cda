"""``--skill`` on the command line."""

from __future__ import annotations

import json
import os
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


def write_folder(folder: Path, name: str = "pdf-forms") -> Path:
    """Writes a skill with a file."""
    (folder / name / "scripts").mkdir(parents=True)
    (folder / name / "scripts" / "fill.sh").write_text("echo filled\n")
    (folder / name / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Fills forms.\nlicense: MIT\n---\nFill the form.\n"
    )
    return folder / name


def test_skills_are_listed_and_shown(vibe: Callable[..., Any], home: Path) -> None:
    write_folder(home / ".claude" / "skills")
    write_folder(home / "elsewhere")

    assert "pdf-forms\tyours\tFills forms.\n" in vibe("skills").out
    listed = {each["name"]: each for each in vibe("skills", "list", "--json").read_json()}
    assert listed["pdf-forms"]["files"] == ["scripts/fill.sh"]
    assert listed["reviewer"]["from"] == "built-in"
    shown = vibe("skills", "show", "pdf-forms").out
    assert "license\tMIT" in shown
    assert shown.endswith("Fill the form.\n")
    assert vibe("skills", "show", "./elsewhere/pdf-forms").out.startswith("pdf-forms  (path)")
    assert "did you mean 'pdf-forms'" in vibe("skills", "show", "pdf-from").err


def test_a_folder_without_a_valid_name_is_reported(vibe: Callable[..., Any], home: Path) -> None:
    """It is listed under no name, and not passed over silently."""
    folder = write_folder(home / ".claude" / "skills")
    folder.rename(folder.with_name("PDF forms"))
    outcome = vibe("skills", "list")

    assert "PDF forms: The name of a skill's folder" in outcome.err
    assert "Fills forms" not in outcome.out


def test_skills_are_validated(vibe: Callable[..., Any], home: Path) -> None:
    good = write_folder(home / ".claude" / "skills")
    assert vibe("skills", "validate").out == f"{good / 'SKILL.md'} is valid.\n"

    (good / "SKILL.md").write_text("---\nname: other\ndescription: x\n---\nText\n")
    outcome = vibe("skills", "validate", "pdf-forms")
    assert outcome.code == 3
    assert outcome.out.startswith("error: ")
    (report,) = vibe("skills", "validate", "--json").read_json()
    assert "differs from the folder's name" in report["errors"][0]


def test_a_projects_skill_is_trusted(vibe: Callable[..., Any], home: Path) -> None:
    work = home / "work"
    (work / ".git").mkdir(parents=True)
    write_folder(work / ".claude" / "skills")
    os.chdir(work)

    assert vibe("ask", "--skill", "pdf-forms", "Hello").code != 0
    assert vibe("skills", "trust", "pdf-forms", "--yes").code == 0
    assert vibe("ask", "--skill", "pdf-forms", "Hello").code == 0
    said = [each for each in read_canisters(home) if each.get("role") == "supervisor"]
    assert said[0]["content"][0]["text"].startswith("Fill the form.")


def test_a_projects_skill_is_trusted_by_its_path(vibe: Callable[..., Any], home: Path) -> None:
    work = home / "work"
    (work / ".git").mkdir(parents=True)
    write_folder(work / ".claude" / "skills")
    write_folder(work / "elsewhere", "other")
    os.chdir(work)

    trusted = vibe("skills", "trust", "./.claude/skills/pdf-forms", "--yes")
    assert "Trusted" in trusted.err
    assert vibe("ask", "--skill", "pdf-forms", "Hello").code == 0
    for name in ("./elsewhere/other", "reviewer"):
        outcome = vibe("skills", "trust", name, "--yes")
        assert outcome.code == 0
        assert "No trust is needed" in outcome.err
        assert "Trusted" not in outcome.err
