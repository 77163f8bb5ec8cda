"""A plugin that decides, in the user's place and by the user's choice, what is executed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from support.screens.keyboards import type_answers
from vibe_llms.interfaces.cli import approving
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.invocables.approvals import (
    Approval,
    ApprovalRequest,
    Decision,
    deny,
    produce_approval_request,
)

Vibe = Callable[..., Any]
Act = Callable[..., Any]

EXAMPLES = Path(__file__).parents[3] / "fixtures" / "example-plugins"
CLERK = "[plugins.desk]\nmodule = 'desk_clerk'\n"


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A desk with drafts on it, and a configuration that names the plugin and chooses nobody."""
    monkeypatch.syspath_prepend(EXAMPLES)
    configure(home, CLERK)
    (home / "desk" / "drafts").mkdir(parents=True)
    monkeypatch.chdir(home / "desk")
    yield home / "desk"
    sys.modules.pop("desk_clerk", None)


def configure(home: Path, text: str) -> None:
    """Writes the user's configuration."""
    file = home / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.fixture
def act(vibe: Vibe, home: Path) -> Act:
    """Asks a model that writes files at some paths."""

    def perform(*options: str, paths: tuple[str, ...] = ("drafts/a.txt",)) -> Any:
        calls = [
            invoke("write_file", f"call-{number}", path=path, text="eggs")
            for number, path in enumerate(paths)
        ]
        script = write_script(home, {"contents": calls}, {"contents": [say("Done.")]})
        return vibe("ask", "--model", f"scripted:{script}", "--tools", "io", *options, "Write!")

    return perform


def list_files(folder: Path) -> list[str]:
    """Names what was written."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.is_file())


def test_an_approver_of_a_plugin_answers_where_nobody_can_be_asked(folder: Path, act: Act) -> None:
    """It allows one call, edits another and refuses the third; what it leaves open waits."""
    paths = ("drafts/a.txt", "b.tmp", "../c.txt", "d.txt")

    waiting = act("--approver", "clerk", paths=paths)
    outcome = act("--approver", "clerk", paths=paths[:3])

    assert waiting.code == ExitCode.CONSENT
    assert waiting.err.count("To allow it") == 1
    assert (outcome.code, outcome.out) == (0, "Done.\n")
    assert list_files(folder) == ["b.txt", "drafts/a.txt"]


def test_what_an_approver_leaves_open_is_asked_at_the_terminal(
    folder: Path, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person is asked about that alone."""
    monkeypatch.setattr(approving, "can_ask", lambda: True)
    approve = approving.TerminalApprover.approve

    async def approve_with_somebody(self: approving.TerminalApprover, request: Any) -> Any:
        self.has_user = lambda: True
        return await approve(self, request)

    monkeypatch.setattr(approving.TerminalApprover, "approve", approve_with_somebody)
    type_answers(monkeypatch, "o")

    outcome = act("--approver", "clerk", paths=("drafts/a.txt", "d.txt", "../c.txt"))

    assert outcome.err.count("asks to be executed") == 1
    assert list_files(folder) == ["d.txt", "drafts/a.txt"]


def test_the_configuration_chooses_and_the_command_line_wins(
    home: Path, folder: Path, act: Act
) -> None:
    """The name ``terminal`` is the person's, whatever a plugin says."""
    configure(home, f"approver = 'clerk'\n{CLERK}drafts = 'others'\n")

    configured = act(paths=("others/a.txt",))
    terminal = act("--approver", "terminal", paths=("others/b.txt",))

    assert list_files(folder) == ["others/a.txt"]
    assert "To allow it" not in configured.err
    assert "To allow it" in terminal.err


