"""A model loads a skill, reads its reference, and runs its script through the shell's approval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.runs.scripting import write_script
from vibe_llms import Application, Engine
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, allow, deny
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.views import text_of


@attrs.define
class Approving:
    """Allows or denies every call, and keeps the requests."""

    allows: bool
    requests: list[ApprovalRequest] = attrs.field(factory=list)

    async def approve(self, request: ApprovalRequest) -> Approval:
        self.requests.append(request)
        return allow(request) if self.allows else deny(request)


def invoke(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    call = {"id": f"c{number}", "name": tool, "arguments": json.dumps(arguments)}
    return {"contents": [{"invocation": call}]}


@pytest.mark.parametrize("allows", [True, False])
async def test_a_script_runs_by_the_rules_of_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allows: bool
) -> None:
    work, skill = tmp_path / "work", tmp_path / ".claude/skills/greeting"
    work.mkdir()
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: greeting\ndescription: Greets.\nallowed-tools: run_command\n---\nGreet so.\n"
    )
    (skill / "words.md").write_text("Ahoy")
    (skill / "scripts/greet.sh").write_text('echo "$(cat words.md) from the script"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(work)
    application = Application(load_configuration(environment={"HOME": str(tmp_path)}))
    script = write_script(
        tmp_path,
        invoke(1, "load_skill", name="greeting"),
        invoke(2, "read_skill_file", skill="greeting", path="words.md"),
        invoke(3, "run_command", command=f"cd {skill} && sh scripts/greet.sh"),
        {"contents": [{"text": "Done."}]},
    )
    approver = Approving(allows)
    tools = await application.produce_ensembles(["skills", "shell"])

    async with Engine(f"scripted:{script}", tools, approver=approver) as engine:
        outcome = await engine.answer("Greet me.")

    results = [text_of(each) for each in outcome.canisters if isinstance(each, ResultCanister)]
    assert results[0].startswith("Greet so.\n")
    assert results[1] == "Ahoy"
    assert ("Ahoy from the script" in results[2]) is allows
    assert [request.name for request in approver.requests] == ["run_command"]
