"""Every vendor as a user meets it: ``vibe ask -m provider:model``, against simulated vendors."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import tomli_w

from support.quality.properties import sample
from support.screens.command_line import VIBE, produce_environment
from vibe_llms.interfaces.cli.command_line import run
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.testing.simulator import Say, SynchronousSimulator
from vibe_llms.testing.simulator.behaviour import produce_png

PLACES = {
    "anthropic": ("", ""),
    "deepseek": ("deepseek", "/v1"),
    "google": ("", ""),
    "groq": ("groq", "/v1"),
    "llamacpp": ("llama_cpp", "/v1"),
    "mistral": ("mistral", "/v1"),
    "ollama": ("", ""),
    "openai_conversations": ("", "/v1"),
    "openai_responses": ("", "/v1"),
    "openrouter": ("openrouter", "/v1"),
    "perplexity": ("perplexity", ""),
    "vllm": ("vllm", "/v1"),
    "xai": ("xai", "/v1"),
}
"""From each provider to its quirks in the simulator, and to the path of its address."""

KEYLESS = {"llamacpp", "ollama", "vllm"}
"""Servers of one's own, which need no key."""

SILENT = {"openai_conversations", "perplexity"}
"""Vendors whose protocol keeps reasoning to itself."""

KEY = "canary-5d1f"
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


def some_providers(turn: int) -> pytest.MarkDecorator:
    """Tries a test with its share of the providers: the commands are the same for all of them."""
    return pytest.mark.parametrize("name", sample(sorted(PLACES), turn))


class Screen(io.StringIO):
    """A terminal, as far as a program can tell."""

    def isatty(self) -> bool:
        return True


@attrs.frozen
class Outcome:
    """What a command line came to."""

    code: int
    out: str
    err: str


Vibe = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, also the working directory, in a world without keys."""
    for variable in list(os.environ):
        if variable.startswith(("XDG_", "VIBE_")) or variable.endswith("_API_KEY"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dot.png").write_bytes(produce_png(8, 6))
    (tmp_path / "colour.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    return tmp_path


@pytest.fixture
def vibe(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Vibe:
    """Performs a command line in this process; nothing is a terminal unless it is said so."""

    def perform(*arguments: str, screen: Screen | None = None) -> Outcome:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
            if screen is not None:
                patch.setattr(sys, "stdout", screen)
            code = run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, screen.getvalue() if screen else captured.out, captured.err)

    return perform


def configure(home: Path, address: str, simulate: str = "", **settings: Any) -> None:
    """Writes a user's configuration in which every vendor is at an address, and asked twice."""
    providers = {}
    for name, (quirks, path) in PLACES.items():
        wanted = ",".join(filter(None, (quirks, simulate)))
        base = f"{address}/simulate/{wanted}" if wanted else address
        providers[name] = {"base_url": base + path, "api_key": KEY, **settings}
    file = home / ".config" / "vibe-llms" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    table = {"providers": providers, "limits": {"attempts": 2}}
    file.write_text(tomli_w.dumps(table), encoding="utf-8")


@pytest.fixture
def at_vendors(home: Path, simulator: SynchronousSimulator) -> SynchronousSimulator:
    """All vendors, configured."""
    configure(home, simulator.url)
    return simulator


