"""Skills: read, found, and given what the user's configuration has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConfigurationError, RequestError, TrustError, UnknownNameError
from vibe_llms.instruments.skills import (
    FoundSkill,
    find_skill,
    produce_tools,
    read_skill,
    survey_skills,
)

SKILL = """
description = "Speaks like a poet."
model = "scripted:echo"
ensembles = ["io"]
prompt = '''
You are a poet of {{ land }}.
'''

[values]
land = "Chile"

[controls]
temperature = 1.5

[schema]
type = "object"
"""


@attrs.define
class Answering:
    """Answers questions for consent, and keeps them."""

    answer: bool = False
    questions: list[str] = attrs.field(factory=list)

    def ask(self, subject: str, question: str) -> bool:
        """Gives the answer."""
        self.questions.append(question)
        return self.answer


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's home, with a folder for work in it."""
    (tmp_path / "work" / ".vibe-llms").mkdir(parents=True)
    (tmp_path / "work" / ".vibe-llms" / "config.toml").write_text("stream = true\n")
    return tmp_path


@pytest.fixture
def produce(home: Path) -> Callable[..., Application]:
    """Makes applications for that user, at work."""

    def produce_application(consent: Answering | None = None) -> Application:
        configuration = load_configuration(
            environment={"HOME": str(home)}, working_directory=home / "work"
        )
        return Application(configuration, consent=consent or Answering())

    return produce_application


def write_skill(folder: Path, name: str = "poet", text: str = SKILL) -> Path:
    """Writes the file of a skill."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_skill_is_read_from_its_file(tmp_path: Path) -> None:
    """It has the name of the file, and what the file says."""
    skill = read_skill(write_skill(tmp_path))

    assert skill.name == "poet"
    assert skill.description == "Speaks like a poet."
    assert (skill.model, skill.ensembles, skill.mcp) == ("scripted:echo", ("io",), ())
    assert (skill.controls, skill.schema) == ({"temperature": 1.5}, {"type": "object"})
    assert skill.render() == "You are a poet of Chile."
    assert skill.render(land="Peru") == "You are a poet of Peru."
    with pytest.raises(RequestError, match="did you mean 'land'"):
        skill.render(lnad="Peru")


def test_all_that_is_wrong_with_a_skill_is_told_at_once(tmp_path: Path) -> None:
    """Keys, values and the prompt's own mistakes, each with its line."""
    path = write_skill(
        tmp_path,
        text=(
            "descripton = 'x'\nmodel = 'local:models/evil.gguf'\nensembles = 'io'\n"
            "prompt = '''\nYou are\n {{ who|uper }}'''\n[values]\nwho = 1\n"
        ),
    )

    with pytest.raises(ConfigurationError) as caught:
        read_skill(path)

    assert [str(each).removeprefix(f"{path}:") for each in caught.value.findings] == [
        "1: descripton: Unknown setting; did you mean 'description'?",
        "2: model: A skill may choose a model by name, but not by file.",
        "3: ensembles: It must be a list of names, not 'io'.",
        "6:9: Unknown filter 'uper'; did you mean 'upper'?",
    ]


def test_a_skill_is_complete_in_itself(tmp_path: Path) -> None:
    """Its prompt has a value for each variable, and a variable for each value."""
    text = "description = 'x'\nprompt = '{{ who }} {{ where }}'\n\n[values]\nwere = 'here'\n"
    path = write_skill(tmp_path, text=text)

    with pytest.raises(ConfigurationError) as caught:
        read_skill(path)

    assert str(caught.value) == (
        f"{path}:2: prompt: The variable 'where' is missing: set it under [values].\n"
        f"{path}:2: prompt: The variable 'who' is missing: set it under [values].\n"
        f"{path}:5: values.were: The prompt does not use this value; did you mean 'where'?"
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"prompt = [", "Invalid TOML"),
        (b"\xff", "TOML files must be UTF-8"),
        (b"#" * 1_000_001, "larger than 1000000 bytes"),
        (None, "Cannot read the file: No such file"),
        (b"description = 'a'\nprompt = 'b {{'", "poet.toml:2: Unexpected"),
    ],
)
def test_what_is_no_skill_is_refused(tmp_path: Path, raw: bytes | None, words: str) -> None:
    """With its file, and its line where there is one."""
    path = tmp_path / "poet.toml"
    if raw is not None:
        path.write_bytes(raw)

    with pytest.raises(ConfigurationError) as caught:
        read_skill(path)

    assert words in str(caught.value)


