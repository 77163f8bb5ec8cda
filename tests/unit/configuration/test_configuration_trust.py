"""What a project folder may decide before and after its owner is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_llms.configuration.classes import Configuration
from vibe_llms.configuration.definitions import SETTINGS
from vibe_llms.configuration.explanations import explain_configuration
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.configuration.trust import ask_for_trust, grant_trust, revoke_trust
from vibe_llms.exceptions import ConfigurationError, CorruptionError


class Answer:
    """A user who always says the same and remembers the questions."""

    def __init__(self, agrees: bool) -> None:
        self.agrees = agrees
        self.questions: list[str] = []

    def ask(self, subject: str, question: str) -> bool:
        self.questions.append(question)
        return self.agrees


def load(folder: Path, project: str | None = None, user: str = "") -> Configuration:
    (folder / "user.toml").write_text(user, encoding="utf-8")
    if project is not None:
        (folder / "project" / ".vibe-llms").mkdir(parents=True, exist_ok=True)
        (folder / "project" / ".vibe-llms" / "config.toml").write_text(project, encoding="utf-8")
    environment = {
        "VIBE_LLMS_CONFIG": str(folder / "user.toml"),
        "XDG_DATA_HOME": str(folder / "home"),
    }
    return load_configuration(environment=environment, working_directory=folder / "project")


CHOICES = """
model = "scripted:echo"
stream = false
[controls]
temperature = 0
[plugins]
disabled = ["local"]
[providers.scripted]
module = "vibe_llms.providers.scripted"
enabled = false
"""

WISHES = {
    "a new provider": '[providers.evil]\nmodule = "evil"\nregion = "x"',
    "another module": '[providers.local]\nmodule = "evil"',
    "another package": '[providers.local]\npackage = "evil"',
    "a provider's setting": '[providers.local]\nbase_url = "http://evil.example"',
    "a plugin": '[plugins.evil]\nmodule = "evil"',
    "a disabled provider": "[providers.scripted]\nenabled = true",
    "the data directory": '[directories]\ndata = "here"',
    "the cache directory": '[directories]\ncache = "here"',
    "a limit": "[limits]\nattachment_bytes = 1_000_000_000_000",
    "a file as model": 'model = "local:evil.gguf"',
    "a path as model": 'model = "local:models/evil"',
    "a transport": '[providers.local]\ntransport = "evil"',
    "another approver": 'approver = "evil"',
    "the person in place of an approver": 'approver = "terminal"',
    "a plugin that its user has put out": "[plugins.muted]\nenabled = true",
    "another module of a plugin": '[plugins.audit]\nmodule = "evil"',
    "its user's plugin put out": "[plugins.audit]\nenabled = false",
    "its user's plugin disabled": '[plugins]\ndisabled = ["local", "audit"]',
    "where spans go": "[telemetry]\ntexts = true",
    "attributes of models": '[[models]]\npattern = ".*"\nweights = "evil"',
}
USER = """
approver = "careful"
[plugins]
disabled = []
[plugins.audit]
module = "audit"
[plugins.muted]
module = "muted"
enabled = false
[providers.scripted]
enabled = false
"""


def test_a_project_may_choose_among_what_its_user_has(tmp_path: Path) -> None:
    """A model by name, controls, streaming, and what not to load need no trust."""
    configuration = load(tmp_path, CHOICES)

    assert configuration.trust_request is None
    assert configuration.model == "scripted:echo"
    assert configuration.controls == {"temperature": 0}
    assert not configuration.providers["local"].is_enabled
    assert not configuration.providers["scripted"].is_enabled


@pytest.mark.slow
@pytest.mark.parametrize("wish", WISHES)
def test_what_could_run_code_or_fetch_is_inert_until_the_folder_is_trusted(
    tmp_path: Path, wish: str
) -> None:
    """An untrusted project changes nothing of the kind; a trusted one does."""
    before = load(tmp_path, "", USER)

    untrusted = load(tmp_path, WISHES[wish], USER)

    assert untrusted.trust_request is not None
    assert untrusted.settings == before.settings
    assert untrusted.overrides == before.overrides
    assert [entry for entry in untrusted.plugins if entry.is_trusted] == list(before.plugins)

    grant_trust(untrusted.trust_request)
    trusted = load(tmp_path, WISHES[wish], USER)

    assert trusted.trust_request is None
    assert (trusted.settings, trusted.overrides) != (before.settings, before.overrides)
    assert all(entry.is_trusted for entry in trusted.plugins)


def test_what_a_project_says_of_models_is_shown_to_who_shall_trust_it(tmp_path: Path) -> None:
    """With its line: the pattern, or that it holds of all models, and what it says."""
    project = "[[models]]\npattern = 'm.*'\nweights = 'evil'\n[defaults]\nweights = 'all'\n"
    request = load(tmp_path, project).trust_request

    assert request is not None
    assert request.file.read_text() == project
    assert request.folder == request.file.parent.parent
    shown = {each.path: (each.value, each.source.line) for each in request.settings}
    assert shown == {
        ("models", "m.*"): ({"weights": "evil"}, 1),
        ("defaults",): ({"weights": "all"}, 4),
    }


@pytest.mark.parametrize(
    ("mine", "theirs", "is_harmless"),
    [("true", "true", True), ("true", "1", False), ("1", "true", False), ("[1]", "[true]", False)],
)
def test_a_project_may_repeat_what_holds_and_true_is_not_one(
    tmp_path: Path, mine: str, theirs: str, is_harmless: bool
) -> None:
    """What equals the user's own choice in Python alone is another choice, and asks for trust."""
    table = "[providers.local]\nverify = "

    configuration = load(tmp_path, table + theirs, table + mine)

    assert (configuration.trust_request is None) is is_harmless