def expect_one_line(outcome: Outcome, code: ExitCode) -> str:
    """Returns the error, of which nothing but one line may be told."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    *before, line = outcome.err.splitlines()
    assert all(each.startswith("Retrying in ") for each in before)
    assert line.startswith("vibe: error: ")
    assert KEY not in outcome.err
    assert "Traceback" not in outcome.err
    return line


@pytest.mark.slow
@pytest.mark.samples
@some_providers(0)
def test_a_question_is_answered(at_vendors: SynchronousSimulator, vibe: Vibe, name: str) -> None:
    """In a pipe there is the answer and nothing else, whether it came in pieces or not."""
    for way in ("--stream", "--no-stream"):
        outcome = vibe("ask", "-m", f"{name}:m", way, "Is", "it", "überall?")

        assert outcome == Outcome(0, "Is it überall?\n", "")
    assert all(request.answered for request in at_vendors.requests)


@pytest.mark.samples
@some_providers(1)
def test_a_picture_is_seen(at_vendors: SynchronousSimulator, vibe: Vibe, name: str) -> None:
    """And arrives without a loss."""
    outcome = vibe("ask", "-m", f"{name}:m", "--strict", "-f", "dot.png", "What is it?")

    assert outcome == Outcome(0, "I see image/png of 8 x 6 pixels.\n", "")


@pytest.mark.samples
@some_providers(2)
def test_an_answer_conforms_to_its_schema(
    at_vendors: SynchronousSimulator, vibe: Vibe, name: str
) -> None:
    """Held by the vendor; one that cannot is told of it in words, and this is said."""
    if name == "deepseek":
        at_vendors.enqueue(Say('{"colour": "red"}'))
    outcome = vibe("ask", "-m", f"{name}:m", "--schema", "colour.json", "Which colour?")

    assert outcome.code == 0, outcome
    assert json.loads(outcome.out)["colour"] in ("red", "blue")
    if name == "deepseek":
        assert outcome.err.startswith("Changed in translation: schema: ")
        assert "colour" in json.dumps(at_vendors.requests[-1].body["messages"])
    else:
        assert outcome.err == ""


@pytest.mark.slow
@pytest.mark.samples
@some_providers(3)
def test_reasoning_is_shown_to_a_person_and_kept_from_a_pipe(
    at_vendors: SynchronousSimulator, vibe: Vibe, name: str
) -> None:
    """On a terminal it stands before the answer; a program finds it in the JSON."""
    screen = Screen()
    seen = vibe("ask", "-m", f"{name}:m", "think", screen=screen)
    piped = vibe("ask", "-m", f"{name}:m", "think")
    read = json.loads(vibe("ask", "-m", f"{name}:m", "--json", "think").out)

    contents = [content for each in read["canisters"] for content in each["content"]]
    thoughts = [each for each in contents if each["type"] == "reasoning"]
    assert read["text"] == "think"
    assert piped == Outcome(0, "think\n", "")
    if name in SILENT:
        assert (thoughts, seen.out) == ([], "think\n")
        return
    (thought,) = ("".join([each.get("text", ""), *each.get("summary", ())]) for each in thoughts)
    assert thought.startswith("The user asks")
    assert seen.out == f"{thought}\nthink\n"


@pytest.mark.samples
@some_providers(4)
def test_a_program_reads_where_an_answer_is_from(
    at_vendors: SynchronousSimulator, vibe: Vibe, name: str
) -> None:
    """One line of JSON, and what the exchange took."""
    outcome = vibe("ask", "-m", f"{name}:m", "--json", "Hello")

    assert outcome.err == ""
    assert outcome.out.count("\n") == 1
    read = json.loads(outcome.out)
    assert read["text"] == "Hello"
    assert read["origin"]["provider"] == name
    assert read["origin"]["stop_reason"] == "answered"
    assert read["origin"]["usage"]["output_tokens"] > 0
    assert read["losses"] == []


@pytest.mark.samples
@some_providers(5)
def test_a_wrong_key_is_one_line_that_says_what_to_do(
    home: Path, simulator: SynchronousSimulator, vibe: Vibe, name: str
) -> None:
    """Without a word of the key; a server of one's own was told none, and takes any."""
    configure(home, simulator.url, api_key=f"{KEY}-wrong")
    outcome = vibe("ask", "-m", f"{name}:m", "Hello")

    if name in ("llamacpp", "vllm"):
        assert outcome.code == 0
        return
    line = expect_one_line(outcome, ExitCode.PROVIDER)
    assert f"{name} failed (authentication)" in line
    assert "_API_KEY" in line
    assert len(simulator.requests) <= 2  # Ollama is asked what the model can do


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PLACES.keys() - KEYLESS))
def test_a_key_that_is_missing_is_named(home: Path, vibe: Vibe, name: str) -> None:
    """By the variable that would hold it."""
    line = expect_one_line(vibe("ask", "-m", f"{name}:m", "Hello"), ExitCode.CONFIGURATION)

    assert f"key for {name} is missing. Set " in line
    assert "_API_KEY" in line
    assert vibe("list").out == ""  # nothing was begun that could not be answered