def test_what_is_allowed_beforehand_is_not_asked_about(folder: Path, act: Act) -> None:
    """``--allow`` comes first, as without an approver."""
    act("--approver", "clumsy", "--allow", "write_file")

    assert list_files(folder) == ["drafts/a.txt"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("clumsy", "ValueError: stumbled"),
        ("hasty", "returned bool instead of an approval"),
        ("astray", "another call"),
    ],
)
def test_an_approver_that_fails_allows_nothing(
    folder: Path, act: Act, name: str, words: str
) -> None:
    """Whatever it raises or returns is a refusal, which says why."""
    outcome = act("--approver", name)

    assert list_files(folder) == []
    assert "write_file was not executed: the approver failed: " in outcome.err
    assert words in outcome.err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("clerc", "Unknown approver 'clerc'; did you mean 'clerk'?"),
        ("absent", "cannot be created: OSError: no stamp"),
        ("odd", "returned object, which lacks approve"),
    ],
)
def test_without_the_approver_that_was_chosen_nothing_is_asked(
    vibe: Vibe, folder: Path, act: Act, name: str, words: str
) -> None:
    """A slip, or a plugin that fails, never means that somebody else decides."""
    outcome = act("--approver", name, "--allow", "all")
    bare = vibe("ask", "--approver", name, "Hi")

    assert 0 not in (outcome.code, bare.code)
    assert words in outcome.err
    assert words in bare.err
    assert list_files(folder) == []
    assert vibe("list", "--json").read_json() == []


@pytest.mark.parametrize(
    "text", ["approver = 'terminal'\n", "approver = 'clerk'\n", "plugins.desk.drafts = '/'\n"]
)
def test_an_untrusted_project_chooses_no_approver_and_softens_none(
    home: Path, folder: Path, act: Act, text: str
) -> None:
    """Neither by choosing, nor by the settings of the one that is chosen."""
    configure(home, f"approver = 'clumsy'\n{CLERK}")
    (folder / ".vibe-llms").mkdir()
    (folder / ".vibe-llms" / "config.toml").write_text(text, encoding="utf-8")

    outcome = act()

    assert "ValueError: stumbled" in outcome.err
    assert not (folder / "drafts" / "a.txt").exists()


def test_a_project_cannot_take_the_approver_away(home: Path, folder: Path, act: Act) -> None:
    """It is not trusted: whoever is to be asked is asked, and the wish is told."""
    configure(home, f"approver = 'clerk'\n{CLERK}")
    (folder / ".vibe-llms").mkdir()
    (folder / ".vibe-llms" / "config.toml").write_text("plugins.disabled = ['desk']\n")

    outcome = act()

    assert outcome.code == ExitCode.SUCCESS
    assert "plugins.disabled" in outcome.err
    assert (folder / "drafts" / "a.txt").exists()


def test_who_disables_the_plugin_stops_everything(home: Path, act: Act) -> None:
    """Then there is no run, rather than one without it."""
    configure(home, f"approver = 'clerk'\nplugins.disabled = ['desk']\n{CLERK}")

    outcome = act()

    assert outcome.code == ExitCode.NOT_FOUND
    assert "Unknown approver 'clerk'" in outcome.err
    assert "desk (disabled)" in outcome.err


def test_a_call_by_hand_goes_the_same_road(vibe: Vibe, folder: Path) -> None:
    """``vibe tools call`` asks whom the configuration names."""
    words = ("tools", "call", "--approver", "clerk", "write_file", "-t", "io", "text=eggs")

    allowed = vibe(*words, "path=drafts/a.txt")
    refused = vibe(*words, "path=../c.txt")

    assert (allowed.code, refused.code) == (0, 9)
    assert "That is not on the desk." in refused.err
    assert list_files(folder) == ["drafts/a.txt"]


async def test_what_may_have_happened_goes_the_same_road() -> None:
    """It is not allowed beforehand; the approver is told of the doubt, and its answer counts."""
    request = produce_approval_request("a", "pay", {"amount": 3}, in_doubt=True)
    heard: list[ApprovalRequest] = []

    class Careful:
        async def approve(self, request: ApprovalRequest) -> Approval | None:
            heard.append(request)
            return deny(request, "Not twice.")

    approver = approving.TerminalApprover(["all"], has_user=lambda: True, policy=Careful())
    approval = await approver.approve(request)

    assert (approval.decision, approval.reason) == (Decision.DENY, "Not twice.")
    assert heard == [request]