def test_every_skill_that_ships_holds(produce: Callable[..., Application]) -> None:
    """It is found by its name, renders, and chooses what the shipped configuration has."""
    application = produce()
    shipped = survey_skills(application.configuration)

    assert {"plain-words", "reviewer"} <= {each.name for each in shipped}
    for each in shipped:
        skill = find_skill(each.name, application)
        assert skill.render().strip()
        assert {*skill.ensembles} <= {*application.configuration.ensembles}


def test_the_users_own_skill_wins(home: Path, produce: Callable[..., Application]) -> None:
    """Over the project's, which wins over one that ships."""
    own = write_skill(home / ".config" / "vibe-llms" / "skills", "reviewer")
    write_skill(home / "work" / ".vibe-llms" / "skills", "reviewer")
    projects = write_skill(home / "work" / ".vibe-llms" / "skills", "plain-words")

    found = {each.name: each for each in survey_skills(produce().configuration)}

    assert found["reviewer"].path == own
    assert found["plain-words"].path == projects
    assert isinstance(found["reviewer"], FoundSkill)
    assert found["reviewer"].read().name == "reviewer"


def test_an_unknown_skill_is_answered_with_the_nearest(
    produce: Callable[..., Application],
) -> None:
    """Or with all there are."""
    with pytest.raises(
        UnknownNameError, match=r"Unknown skill 'reviwer'; did you mean 'reviewer'\?"
    ):
        find_skill("reviwer", produce())
    with pytest.raises(UnknownNameError, match=r"must end in \.toml"):
        find_skill("./zzz", produce())


def test_a_projects_skill_is_used_once_its_user_agrees(
    home: Path, produce: Callable[..., Application]
) -> None:
    """The question says what it is; the answer holds until the file changes."""
    folder = home / "work" / ".vibe-llms" / "skills"
    path = write_skill(folder)
    refusing, agreeing = Answering(False), Answering(True)

    with pytest.raises(TrustError, match=r"pass its path: .*poet\.toml"):
        find_skill("poet", produce(refusing))
    find_skill("poet", produce(agreeing))
    find_skill("poet", produce(refusing))
    write_skill(folder, text=SKILL.replace("Chile", "Peru"))
    with pytest.raises(TrustError):
        find_skill("poet", produce(refusing))

    assert find_skill(str(path), produce(refusing)).values == {"land": "Peru"}
    assert len(refusing.questions) == 2
    assert "chooses io" in agreeing.questions[0]
    assert "Speaks like a poet." in agreeing.questions[0]


async def test_a_skill_chooses_among_what_is_configured(
    tmp_path: Path, produce: Callable[..., Application]
) -> None:
    """Its ensembles are the user's, and whether somebody is asked stays as it was."""
    (ensemble,) = await produce_tools(read_skill(write_skill(tmp_path)), produce())

    assert ensemble.name == "io"
    await ensemble.connect()
    try:
        asking = {each.name for each in await ensemble.survey() if each.needs_approval}
    finally:
        await ensemble.disconnect()
    assert "write_file" in asking


async def test_a_skill_brings_no_tools_of_its_own(
    tmp_path: Path, produce: Callable[..., Application]
) -> None:
    """Neither an ensemble that is not configured, nor the path of a file that names a server."""
    server = tmp_path / "server.toml"
    server.write_text("command = ['touch', 'ran']\n")
    text = f"ensembles = ['ioo', 'io']\nmcp = ['{server}']\n" + SKILL.replace(
        'ensembles = ["io"]\n', ""
    )

    with pytest.raises(ConfigurationError) as caught:
        await produce_tools(read_skill(write_skill(tmp_path, text=text)), produce())

    messages = [each.message for each in caught.value.findings]
    assert messages[0] == "Unknown ensemble 'ioo' in your configuration; did you mean 'io'?"
    assert messages[1].startswith(f"Unknown MCP server '{server}' in your configuration")
    assert not (tmp_path / "ran").exists()
