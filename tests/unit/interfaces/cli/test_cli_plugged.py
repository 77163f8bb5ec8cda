"""What a stranger's plugin brings is there on the command line, beside what ships."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vibe_llms import Application, SyncEngine, SyncModel
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.exchange.formats import (
    choose_importer,
    find_format,
    read_document,
)
from vibe_llms.exceptions import CodecError, PluginError, RequestError, UnknownNameError
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.messages.views import text_of
from vibe_llms.plugins import ImporterSpecification, PluginManager
from vibe_llms.testing.simulator import SynchronousSimulator

Vibe = Callable[..., Any]
Plug = Callable[..., Path]

EXAMPLES = Path(__file__).parents[3] / "fixtures" / "example-plugins"

CLUMSY = """
from vibe_llms.plugins import ExporterSpecification, ImporterSpecification, hook

def fail(*arguments):
    raise ZeroDivisionError("no ink")

@hook
def survey_exporters():
    return [
        ExporterSpecification("markdown", "takes another's place", (".md",), fail),
        ExporterSpecification("blank", "fails", (".blank",), fail),
        ExporterSpecification("bytes", "is no text", (".bytes",), lambda *arguments: b""),
    ]

@hook
def survey_importers():
    return [
        ImporterSpecification("blind", "fails", (".blind",), fail, fail),
        ImporterSpecification("blank", "fails", (".blank",), lambda path: True, fail),
        ImporterSpecification("odd", "yields no", (".odd",), lambda path: True, lambda path: [1]),
    ]
"""


@pytest.fixture
def plug(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plug]:
    """Names modules in ``[plugins]`` of the user's configuration; each perhaps with its text."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.syspath_prepend(home)
    before = set(sys.modules)

    def perform(name: str, text: str = "", more: str = "") -> Path:
        if text:
            (home / f"{name}.py").write_text(text, encoding="utf-8")
        file = home / ".config/vibe-llms/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"{more}\n[plugins.{name}]\nmodule = '{name}'\n")
        return file

    yield perform
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(
            (str(home), str(EXAMPLES))
        ):
            del sys.modules[name]


def ask(vibe: Vibe, *arguments: str) -> str:
    """Asks and returns the id of the conversation."""
    return str(vibe("ask", "--json", *arguments).read_json()["conversation"])


def test_a_plugin_s_form_is_exported_by_its_name_and_by_a_file_s_ending(
    vibe: Vibe, home: Path, plug: Plug
) -> None:
    """``vibe export`` writes a stranger's form as it does those that ship."""
    plug("screenplay")
    identity = ask(vibe, "Good morning")

    shown = vibe("export", identity, "--format", "screenplay")
    written = vibe("export", identity, "--output", "scene.play")

    assert (shown.code, written.code) == (0, 0)
    assert shown.out == "USER: Good morning\nASSISTANT: Good morning\n"
    assert (home / "scene.play").read_text() == shown.out


def test_a_form_that_there_is_not_is_told_with_the_nearest(vibe: Vibe, plug: Plug) -> None:
    """A slip in a form's name, or in a file's ending, costs one line with those that there are."""
    plug("screenplay")
    identity = ask(vibe, "Hi")

    slip = vibe("export", identity, "--format", "screnplay")
    ending = vibe("export", identity, "--output", "out.txt")

    assert (slip.code, slip.out) == (ExitCode.NOT_FOUND, "")
    assert "Unknown format 'screnplay'; did you mean 'screenplay'?" in slip.err
    assert ".md, .markdown, .json, .html, .play" in ending.err


@pytest.mark.slow
def test_an_exporter_that_fails_is_named_and_takes_nobody_s_place(
    vibe: Vibe, home: Path, plug: Plug
) -> None:
    """What a stranger's code raises, or returns instead of a text, is one line about it."""
    plug("clumsy", CLUMSY)
    identity = ask(vibe, "Hi")

    assert vibe("export", identity, "--format", "markdown").out.startswith("---")
    for name, words in (("blank", "ZeroDivisionError: no ink"), ("bytes", "returned bytes")):
        outcome = vibe("export", identity, "--output", f"out.{name}")
        assert outcome.code != 0
        assert len(outcome.err.strip().splitlines()) == 1
        assert words in outcome.err
        assert not (home / f"out.{name}").exists()


def survey_importers() -> tuple[ImporterSpecification, ...]:
    """Returns the importers of the configured plugins."""
    manager = PluginManager(configuration=load_configuration())
    return manager.survey_specifications(ImporterSpecification)


