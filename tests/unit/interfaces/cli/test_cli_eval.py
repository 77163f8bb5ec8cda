"""``vibe eval`` says what it costs, shows what failed, and decides by its exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.evals.suites import CAPITALS, script_model, write_judgment, write_suite
from support.screens.keyboards import Keyboard
from vibe_llms.interfaces.cli.command_line import run
from vibe_llms.testing.simulator import SynchronousSimulator

Vibe = Callable[..., Any]

PASSING = CAPITALS.replace('"Paris"', '"France"')


def test_failures_are_listed_and_decide(vibe: Vibe, home: Path) -> None:
    path = write_suite(home)

    failed = vibe("eval", str(path))
    passed = vibe("eval", str(path), "--case", "italy")
    again = vibe("eval", "run", str(path), "--tag", "europe", "--subject", "echo")

    assert (failed.code, passed.code, again.code) == (1, 0, 1)
    assert failed.out.splitlines()[0].startswith("echo\t2/4\t50%\t15% to 85%")
    assert "failed\tfrance\techo\t0/2\tmentions: The final response does not" in failed.out
    assert "4 trials, 4 requests, no cost." in failed.err
    assert "2 trials, 2 answers cached, 0 requests, no cost." in passed.err
    assert "Cost of this run: $0.00." in failed.err


def test_a_regression_decides(vibe: Vibe, home: Path) -> None:
    """With a lower threshold, failures alone do not."""
    lenient = PASSING + "\n[thresholds]\npass_rate = 0.5\n"
    first = vibe("eval", str(write_suite(home, lenient)), "--output", "first.json")
    changed = lenient.replace("capital of {{ country }}", "capital of that country")
    path = write_suite(home, changed.replace('expected = "Italy"', 'expected = "capital"'))

    second = vibe("eval", str(path), "-o", "second.json", "--against", "first.json")
    compared = vibe("eval", "compare", "first.json", "second.json")
    reversed_ = vibe("eval", "compare", "second.json", "first.json", "--json")

    assert (first.code, second.code, compared.code, reversed_.code) == (0, 1, 1, 0)
    assert "worse\tfrance\techo\t2/2\t0/2\tThe prompt differs. mentions" in second.out
    assert "1 worse, 1 same" in second.err
    assert compared.out in second.out
    assert reversed_.read_json()["changes"][0]["change"] == "better"


def test_programs_read_json(vibe: Vibe, home: Path) -> None:
    path = write_suite(home, PASSING)
    vibe("eval", str(path), "-o", "one.json")

    shown = vibe("eval", str(path), "--json", "--against", "one.json")

    document = shown.read_json()
    assert shown.code == 0
    assert document["summary"]["holds"] is True
    assert document["comparison"] == {"regressions": 0, "changes": []}
    saved = json.loads((home / "one.json").read_text())
    assert [each["case"] for each in saved["trials"]] == ["france"] * 2 + ["italy"] * 2


def test_a_function_that_prints_leaves_json_whole(vibe: Vibe, home: Path) -> None:
    (home / "checks.py").write_text(
        "print('Loaded')\n\ndef check(answer):\n    print('Hello')\n    return True\n"
    )
    path = write_suite(
        home,
        'prompt = "Hi"\n[[subjects]]\nname = "echo"\nmodel = "scripted:echo"\n'
        '[[judges]]\nname = "check"\nkind = "function"\nfunction = "checks.py:check"\n'
        '[[cases]]\nname = "a"\n',
    )

    shown = vibe("eval", str(path), "--json")

    assert shown.read_json()["summary"]["holds"] is True
    assert "Loaded" in shown.err
    assert "Hello" in shown.err


HANGING = """
import pathlib, time

def check(answer):
    while not pathlib.Path(__file__).with_name("released").exists():
        time.sleep(0.01)
    return True
