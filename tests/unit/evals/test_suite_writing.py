"""Cases are added to suites, or the suites stay as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.evals.suites import CAPITALS, write_suite
from vibe_llms.evals.suite_reading import read_suite
from vibe_llms.evals.suite_writing import add_run
from vibe_llms.exceptions import ConfigurationError

HEAD = """[[subjects]]
model = "scripted:echo"
[[judges]]
name = "j"
kind = "contains"
"""


def add(suite: Path, expected: str) -> None:
    """Add a kept run to a suite."""
    run = suite.parent / "run_x"
    add_run(suite, "run-x", run, expected=expected, kind="model", subject="scripted:echo")


def test_a_run_is_added_after_all_other_tables(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, CAPITALS + "\n[thresholds]\npass_rate = 0.5")

    add(suite, 'He said "yes".')

    assert read_suite(suite).cases[-1].run == tmp_path / "run_x"
    assert read_suite(suite).cases[-1].expected == 'He said "yes".'


@pytest.mark.parametrize("name", [b"\xff.toml", b"a\nb.toml", b"{}.toml"])
def test_a_new_suite_may_have_any_name(tmp_path: Path, name: bytes) -> None:
    suite = tmp_path / os.fsdecode(name)

    add(suite, "Yes.")

    assert read_suite(suite).cases[0].expected == "Yes."


def test_a_suite_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_bytes(b"# \xff\n" + HEAD.encode())

    with pytest.raises(ConfigurationError, match="must be UTF-8"):
        add(suite, "Yes.")

    assert suite.read_bytes().startswith(b"# \xff")


def test_a_run_can_be_the_first_case(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, HEAD)

    add(suite, "Yes.")

    assert [each.name for each in read_suite(suite).cases] == ["run-x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('cases = [{ name = "a", prompt = "b", expected = "c" }]\n' + HEAD, "a"),
        (HEAD + '[[cases]]\nname = "a"\nprompt = "b"\nexpected = "c"\n', ""),
        (HEAD + '[[cases]]\nprompt = "b"\n"name" = "run-x"\nexpected = "c"\n', "a"),
    ],
)
def test_a_suite_that_would_be_invalid_stays_as_it_is(
    tmp_path: Path, text: str, expected: str
) -> None:
    """With a list of cases on a line, a judge that needs a value, or the same name."""
    suite = write_suite(tmp_path, text)

    with pytest.raises(ConfigurationError):
        add(suite, expected)

    assert suite.read_text("utf-8") == text