@pytest.mark.samples
@some_providers(6)
def test_a_vendor_that_is_down_is_one_line(home: Path, vibe: Vibe, name: str) -> None:
    """It names the address, and what to do; nothing was sent or begun."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, and nobody listens
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        configure(home, f"http://{address}")
        outcome = vibe("ask", "-m", f"{name}:m", "Hello")

    line = expect_one_line(outcome, ExitCode.PROVIDER)
    assert f"is not running at {address}." in line or f"{address} cannot be reached" in line
    assert "Start it" in line
    assert vibe("list").out == ""


@pytest.mark.slow
@pytest.mark.samples
@some_providers(7)
def test_a_retry_is_seen(
    home: Path, simulator: SynchronousSimulator, vibe: Vibe, name: str
) -> None:
    """One line on the other stream, with the seconds that the vendor asked for."""
    times = 2 if name == "ollama" else 1  # it is asked first what the model can do
    configure(home, simulator.url, f"rate_limit={times}")
    outcome = vibe("ask", "-m", f"{name}:m", "Hello")

    assert outcome.code == 0
    assert outcome.out == "Hello\n"
    (line,) = outcome.err.splitlines()
    assert line.startswith("Retrying in ")
    assert f" s: {name} failed (rate-limited): " in line
    assert len(simulator.requests) == times + 1


@pytest.mark.slow
@pytest.mark.samples
@some_providers(8)
def test_an_answer_is_stopped_midway(
    home: Path,
    simulator: SynchronousSimulator,
    vibe: Vibe,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C: what came is shown and kept, and the vendor is told at once to stop."""
    configure(home, simulator.url, "slow=60")
    words = " ".join(f"word{number}" for number in range(400))

    class Impatient(Screen):
        """A terminal whose person presses Ctrl-C when the first word is there."""

        pressed = False

        def write(self, text: str) -> int:
            written = super().write(text)
            if "word0" in self.getvalue() and not self.pressed:
                self.pressed = True
                signal.raise_signal(signal.SIGINT)
            return written

    outcome = vibe("ask", "-m", f"{name}:m", words, screen=Impatient())

    assert outcome.code == ExitCode.INTERRUPTED, outcome
    assert outcome.err == ""
    assert "word0" in outcome.out
    assert "word399" not in outcome.out
    assert not simulator.requests[-1].answered
    (kept,) = json.loads(vibe("list", "--json").out)
    said = vibe("show", kept["id"]).out
    assert said.count("word0") == 2  # asked, and answered so far


@pytest.mark.slow
def test_the_vendors_tell_their_models(
    at_vendors: SynchronousSimulator, home: Path, vibe: Vibe
) -> None:
    """All of them when asked again, and with their age when not."""
    asked = vibe("models", "list", "--refresh", "--json")
    known = len(at_vendors.requests)
    again = vibe("models", "list", "--provider", "groq")

    assert asked.code == 0
    assert asked.err.startswith("Not asked (key, package or server is missing): ")
    assert " azure, " in asked.err
    assert " deepgram, " in asked.err  # its models are known without it
    assert "deepgram:nova-3" in {row["address"] for row in json.loads(asked.out)}
    assert len(asked.err.splitlines()) == 1
    addresses = {row["address"] for row in json.loads(asked.out) if row["fetched_at"]}
    assert {address.partition(":")[0] for address in addresses} == PLACES.keys()
    assert again.out.startswith("\tgroq:simulated-large\tconverser\tas of ")
    assert len(at_vendors.requests) == known