def test_a_plugin_s_form_is_recognized_and_read(home: Path, plug: Plug) -> None:
    """The first form that recognizes a file reads it; what is lost on the way is told."""
    plug("screenplay")
    path = home / "Scene.PLAY"
    path.write_text("USER: Hello\nASSISTANT: Good day\n(exit, pursued by a bear)\n")

    form = choose_importer(survey_importers(), path)
    (found,) = read_document(form, path)

    assert form.name == "screenplay"
    assert [text_of(each) for each in found.value.canisters] == ["Hello", "Good day"]
    assert [str(loss) for loss in found.losses] == ["dropped line 3: nobody says this line"]


def test_what_vibe_exports_as_json_is_recognized_and_read(vibe: Vibe, home: Path) -> None:
    """The JSON of an export comes back by the same door, with its id and every canister."""
    identity = ask(vibe, "Hi")
    vibe("export", identity, "--output", "out.json")

    form = choose_importer(survey_importers(), home / "out.json")
    (found,) = read_document(form, home / "out.json")

    assert (form.name, found.value.id, found.losses) == ("json", identity, ())
    assert [text_of(each) for each in found.value.canisters] == ["Hi", "Hi"]


def test_a_file_in_no_known_form_is_refused(home: Path, plug: Plug) -> None:
    """The error names the file and the forms that there are."""
    forms = survey_importers()
    (home / "other.json").write_text('{"hello": 1}')
    (home / "other.txt").write_text("hello")

    for name, words in (
        ("other.json", "not in a known format. Known: json (the"),
        ("other.txt", "not in a known format"),
        ("absent.json", "absent.json: No such file"),
    ):
        with pytest.raises(RequestError) as caught:
            choose_importer(forms, home / name)
        assert name in str(caught.value)
        assert words in str(caught.value)
    with pytest.raises(UnknownNameError, match="Unknown format 'jsn'; did you mean 'json'"):
        find_format(forms, "jsn")


def test_a_document_that_is_damaged_is_refused_with_its_name(home: Path) -> None:
    """A file that begins as ours and does not go on so is named, with the place in it."""
    path = home / "cut.json"
    path.write_text('{"format": "vibe-llms.conversation", "version": 1, "canisters"')
    form = choose_importer(survey_importers(), path)

    with pytest.raises(CodecError, match=r"cut\.json: Invalid JSON"):
        list(read_document(form, path))


def test_an_importer_that_fails_is_named(home: Path, plug: Plug) -> None:
    """What a stranger's code raises, or yields instead of conversations, is an error about it."""
    plug("clumsy", CLUMSY)
    forms = survey_importers()
    for name in ("x.blind", "x.blank", "x.odd"):
        (home / name).write_text("")

    with pytest.raises(PluginError, match=r"'blind' failed to recognize .*x\.blind: ZeroDivision"):
        choose_importer(forms, home / "x.blind")
    with pytest.raises(PluginError, match=r"'blank' failed to read .*x\.blank: ZeroDivision"):
        list(read_document(choose_importer(forms, home / "x.blank"), home / "x.blank"))
    with pytest.raises(PluginError, match="'odd' returned int instead of a Translation"):
        list(read_document(choose_importer(forms, home / "x.odd"), home / "x.odd"))


