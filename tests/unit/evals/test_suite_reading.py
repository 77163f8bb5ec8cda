"""Suites are read strictly: all mistakes at once, each with file, line and rule."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.evals.suites import CAPITALS, write_suite
from vibe_llms.evals import suite_reading
from vibe_llms.evals.suite_reading import read_suite
from vibe_llms.evals.suites import EvalCase, EvalJudge, EvalSubject, Suite
from vibe_llms.exceptions import ConfigurationError


def test_a_suite_is_read(tmp_path: Path) -> None:
    suite = read_suite(write_suite(tmp_path))

    assert suite.name == "suite"
    assert [each.name for each in suite.cases] == ["france", "italy"]
    assert suite.cases[0].tags == ("europe",)
    assert suite.subjects == (EvalSubject(name="echo", model="scripted:echo"),)
    assert suite.folder == tmp_path


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_bytes(b"\xef\xbb\xbf" + CAPITALS.encode())

    assert len(read_suite(path).cases) == 2


def test_paths_start_at_the_file_and_subjects_are_named_after_what_they_are(tmp_path: Path) -> None:
    text = CAPITALS.replace('name = "echo"\n', "") + '\n[[subjects]]\ntask = "flow.json"\n'
    text += '[[cases]]\nname = "files"\nfiles = ["a.png"]\nprompt = "?"\nexpected = "a"\n'

    suite = read_suite(write_suite(tmp_path, text))

    assert [each.name for each in suite.subjects] == ["scripted:echo", "flow.json"]
    assert suite.subjects[1].task == tmp_path / "flow.json"
    assert suite.cases[2].files == (tmp_path / "a.png",)


def test_all_mistakes_are_reported_with_their_lines(tmp_path: Path) -> None:
    text = CAPITALS.replace("repeats = 2", "repeats = 0").replace(
        'kind = "contains"', 'kind = "contain"'
    )
    text = text.replace("tags", "tag")

    with pytest.raises(ConfigurationError) as caught:
        read_suite(write_suite(tmp_path, text))

    found = {(each.line, each.path) for each in caught.value.findings}
    assert found == {(3, "repeats"), (11, "judges[0].kind"), (17, "cases[0].tag")}
    assert "did you mean" in str(caught.value).lower()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (('expected = "Paris"\n', ""), "'france': The judge 'mentions' needs an expected value"),
        (('name = "italy"', 'name = "france"'), "The name 'france' is used 2 times"),
        (('prompt = "What is the capital of {{ country }}?"\n', ""), "needs a prompt or a run"),
        (('tags = ["europe"]', 'judges = ["mention"]'), "Unknown judge 'mention'"),
        (('kind = "contains"', 'kind = "model"'), "needs a question"),
        (('kind = "contains"', 'kind = "function"'), "needs a function"),
        (('kind = "contains"', 'kind = "json_schema"'), "needs a JSON Schema"),
        (('kind = "contains"', 'kind = "equals"\nquestion = "?"'), '"model" only'),
        (('model = "scripted:echo"', ""), "A subject needs a model or a task"),
        (('tags = ["europe"]', 'answer = "Paris."\nfiles = ["a"]'), "asks no model"),
        (('tags = ["europe"]', "judges = []"), "every answer would pass"),
        (('expected = "Paris"', 'expected = " "'), "needs an expected value"),
        (('expected = "Paris"', 'expected = "a\\u0000"'), "needs an expected value"),
        (('kind = "contains"', 'kind = "model"\nquestion = " "'), "needs a question"),
        (('prompt = "What is the capital of {{ country }}?"', 'prompt = " "'), "needs a prompt"),
        (
            ('kind = "contains"', 'kind = "contains"\ntime_limit_seconds = 1'),
            'the kind "function" or "predicate" only',
        ),
    ],
)
def test_rules_between_values_are_checked(
    tmp_path: Path, change: tuple[str, str], rule: str
) -> None:
    assert change[0] in CAPITALS
    with pytest.raises(ConfigurationError, match=rule) as caught:
        read_suite(write_suite(tmp_path, CAPITALS.replace(*change)))

    assert all(each.line for each in caught.value.findings)


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "true", '"60"', "[1]"])
def test_a_time_limit_is_a_number_of_seconds(tmp_path: Path, limit: str) -> None:
    judge = f'kind = "function"\nfunction = "a.py:f"\ntime_limit_seconds = {limit}'

    with pytest.raises(ConfigurationError, match="a number of seconds above 0"):
        read_suite(write_suite(tmp_path, CAPITALS.replace('kind = "contains"', judge)))


@pytest.mark.parametrize("path", ["suite.toml", "./suite.toml", "a\\u0000b", " "])
def test_a_file_of_cases_that_cannot_be_one_is_named(tmp_path: Path, path: str) -> None:
    """As the suite itself."""
    with pytest.raises(ConfigurationError) as caught:
        read_suite(write_suite(tmp_path, f'case_files = ["{path}"]\n{CAPITALS}'))

    (finding,) = caught.value.findings
    assert finding.path.startswith("case_files")
    assert finding.line == 1


@pytest.mark.parametrize("name", [b"\xff", b"a\nb", b"x" * 240, b" "])
def test_a_suite_is_named_after_any_file(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name + b".toml")
    path.write_text(CAPITALS, "utf-8")

    suite = read_suite(path)

    assert suite.name
    assert suite.name.isprintable()


def test_a_suite_that_is_too_large_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite_reading, "SUITE_BYTES", 100)

    with pytest.raises(ConfigurationError, match=r"larger than 100 bytes\. Move cases"):
        read_suite(write_suite(tmp_path))


@pytest.mark.parametrize("text", ["", "cases = []", "cases = 3", "[cases]", "judges = [1]"])
def test_nonsense_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_suite(write_suite(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml: Cannot read the file"):
        read_suite(tmp_path / "none.toml")


def test_cases_come_from_files_of_lines(tmp_path: Path) -> None:
    """Relative paths in them start at their folder; mistakes name file and line."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [
        {"name": "one", "prompt": "1?", "expected": "1", "files": ["x.txt"]},
        {"name": "two", "prompt": "2?", "expected": "2"},
    ]
    (folder / "cases.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    text = 'case_files = ["data/cases.jsonl"]\n' + CAPITALS

    suite = read_suite(write_suite(tmp_path, text))

    assert [each.name for each in suite.cases] == ["france", "italy", "one", "two"]
    assert suite.cases[2].files == (folder / "x.txt",)
    (folder / "cases.jsonl").write_text('{"name": "one", "prompt": 1}\n[]\n{\n')
    with pytest.raises(ConfigurationError) as caught:
        read_suite(tmp_path / "suite.toml")
    found = [(Path(each.place).name, each.line) for each in caught.value.findings]
    assert found == [("cases.jsonl", 1), ("cases.jsonl", 2), ("cases.jsonl", 3)]


def test_programs_are_checked_like_files() -> None:
    case = EvalCase(name="one", prompt="?", expected="1")
    with pytest.raises(ConfigurationError, match="unique"):
        Suite(
            cases=[case, case],
            subjects=[EvalSubject(name="s", model="scripted:echo")],
            judges=[EvalJudge(name="j", kind="contains")],
        )


def test_a_cap_beyond_floating_point_is_refused(tmp_path: Path) -> None:
    path = write_suite(tmp_path, f"max_cost = 1{'0' * 400}\n{CAPITALS}")

    with pytest.raises(ConfigurationError, match="number of dollars"):
        read_suite(path)