@pytest.mark.slow
def test_a_vendor_that_lists_nothing_costs_a_line_and_not_the_others(
    at_vendors: SynchronousSimulator, home: Path, vibe: Vibe
) -> None:
    """What could be asked is listed."""
    configure(home, at_vendors.url, api_key="wrong")
    outcome = vibe("models", "list", "--refresh")

    assert outcome.code == 0
    assert "vllm:simulated-large" in outcome.out
    assert "Cannot ask anthropic: anthropic failed (authentication)" in outcome.err


def test_the_providers_are_listed_with_no_vendor_asked(
    at_vendors: SynchronousSimulator, vibe: Vibe
) -> None:
    """Each of them, ready or not."""
    outcome = vibe("providers", "--json")

    states = {row["name"]: row["state"] for row in json.loads(outcome.out)}
    assert states.keys() >= PLACES.keys()
    assert {states[name] for name in PLACES} == {"available"}
    assert at_vendors.requests == []


@pytest.mark.parametrize("name", ["azure", "bedrock"])
def test_a_vendor_without_a_model_says_how_to_find_one(home: Path, vibe: Vibe, name: str) -> None:
    """What is asked at a cloud is a deployment of the user's own, which can be set."""
    line = expect_one_line(vibe("ask", "-m", name, "Hello"), ExitCode.NOT_FOUND)

    assert f"{name}:model" in line
    assert f"set model in [providers.{name}]" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(PLACES.keys() - {"llamacpp", "ollama", "vllm"} | {"openai", "gemini"})
)
def test_the_name_of_a_vendor_is_enough(
    home: Path, vibe: Vibe, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """``vibe ask --provider`` has a default model, and lacks nothing but the key."""
    for variable in [each for each in os.environ if each.endswith("_API_KEY")]:
        monkeypatch.delenv(variable)

    line = expect_one_line(vibe("ask", "--provider", name, "Hello"), ExitCode.CONFIGURATION)

    assert "key for" in line
    assert "_API_KEY, or api_key_file in [providers." in line


@pytest.mark.parametrize("name", ["llamacpp", "ollama", "vllm", "lmstudio"])
def test_a_server_that_does_not_run_says_how_it_is_started(
    home: Path, vibe: Vibe, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is asked which model it has, and nobody is there."""
    configure_nowhere = f'[providers.{name}]\nbase_url = "http://127.0.0.1:9/v1"\n'
    (home / "nowhere.toml").write_text(configure_nowhere)
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(home / "nowhere.toml"))

    line = expect_one_line(vibe("ask", "--provider", name, "Hello"), ExitCode.PROVIDER)

    assert "Start it: " in line


@pytest.mark.slow
def test_a_model_that_the_user_has_set_is_the_default(
    home: Path, simulator: SynchronousSimulator, vibe: Vibe
) -> None:
    """As the error says that it can be."""
    configure(home, simulator.url, model="chosen")

    for name in PLACES:
        assert vibe("ask", "-m", name, "Hello") == Outcome(0, "Hello\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["anthropic", "groq"])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_a_process_is_stopped_midway(
    home: Path, simulator: SynchronousSimulator, name: str
) -> None:
    """As the shell does it; the exit code says that it was the user."""
    configure(home, simulator.url, "slow=60")
    words = " ".join(f"word{number}" for number in range(400))
    with subprocess.Popen(
        [*VIBE, "ask", "-m", f"{name}:m", words],
        env=produce_environment(home, PYTHONUNBUFFERED="1"),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.read(5)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=60)

    assert first == b"word0"
    assert b"word399" not in rest
    assert rest.endswith(b"\n")
    assert (process.returncode, err) == (ExitCode.INTERRUPTED, b"")
