"""``vibe config`` changes one value; ``vibe credentials`` keeps what nobody may see."""

from __future__ import annotations

import os
import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.configuration.editing import FileDraft
from vibe_llms.interfaces.cli.errors import ExitCode

Vibe = Callable[..., Any]
WRITTEN = """\
# mine
model = "groq" # fast

[providers.groq]
# my gate
base_url = "https://gate.example"

[limits]
attempts = 2
"""


@pytest.fixture
def file(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, with comments in it."""
    monkeypatch.delenv("VIBE_LLMS_MODEL")
    path = home / ".config" / "vibe-llms" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(WRITTEN)
    path.chmod(0o640)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (("set", "limits.attempts", "5"), ("attempts = 2", "attempts = 5")),
        (("set", "model", "openai"), ('model = "groq"', 'model = "openai"')),
        (("set", "aliases.fast", "groq:m"), ("= 2\n", '= 2\n\n[aliases]\nfast = "groq:m"\n')),
        (("set", "aliases.a-1.5", "groq"), ("= 2\n", '= 2\n\n[aliases]\n"a-1.5" = "groq"\n')),
        (("set", 'aliases."a.b"', "groq"), ("= 2\n", '= 2\n\n[aliases]\n"a.b" = "groq"\n')),
        (("set", "stream", "false"), ('# fast\n', '# fast\nstream = false\n')),
        (("unset", "limits.attempts"), ("[limits]\nattempts = 2\n", "")),
        (("unset", "model"), ('model = "groq" # fast\n', "")),
    ],
)  # fmt: skip
def test_one_value_changes_and_all_else_stays(
    vibe: Vibe, file: Path, arguments: tuple[str, ...], changed: tuple[str, str]
) -> None:
    """Comments, order and permissions are the user's."""
    outcome = vibe("config", *arguments)

    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == f"Written: {file}\n"
    assert file.read_text().rstrip() == WRITTEN.replace(*changed).rstrip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("set", "limits.attempts", "zero"),
            "error: limits.attempts: It must be a whole number",
        ),
        (("set", "limit.attempts", "1"), "error: limit.attempts: Unknown setting; did"),
        (
            ("set", "attempt", "1"),
            "error: attempt: Unknown setting; did you mean 'lim",
        ),
        (("set", "foo", "bar"), "error: foo: Unknown setting."),
        (
            ("set", "model", "antropic"),
            "error: model: Unknown provider or model 'antropic'; did",
        ),
        (
            ("set", "providers.openai.base_urll", "x"),
            "error: providers.openai.base_urll: Unknown setting; did",
        ),
        (("set", "providers.groq.base_url", "x"), "error: providers.groq.base_url: It must be an"),
        (("set", "aliases.x", "grok"), "did you mean 'groq'?"),
        (("set", "model.x", "1"), "'model' is not a table"),
        (("set", "a b", "1"), "Invalid name of a setting"),
        (("set", "x = 1\ny", "1"), "Invalid name of a setting"),
        (("unset", "limits.attempt"), "did you mean 'limits.attempts'?"),
        (("set", "providers.groq.api_key", "canary"), "vibe credentials set groq"),
        (("set", "providers.groq.headers.x", "canary"), "secrets"),
    ],
)
def test_what_would_not_hold_is_refused_and_nothing_is_written(
    vibe: Vibe, file: Path, arguments: tuple[str, ...], words: str
) -> None:
    """One line with the place and the nearest word; no other file is left behind."""
    outcome = vibe("config", *arguments)

    assert outcome.code != 0
    assert words in outcome.err
    assert "canary" not in outcome.err
    assert ".new" not in outcome.err
    assert file.read_text() == WRITTEN
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_the_first_value_makes_the_file_and_a_link_stays_a_link(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps files elsewhere finds the change there."""
    monkeypatch.delenv("VIBE_LLMS_MODEL")
    assert vibe("config", "set", "model", "groq").code == 0
    file = home / ".config" / "vibe-llms" / "config.toml"
    elsewhere = home / "dotfiles.toml"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)

    assert vibe("config", "set", "stream", "false").code == 0

    assert file.is_symlink()
    assert tomllib.loads(elsewhere.read_text()) == {"model": "groq", "stream": False}


def test_a_loop_of_links_is_one_line(vibe: Vibe, file: Path) -> None:
    file.unlink()
    file.symlink_to(file)

    outcome = vibe("config", "set", "model", "xai")

    assert outcome.code == ExitCode.CONFIGURATION
    assert "Too many levels of symbolic links" in outcome.err
    assert outcome.err.count("\n") == 1
    assert file.is_symlink()


def test_a_value_that_something_stronger_sets_is_said_to_have_no_effect(
    vibe: Vibe, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nobody wonders."""
    monkeypatch.setenv("VIBE_LLMS_MODEL", "scripted:echo")

    outcome = vibe("config", "set", "model", "xai")

    assert "environment VIBE_LLMS_MODEL takes precedence" in outcome.err


VALUES = st.one_of(
    st.integers(0, 2**40),
    st.booleans(),
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"])),
)  # fmt: skip


@given(name=st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True), value=VALUES)
def test_unset_takes_back_what_set_has_done(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: object
) -> None:
    """Whatever is written is read again, and taking it out leaves the file as it was."""
    import tomli_w

    written = tomli_w.dumps({"v": value}).partition("=")[2].strip()
    file = tmp_path_factory.mktemp("draft") / "config.toml"
    file.write_text(WRITTEN)
    draft = FileDraft({"VIBE_LLMS_CONFIG": str(file), "HOME": "."})

    draft.set(f"controls.{name}", written)
    assert tomllib.loads(draft.text)["controls"] == {name: value}
    draft.save()
    again = FileDraft({"VIBE_LLMS_CONFIG": str(file), "HOME": "."})
    again.unset(f"controls.{name}")

    assert again.text.rstrip() == WRITTEN.rstrip()


