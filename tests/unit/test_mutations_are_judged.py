"""What is said of a change that survived: another wording, explained, or neither; and that one
run at a time looks for such."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from support.quality import mutations
from vibe_llms.logs.locks import locked

SOURCES = Path(__file__).parents[2] / "sources"
SHOWN = """# vibe_llms.engine.x.x_f__mutmut_3: survived
--- src/vibe_llms/engine/x.py
+++ src/vibe_llms/engine/x.py
@@ -1,4 +1,4 @@
 def f(a):
-    if   a > 1:
+    if a >= 1:
         return -1
     return 0
"""


def test_a_change_is_its_lines_without_their_spaces() -> None:
    """So that it is found again though the code around it moved."""
    assert mutations.read_change(SHOWN) == "-if a > 1:\n+if a >= 1:"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ('-raise E("It is late.")\n+raise E("XXIt is late.XX")', True),
        ('-raise E("It is late.")\n+raise E("IT IS LATE.")', True),
        ('-raise E("It is late.")\n+raise E(None)', False),
        ('-x = f(e, "s", None) or "no text"\n+x = f(e, "s", None) or "XXno textXX"', True),
        ('-x = f(e, "s", None) or "no text"\n+x = f(e, "S", None) or "no text"', False),
        ('-state = "ended"\n+state = "XXendedXX"', False),
        ('-f("a b", 1)\n+f("A B", 2)', False),
        ("", False),
    ],
)
def test_only_words_that_people_read_may_be_others(change: str, expected: bool) -> None:
    """A word alone may be one that programs compare."""
    assert mutations.is_wording(change) == expected


def test_what_is_explained_and_does_not_survive_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was noticed, or all is, as where tests fail of something else; of what was not tried, or
    took long, nobody knows."""
    explanations = tmp_path / "mutations.toml"
    entry = '[[stays]]\nwhere = "m.{}"\nchange = """\n-if a > 1:\n+if a >= 1:\n"""\nreason = "."\n'
    explanations.write_text("".join(entry.format(name) for name in ("x_f", "x_g", "x_h")))
    monkeypatch.setattr(mutations, "EXPLANATIONS", explanations)

    def judge(*found: tuple[str, str]) -> tuple[int, str]:
        survey = [(f"m.{name}__mutmut_1", status, lambda: SHOWN) for name, status in found]
        monkeypatch.setattr(mutations, "_survey", lambda: iter(survey))
        return mutations.judge(), capsys.readouterr().out

    assert judge(*((f"x_{name}", "survived") for name in "fgh"))[0] == 0
    assert judge(("x_f", "timeout"), ("x_g", "not checked"), ("x_h", "survived"))[0] == 0
    ended, told = judge(("x_f", "killed"), ("x_g", "not checked"), ("x_h", "survived"))
    assert ended == 1
    assert told.startswith("m.x_f does not survive, though it is explained\n-if a > 1:\n")
    assert told.count("does not survive") == 1
    assert judge(("x_g", "survived"), ("x_h", "survived"))[0] == 1  # nothing is called so any more
    assert judge() == (0, "No unexplained survivors.\n")  # nothing of the module was tried
    assert judge(*((f"x_{name}", "survived") for name in "fghi"))[0] == 1


def test_each_explanation_says_why() -> None:
    """And is written as the command compares it."""
    for each in tomllib.loads(mutations.EXPLANATIONS.read_text("utf-8"))["stays"]:
        assert each["reason"].strip().endswith("."), each
        lines = each["change"].strip().splitlines()
        assert all(line[0] in "-+" and line[1:] == " ".join(line[1:].split()) for line in lines)


def test_what_tests_reach_is_found_out_anew_where_anything_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a function that has moved would be reached by none, and each change of it survive."""
    root, workspace = tmp_path / "root", tmp_path / "workspace"
    for name in ("sources", "tests", "data"):
        (root / name).mkdir(parents=True)
        (root / name / "a.py").write_text("1")
    (root / "pyproject.toml").write_text("")
    (workspace / "mutants").mkdir(parents=True)
    monkeypatch.setattr(mutations, "ROOT", root)
    monkeypatch.setattr(mutations, "WORKSPACE", workspace)
    monkeypatch.setattr(mutations, "TEMPORARY", workspace / "temporary")
    known = workspace / "mutants" / "mutmut-stats.json"

    mutations.prepare_workspace()
    for change in ((root / "tests/b.py").touch, (root / "sources/a.py").unlink):
        known.write_text("{}")
        mutations.prepare_workspace()
        assert known.exists()
        change()
        mutations.prepare_workspace()
        assert not known.exists()


def test_a_second_run_leaves_the_workspace_to_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would copy its files below the one that is under way."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.setattr(mutations, "WORKSPACE", workspace)

    with locked(str(workspace / "lock")):
        assert mutations.main(["run", "nothing"]) == 1

    assert "locked" in capsys.readouterr().err
    assert [path.name for path in workspace.iterdir()] == ["lock"]


def test_each_explained_change_is_one_of_the_code_as_it_is() -> None:
    """A name that was changed in the code has to change there, too."""
    entries = tomllib.loads(mutations.EXPLANATIONS.read_text("utf-8"))["stays"]
    stale = [entry["where"] for entry in entries if not _is_current(entry)]

    assert entries
    assert stale == []


def _is_current(entry: dict[str, str]) -> bool:
    module, _, function = entry["where"].replace(".xǁ", ".x_").rpartition(".x_")
    path = SOURCES / f"{module.replace('.', '/')}.py"
    if not path.exists():
        return False
    code = "".join(path.read_text("utf-8").split())
    removed = [line[1:] for line in entry["change"].splitlines() if line.startswith("-")]
    name = function.rpartition("ǁ")[2]
    return f"def{name}(" in code and all("".join(line.split()) in code for line in removed)