def test_no_further_setting_is_a_projects_to_make() -> None:
    """Who adds one that a project may make unasked has to say so here, too."""
    harmless = {name for name, each in SETTINGS.items() if each.is_harmless}

    assert harmless == {
        "model",
        "embedder",
        "illustrator",
        "speaker",
        "transcriber",
        "ranker",
        "moderator",
        "stream",
        "window",
        "lenient",
        "cache",
        "plugins.disabled",
    }


def test_an_untrusted_plugin_is_listed_as_such(tmp_path: Path) -> None:
    """Its user sees what the folder would bring, and from which line."""
    configuration = load(tmp_path, WISHES["a new provider"])

    entry = configuration.providers["evil"]
    assert (entry.module, entry.is_trusted, entry.source.line) == ("evil", False, 2)
    explained = {item.name: item.source for item in explain_configuration(configuration)}
    assert "ignored until" in explained["providers.evil.module"]


def test_a_project_can_never_answer_for_its_user(tmp_path: Path) -> None:
    """Consent in advance is refused in a project's file, trusted or not."""
    with pytest.raises(ConfigurationError, match="cannot set 'yes'"):
        load(tmp_path, "yes = true")


def test_a_change_of_the_file_asks_again(tmp_path: Path) -> None:
    """Trust holds for the file as it was, byte for byte."""
    request = load(tmp_path, WISHES["a new provider"]).trust_request
    assert request is not None
    grant_trust(request)

    assert load(tmp_path).trust_request is None
    assert load(tmp_path, WISHES["a new provider"] + "\n").trust_request is not None


def test_trust_can_be_asked_for_and_revoked(tmp_path: Path) -> None:
    """A yes is recorded, a no is not, and what was granted can be taken back."""
    request = load(tmp_path, WISHES["a new provider"]).trust_request
    assert request is not None
    refusing, agreeing = Answer(False), Answer(True)

    assert not ask_for_trust(request, refusing)
    assert load(tmp_path).trust_request == request
    assert ask_for_trust(request, agreeing)
    assert load(tmp_path).trust_request is None
    assert "providers.evil.module = 'evil'" in agreeing.questions[0]

    assert revoke_trust(tmp_path / "project", tmp_path / "home" / "vibe-llms")
    assert not revoke_trust(tmp_path / "project", tmp_path / "home" / "vibe-llms")
    assert load(tmp_path).trust_request == request


def test_a_project_cannot_bring_its_own_record_of_trust(tmp_path: Path) -> None:
    """Trust is read from the user's data directory, wherever the project wants to have it."""
    text = '[directories]\ndata = "own"\n[providers.evil]\nmodule = "evil"'
    request = load(tmp_path, text).trust_request
    assert request is not None
    own = tmp_path / "project" / ".vibe-llms" / "own"
    own.mkdir()
    (own / "trust.toml").write_text(
        f'[folders]\n"{request.folder}" = "{request.digest}"', encoding="utf-8"
    )

    assert load(tmp_path).trust_request == request


def test_a_damaged_record_of_trust_is_named(tmp_path: Path) -> None:
    """The message says which file it is and what to do."""
    (tmp_path / "home" / "vibe-llms").mkdir(parents=True)
    (tmp_path / "home" / "vibe-llms" / "trust.toml").write_text("= ", encoding="utf-8")

    with pytest.raises(CorruptionError, match=r"trust\.toml.*Delete it"):
        load(tmp_path, WISHES["a new provider"])