KEYRING = """
import json, pathlib, types
STORE = pathlib.Path({path!r})
def get_keyring(): return types.SimpleNamespace(priority=5)
def _read(): return json.loads(STORE.read_text()) if STORE.exists() else {{}}
def set_password(service, name, key):
    STORE.write_text(json.dumps(_read() | {{service + name: key}}))
def get_password(service, name): return _read().get(service + name)
def delete_password(service, name):
    kept = _read(); del kept[service + name]; STORE.write_text(json.dumps(kept))
"""


@pytest.fixture(params=["file", "keyring"])
def place(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where keys are kept: a system may have a keyring, or none."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    if request.param == "keyring":
        monkeypatch.delitem(sys.modules, "keyring")
        (home / "modules").mkdir()
        (home / "modules" / "keyring.py").write_text(KEYRING.format(path=str(home / "ring.json")))
        monkeypatch.syspath_prepend(home / "modules")
    return str(request.param)


def find_holders(home: Path, text: str) -> list[tuple[str, int]]:
    """Returns the files below a home that hold a text, by name and permissions."""
    return [
        (path.name, stat.S_IMODE(path.stat().st_mode))
        for path in home.rglob("*")
        if path.is_file() and text in path.read_text("latin-1")
    ]


def test_a_key_is_kept_used_listed_and_forgotten(
    vibe: Vibe, home: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes in by standard input, serves where no variable is, and is never shown."""
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    key = "canary-7c1e5b9f2a"

    kept = vibe("credentials", "set", "groq", stdin=key.encode() + b"\n")
    listed = (
        vibe("credentials", "--help"),
        vibe("credentials"),
        vibe("credentials", "list", "--json"),
    )
    ready = {each["name"]: each["missing"] for each in vibe("providers", "--json").read_json()}
    found = find_holders(home, key)
    gone = vibe("credentials", "remove", "groq")
    missing = {each["name"]: each["missing"] for each in vibe("providers", "--json").read_json()}

    assert kept.code == gone.code == 0
    assert ("keyring" if place == "keyring" else "only you can read") in kept.err
    assert ready["groq"] == []
    assert [each["name"] for each in missing["groq"]] == ["GROQ_API_KEY"]
    assert [row["provider"] for row in listed[2].read_json()] == ["groq"]
    assert key not in "".join(each.out + each.err for each in (kept, *listed, gone))
    wanted = {"file": ("key", 0o600), "keyring": ("ring.json", found[0][1])}
    assert found == [wanted[place]]
    assert vibe("credentials").out.strip() in ("", "provider  kept in")
    assert find_holders(home, key) == []


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "words"),
    [
        (("set", "grok"), b"k", ExitCode.NOT_FOUND, "did you mean 'groq'?"),
        (("set", "groq"), b"\n", ExitCode.CONFIGURATION, "Invalid key"),
        (("set", "groq"), b"two words\n", ExitCode.CONFIGURATION, "Invalid key"),
        (("remove", "groq"), b"", ExitCode.NOT_FOUND, "No key of groq is stored"),
        (("set", "groq", "canary"), b"", ExitCode.USAGE, "unexpected extra argument"),
    ],
)
def test_what_is_no_key_is_refused(
    vibe: Vibe, arguments: tuple[str, ...], stdin: bytes, code: ExitCode, words: str
) -> None:
    """Nor can a key be an argument."""
    outcome = vibe("credentials", *arguments, stdin=stdin)

    assert outcome.code == code
    assert words in outcome.err


def test_a_variable_comes_before_what_is_kept(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an alias names the provider behind it."""
    from vibe_llms.providers.credentials import acquire_key

    monkeypatch.setitem(sys.modules, "keyring", None)
    vibe("credentials", "set", "openai", stdin=b"kept")
    directory = home / ".local" / "share" / "vibe-llms" / "providers" / "openai_responses"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    kept = acquire_key("openai_responses", {}, ("OPENAI_API_KEY",), directory)
    monkeypatch.setenv("OPENAI_API_KEY", "said")
    said = acquire_key("openai_responses", {}, ("OPENAI_API_KEY",), directory)

    assert kept is not None
    assert said is not None
    assert (kept.reveal(), said.reveal()) == ("kept", "said")
    assert os.environ["OPENAI_API_KEY"] == "said"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "place", "line", "word"),
    [
        ('[providers.groq]\nbase_ulr = "x"\n', "config.toml", 2, "base_ulr"),
        ('model = "nobody:m"\n', "config.toml", 1, "nobody"),
        ("stream = 5\n", "config.toml", 1, "stream"),
        ("model = \n", "config.toml", 1, ""),
    ],
)
def test_programs_read_what_the_check_finds(
    vibe: Vibe, file: Path, text: str, place: str, line: int, word: str
) -> None:
    """Also where the file itself does not hold; the exit code is the same as in words."""
    file.write_text(text)

    outcome = vibe("config", "check", "--json")

    assert outcome.code == vibe("config", "check").code == ExitCode.CONFIGURATION
    (finding,) = outcome.read_json()["findings"]
    assert finding["place"].endswith(place)
    assert finding["line"] == line
    assert word in f"{finding['path']}: {finding['message']}"
    assert outcome.err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "client_certificate = 'none.pem'",
            "/vibe-llms/none.pem cannot be loaded: No such",
        ),
        ("client_certificate = '~/home.pem'", "home.pem cannot be loaded: "),
        ("certificate_authorities = 'none'", "/vibe-llms/none cannot be loaded: No such file"),
        ("client_key = 'some.key'", "client_key: Its certificate is missing"),
        (
            "client_certificate = 'not.pem'\nclient_key = 'none'",
            "/vibe-llms/none cannot be loaded: No such file",
        ),
        ("api_key_file = 'none'", "/vibe-llms/none cannot be read: No such file"),
    ],
)
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_files_that_a_provider_names_are_looked_at(
    vibe: Vibe, home: Path, file: Path, provider: str, text: str, words: str
) -> None:
    """Before the first question: with file, line, and the name that stands there."""
    (home / "home.pem").write_text("no certificate")
    (file.parent / "not.pem").write_text("no certificate")
    file.write_text(f'model = "scripted:echo"\n[providers.{provider}]\n{text}\n')

    outcome = vibe("config", "check")

    assert outcome.code == ExitCode.CONFIGURATION
    line = 2 + len(text.splitlines())
    assert f"{file}:{line}: providers.{provider}." in outcome.err
    assert words in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_paths_of_providers_begin_where_the_file_is(
    vibe: Vibe, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From whatever folder somebody asks."""
    file.write_text('model = "scripted:echo"\n[providers.openai]\napi_key_file = "keys/openai"\n')
    (file.parent / "keys").mkdir()
    (file.parent / "keys" / "openai").write_text("a-key")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    assert vibe("config", "check").code == 0
    rows = {row["name"]: row["missing"] for row in vibe("providers", "--json").read_json()}
    assert rows["openai_responses"] == []


@pytest.mark.parametrize("text", ["[x", "stream = 5", 'modell = "x"', "\xff"])
def test_the_paths_are_told_although_a_file_does_not_hold(
    vibe: Vibe, file: Path, text: str
) -> None:
    """Whoever has to mend it wants to know where it is."""
    file.write_bytes(text.encode("latin-1"))

    outcome = vibe("config", "path")
    paths = vibe("config", "path", "--json")

    assert (outcome.code, paths.code) == (0, 0)
    assert f"user\t{file}" in outcome.out
    assert f"{file}:1: " in outcome.err
    assert paths.read_json()["user"] == str(file)


def test_programs_read_that_nothing_is_wrong(vibe: Vibe, file: Path) -> None:
    """An empty list, and nothing besides."""
    file.write_text('model = "scripted:echo"\n')

    outcome = vibe("config", "check", "--json")

    assert (outcome.code, outcome.err) == (ExitCode.SUCCESS, "")
    assert outcome.read_json() == {"findings": []}


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("ask", "--tools", "io", "Hi"), "--tools io: "),
        (("chat", "--tools", "shell,io", "Hi"), "--tools io: "),
        (("tools", "list"), "io: ensembles.io.directories: "),
        (("tools", "list", "-t", "io"), "--tools io: "),
        (("tools", "call", "-t", "io", "read_file", "path=x"), "--tools io: "),
    ],
)
def test_no_line_of_ours_is_blamed_for_where_somebody_stands(
    vibe: Vibe, home: Path, words: tuple[str, ...], place: str
) -> None:
    """Nobody can mend a file that ships: what was typed is named, and how it is set."""
    outcome = vibe(*words)

    assert "defaults.toml" not in outcome.err
    assert f"{place}'.' is your home directory" in outcome.err
    assert f"directories = [{str(home)!r}] in [ensembles.io]" in outcome.err