"""


@pytest.mark.parametrize("given", [False, True])
def test_a_function_that_hangs_is_an_error(vibe: Vibe, home: Path, given: bool) -> None:
    """Of an answer of a subject and of a given one; what it says is in the table and in JSON."""
    (home / "checks.py").write_text(HANGING)
    case = 'answer = "Hello."' if given else 'prompt = "Hi"\n[[subjects]]\nmodel = "scripted:echo"'
    write_suite(
        home,
        '[[judges]]\nname = "check"\nkind = "function"\nfunction = "checks.py:check"\n'
        f'time_limit_seconds = 0.001\n[[cases]]\nname = "a"\n{case}\n',
    )

    shown = vibe("eval", "suite.toml")
    document = vibe("eval", "suite.toml", "--json")
    (home / "released").touch()

    assert (shown.code, document.code) == (1, 1)
    assert shown.out.splitlines()[-1].startswith("error\ta\t")
    assert "check exceeded its time limit of 0.001 seconds" in shown.out
    report = document.read_json()
    assert report["summary"]["holds"] is False
    assert report["summary"]["unjudged"] == given
    (verdict,) = report["trials"][0]["verdicts"]
    assert verdict["passed"] is None


def test_a_loop_of_links_is_an_error_of_the_disk(vibe: Vibe, home: Path) -> None:
    (home / "loop").symlink_to("loop")
    write_suite(home)

    shown = vibe("eval", "suite.toml", "--output", "loop")

    assert shown.code == 7
    assert "loop: Too many levels of symbolic links" in shown.err


def test_a_model_that_fails_for_half_of_the_cases_is_asked_about_these_again(
    vibe: Vibe, home: Path
) -> None:
    """Failures are errors in the table and in JSON; what was answered is not asked again."""
    script = home / "half.toml"
    good = '[[responses]]\nmatch = "good"\ncontents = [{ text = "good" }]\n'
    script.write_text(good + '[[responses]]\nmatch = "bad"\nfault = { kind = "invalid-request" }\n')
    names = ("good-1", "bad-1", "good-2", "bad-2")
    write_suite(
        home,
        'prompt = "Is it {{ it }}?"\n[[subjects]]\nname = "half"\nmodel = "scripted:half.toml"\n'
        '[[judges]]\nname = "j"\nkind = "contains"\nexpected = "good"\n'
        + "".join(f'[[cases]]\nname = "{n}"\nvariables = {{ it = "{n}" }}\n' for n in names),
    )

    first = vibe("eval", "suite.toml", "--json")
    again = vibe("eval", "suite.toml")
    only_good = vibe("eval", "suite.toml", "--case", "good-1", "--case", "good-2", "--json")

    document = first.read_json()
    assert (first.code, again.code, only_good.code) == (1, 1, 0)
    assert [bool(each["answer"]["error"]) for each in document["trials"]] == [False, True] * 2
    assert document["summary"]["subjects"][0]["errors"] == 2
    assert "4 trials, 2 answers cached, 2 requests, no cost." in again.err
    assert [line.split("\t")[:2] for line in again.out.splitlines()[1:]] == [
        *(["error", "bad-1"], ["error", "bad-2"])
    ]
    assert only_good.read_json()["summary"]["holds"] is True


def test_mistakes_are_one_line_each(vibe: Vibe, home: Path) -> None:
    path = write_suite(home, CAPITALS.replace("contains", "contain"))

    mistaken = vibe("eval", str(path))
    missing = vibe("eval", "nowhere.toml")
    unknown = vibe("eval", str(write_suite(home)), "--case", "itlay")
    unreadable = vibe("eval", str(path), "--against", str(path))
    typo = vibe("eval", "comapre", "a", "b")
    option = vibe("eval", str(path), "--max-cost", "nan")

    assert (mistaken.code, missing.code, unknown.code) == (3, 3, 4)
    assert (unreadable.code, typo.code, option.code) == (3, 2, 2)
    assert "suite.toml:11: judges[0].kind" in mistaken.err
    assert "'italy'" in unknown.err
    assert "not a report" in unreadable.err
    assert "'compare'" in typo.err


def test_a_judge_that_disagrees_is_warned_about(vibe: Vibe, home: Path) -> None:
    model = script_model(home, "m", write_judgment(True))
    path = write_suite(
        home,
        f'[[judges]]\nname = "polite"\nkind = "model"\nquestion = "Is it polite?"\n'
        f'model = "{model}"\n'
        '[[cases]]\nname = "a"\nanswer = "Please."\nexpected_verdict = true\n'
        '[[cases]]\nname = "b"\nanswer = "Go!"\nexpected_verdict = false\n',
    )

    shown = vibe("eval", str(path))

    again = vibe("eval", str(path))
    assert "2 trials, 2 requests, no cost." in shown.err
    assert "2 trials, 0 requests, no cost." in again.err
    assert shown.code == 0
    assert "Warning: The judge 'polite' agrees with 50% of 2 labels, kappa 0.00." in shown.err
    assert "do not rely on its verdicts" in shown.err


def test_hostile_names_do_not_control_the_terminal(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CAPITALS.replace('name = "france"', 'name = "<script>\\u001b[35m"')
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    shown = vibe("eval", str(write_suite(home, text)))

    assert "<script>" in shown.out
    assert "\x1b[35m" not in shown.out


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[SynchronousSimulator]:
    """A vendor with prices, and a suite that asks it."""
    model = "anthropic:claude-sonnet-4-5"
    write_suite(home, PASSING.replace("scripted:echo", model).replace("repeats = 2", ""))
    with SynchronousSimulator() as running:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-simulated")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 9)])
def test_the_user_is_asked_before_it_costs_anything(
    simulator: SynchronousSimulator, keyboard: Keyboard, answer: str, code: int
) -> None:
    shown: list[str] = []
    keyboard.plug_in()
    keyboard.answer("[y/N]", f"{answer}\n", shown.append)

    assert run(("eval", "suite.toml")) == code

    assert "Run the suite? [y/N]" in shown[0]
    assert len(simulator.requests) == (2 if answer == "y" else 0)


def test_in_a_pipe_the_cost_is_said_and_nobody_asked(
    vibe: Vibe, simulator: SynchronousSimulator
) -> None:
    shown = vibe("eval", "suite.toml")
    again = vibe("eval", "suite.toml")

    assert (shown.code, again.code) == (0, 0)
    assert re.search(r"2 trials, 2 requests, about \$0\.01", shown.err)
    assert "2 answers cached, 0 requests, no cost." in again.err
    assert "Cost of this run: $0.00." in again.err


def test_the_cost_of_judges_is_said_before(
    vibe: Vibe, home: Path, simulator: SynchronousSimulator
) -> None:
    """With what is assumed; and that a cap does not suffice for them."""
    model = "anthropic:claude-sonnet-4-5"
    write_suite(
        home,
        f'[[judges]]\nname = "polite"\nkind = "model"\nquestion = "Is it polite?"\n'
        f'model = "{model}"\ncontrols = {{ max_tokens = 400 }}\nrepeats = 10\n'
        + "".join(f'[[cases]]\nname = "c{n}"\nanswer = "{n}"\n' for n in range(5)),
    )

    none = vibe("eval", "suite.toml", "--max-cost", "0.01")
    some = vibe("eval", "suite.toml", "--max-cost", "0.2")
    enough = vibe("eval", "suite.toml", "--max-cost", "1", "--fresh")

    forecast = re.search(
        r"50 requests, about (\$0\.3\d+), of which (.*) for judges, assuming up to 500 tokens",
        none.err,
    )
    assert forecast is not None, none
    assert forecast[1] == forecast[2]
    assert "A verdict of 'polite' may cost up to $" in none.err
    assert none.code == 8
    assert "The judges alone will cost about $0.3" in some.err
    assert "A verdict of 'polite' may cost" not in some.err
    assert "Warning" not in enough.err


def test_a_cap_that_allows_nothing_says_why(vibe: Vibe, simulator: SynchronousSimulator) -> None:
    """The exit code is that of a limit, not of a failure."""
    shown = vibe("eval", "suite.toml", "--max-cost", "0.01")

    assert shown.code == 8, shown
    assert simulator.requests == []
    assert "Warning: An answer of 'echo' may cost up to $" in shown.err
    assert "Set max_tokens" in shown.err
    assert "2 trials not tried" in shown.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "none/a.json"], "--output: The folder 'none' does not exist"),
        (["--html", "none/a.html"], "--html: The folder 'none' does not exist"),
        (["--output", "a", "--html", "./a"], "--html and --output are the same file"),
        (["--output", "suite.toml"], "--output and SUITE are the same file"),
        (["--output", "-"], "--output: Name a file; --json writes"),
    ],
)
def test_files_are_checked_before_anything_is_sent(
    vibe: Vibe, home: Path, options: list[str], message: str
) -> None:
    path = write_suite(home)
    before = path.read_text()

    refused = vibe("eval", "suite.toml", *options)

    assert refused.code == 2
    assert message in refused.err
    assert "request" not in refused.err
    assert path.read_text() == before


def test_subjects_without_trials_do_not_fail(vibe: Vibe, home: Path) -> None:
    """Given answers ask no subject."""
    given = '[[cases]]\nname = "given"\nvariables = { country = "X" }\n'
    path = write_suite(home, CAPITALS + given + 'answer = "Paris"\nexpected = "Paris"\n')

    shown = vibe("eval", str(path), "--case", "given")

    assert (shown.code, shown.out) == (0, "")


def test_a_report_of_another_suite_is_remarked(vibe: Vibe, home: Path) -> None:
    path = write_suite(home, PASSING)
    vibe("eval", str(path), "-o", "one.json")
    other = home / "other.toml"
    other.write_text(PASSING, "utf-8")

    same = vibe("eval", str(path), "--against", "one.json")
    different = vibe("eval", str(other), "--against", "one.json")

    assert "Warning" not in same.err
    assert "one.json is a report of the suite 'suite', not 'other'." in different.err
