"""``vibe rank`` and ``vibe moderate``: tables, JSON, limits and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.interfaces.cli.group import produce_group
from vibe_llms.testing.simulator import SynchronousSimulator


def run(*arguments: str, given: str | None = None) -> Result:
    """Runs ``vibe``."""
    return CliRunner().invoke(produce_group(), arguments, input=given)


def find_code(*arguments: str, given: str | None = None) -> tuple[int, str]:
    """Runs ``vibe`` as its program does; returns the exit code and the output."""
    done = CliRunner().invoke(produce_group(), arguments, input=given, standalone_mode=False)
    assert done.exception is None
    return int(done.return_value or 0), done.stdout


@pytest.fixture
def moderator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets the environment lead OpenAI's provider to the simulator."""
    with SynchronousSimulator() as simulator:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{simulator.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "canary")
        yield


def test_the_best_line_comes_first() -> None:
    done = run(
        "rank", "red house", "-m", "scripted:words", "-n", "1", given="blue sea\nred house\n"
    )

    assert done.exit_code == 0, done.output
    assert done.stdout == "1.000\tred house\n"
    assert "embedder" in done.stderr  # a loss


def test_a_program_reads_scores_and_places() -> None:
    done = run("rank", "red", "blue", "red", "-m", "scripted:words", "--json")

    told = json.loads(done.stdout)
    assert [(each["index"], each["text"]) for each in told["ranked"]] == [(1, "red"), (0, "blue")]
    assert (told["model"], told["input_tokens"]) == ("scripted:words", 3)
    assert len(told["losses"]) == 1


@pytest.mark.usefixtures("moderator")
@pytest.mark.parametrize(("text", "code"), [("hello", 0), ("I kill you", 1)])
def test_the_exit_code_says_whether_a_text_is_harmful(text: str, code: int) -> None:
    found, output = find_code("moderate", "-m", "openai:omni-moderation-latest", "fine", text)

    assert found == code
    lines = output.splitlines()
    assert lines[0] == "harmless\tfine"
    assert lines[1].startswith("violence" if code else "harmless")


@pytest.mark.usefixtures("moderator")
def test_a_program_reads_scores_of_categories() -> None:
    code, output = find_code("moderate", "-m", "openai:m", "--json", given="hello\nkill\n")

    told = json.loads(output)
    assert [each["categories"] for each in told["verdicts"]] == [[], ["violence"]]
    assert told["verdicts"][1]["scores"]["violence"] == 0.97
    assert code == 1


def test_without_a_moderator_the_remedy_sets_one() -> None:
    done = run("moderate", "hello")

    assert isinstance(done.exception, ConfigurationError)
    assert "vibe config set moderator" in done.exception.remedy


@pytest.mark.usefixtures("moderator")
def test_the_moderator_that_is_set_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(tmp_path / "vibe.toml"))

    assert find_code("config", "set", "moderator", "openai:m")[0] == 0

    assert find_code("moderate", "kill")[0] == 1