def test_a_plugin_s_listener_hears_of_every_run(
    vibe: Vibe, home: Path, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears the run from beginning to end, and those that fail beside it harm nobody."""
    plug("run_diary")
    monkeypatch.setenv("RUN_DIARY", str(home / "diary"))

    outcome = SyncEngine("scripted:echo", application=Application.load()).answer("Hello")

    words = (home / "diary").read_text().splitlines()
    assert outcome.text == "Hello"
    assert words[0] == "run.started"
    assert words[-1] == "run.ended"
    assert "response.finished" in words


def test_a_listener_that_cannot_be_made_is_named_once(
    home: Path, plug: Plug, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says which and why; the second run says nothing new."""
    plug("run_diary")
    monkeypatch.setenv("RUN_DIARY", str(home / "diary"))
    engine = SyncEngine("scripted:echo", application=Application.load())

    for _ in range(2):
        engine.answer("Hello")

    told = [record.getMessage() for record in caplog.records if "broken" in record.getMessage()]
    assert len(told) == 1
    assert (
        "Its listener 'broken' cannot be created: the factory raised OSError: no paper." in told[0]
    )


def choose_transport(plug: Plug, transport: str, address: str = "http://127.0.0.1:9") -> Path:
    """Lets a provider's table choose a transport beside a plugin that has some."""
    table = "[providers.anthropic]\napi_key = 'k'\n"
    more = f"{table}base_url = '{address}'\ntransport = '{transport}'\n"
    return plug("signed_letters", more=more)


def test_a_plugin_s_transport_carries_the_requests_of_the_provider_that_chooses_it(
    vibe: Vibe, plug: Plug
) -> None:
    """What it adds arrives, from the library as from the command line, streamed or not."""
    with SynchronousSimulator() as vendor:
        choose_transport(plug, "signed", vendor.url)

        answers = [
            vibe("ask", "-m", "anthropic:m", way, "Hello").out
            for way in ("--stream", "--no-stream")
        ]
        with SyncModel("anthropic:m", application=Application.load()) as model:
            answers.append(model.ask("Hello").text)

        signatures = [request.headers.get("x-signature") for request in vendor.requests]

    assert answers == ["Hello\n", "Hello\n", "Hello"]
    assert signatures == ["sent for anthropic"] * 3


@pytest.mark.slow
def test_a_transport_that_there_is_not_is_told_with_the_nearest_and_its_line(
    vibe: Vibe, plug: Plug
) -> None:
    """By ``config check`` as by a question; a name that there is holds."""
    file = choose_transport(plug, "singed")
    place = f"{file}:4: providers.anthropic.transport: "

    for arguments in (("config", "check"), ("ask", "-m", "anthropic:m", "Hi")):
        slip = vibe(*arguments)
        assert slip.code == ExitCode.CONFIGURATION
        assert f"{place}Unknown transport 'singed'; did you mean 'signed'?" in slip.err

    file.write_text(file.read_text().replace("singed", "signed"))
    assert "transport" not in vibe("config", "check").err


def test_a_transport_that_cannot_be_made_is_named(vibe: Vibe, plug: Plug) -> None:
    """What its factory raises, or returns instead of a transport, is one line about it."""
    file = choose_transport(plug, "broken")
    words = (
        "The transport 'broken' of the plugin 'signed_letters', chosen by [providers.anthropic], "
        "cannot be created: the factory "
    )

    raised = vibe("ask", "-m", "anthropic:m", "Hi")
    file.write_text(file.read_text().replace("'broken'", "'hollow'"))
    returned = vibe("ask", "-m", "anthropic:m", "Hi")

    assert raised.code != 0
    assert f"{words}raised OSError: no wax." in raised.err
    assert "Traceback" not in raised.err
    assert f"{words.replace('broken', 'hollow')}returned int." in returned.err


@pytest.mark.parametrize(
    ("transport", "deed"),
    [
        ("lost", "send raised KeyError: 'no coach for ********'."),
        ("torn", "receive raised OSError: wet ink."),
        ("empty", "send returned NoneType."),
    ],
)
@pytest.mark.parametrize("way", ["--stream", "--no-stream"])
def test_a_transport_that_fails_later_is_named(
    vibe: Vibe, plug: Plug, transport: str, deed: str, way: str
) -> None:
    """With its plugin, and without the key that it was given; the provider is not blamed."""
    file = choose_transport(plug, transport)
    file.write_text(file.read_text().replace("api_key = 'k'", "api_key = 'sk-secret-key-of-mine'"))

    outcome = vibe("ask", "-m", "anthropic:m", way, "Hi")

    assert outcome.code != 0
    assert f"The transport {transport!r} of the plugin 'signed_letters'" in outcome.err
    assert f"broke: {deed}" in outcome.err
    assert "The provider failed" not in outcome.err


def test_a_form_of_a_plugin_that_fails_is_told_where_forms_are_looked_for(
    vibe: Vibe, plug: Plug, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and the forms that ship go on."""
    plug("torn", "raise ValueError('torn in two')")
    identity = ask(vibe, "Hi")

    outcome = vibe("export", identity)

    assert (outcome.code, outcome.out[:3]) == (0, "---")
    assert "ValueError: torn in two" in caplog.text + outcome.err


def test_a_command_of_a_plugin_that_fails_is_told(
    vibe: Vibe, plug: Plug, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside the word that it may have meant."""
    plug("torn", "raise ValueError('torn in two')")

    outcome = vibe("frobnicate")

    assert outcome.code == ExitCode.USAGE
    assert "ValueError: torn in two" in caplog.text + outcome.err


def test_a_transport_takes_no_shipped_one_s_place(vibe: Vibe, plug: Plug) -> None:
    """``direct`` is ours, whatever a plugin calls its own."""
    with SynchronousSimulator() as vendor:
        choose_transport(plug, "direct", vendor.url)

        outcome = vibe("ask", "-m", "anthropic:m", "Hello")

    assert (outcome.code, outcome.out) == (0, "Hello\n")


def test_a_plugin_that_fails_is_named_where_a_transport_is_looked_for(
    vibe: Vibe, plug: Plug, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever chooses what it would have brought reads why it is not there."""
    choose_transport(plug, "velvet")
    plug("torn", "raise ValueError('torn in two')")

    outcome = vibe("ask", "-m", "anthropic:m", "Hi")

    assert outcome.code == ExitCode.CONFIGURATION
    assert "Unknown transport 'velvet'. Known: direct, sdk, signed" in outcome.err
    assert "ValueError: torn in two" in caplog.text + outcome.err
