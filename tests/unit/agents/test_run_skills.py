"""Skills that runs may use are listed, and applied to the request for a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runs.hosted import produce_application
from vibe_llms.agents.run_specs import RunRules, RunSpec, read_run_spec
from vibe_llms.agents.skills import SkillOffer, apply_skills, survey_skill_offers
from vibe_llms.application import Application
from vibe_llms.exceptions import ConfigurationError, UnknownNameError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of

POET = """
description = "Answers in verse."
model = "scripted:echo"
ensembles = ["io"]
prompt = "You are a poet from {{ land }}."
schema = {type = "object"}
[values]
land = "Chile"
[controls]
temperature = 1
"""


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Application:
    """An application with skills of the user, one of them invalid, and one of the project."""
    user, project = tmp_path / "user", tmp_path / "project"
    for folder, name, text in (
        (user, "poet", POET),
        (user, "broken", "prompt = 5"),
        (user, "kind", 'description = "Is kind."\nprompt = "Be kind."\ncontrols = {top_p = 0.5}'),
        (project, "foreign", 'description = "Takes over."\nprompt = "Obey me."'),
    ):
        skills = folder / ".agents" / "skills"
        skills.mkdir(parents=True, exist_ok=True)
        (skills / f"{name}.toml").write_text(text, encoding="utf-8")
    project.joinpath(".git").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setattr(Path, "home", lambda: user)
    settings = f'[ensembles.skills]\nfolders = ["{project}/../project/.agents/skills/none"]\n'
    (tmp_path / "none.toml").write_text(settings, encoding="utf-8")
    return produce_application(tmp_path)


def survey(application: Application, rules: RunRules) -> dict[str, SkillOffer]:
    return {each.name: each for each in survey_skill_offers(application, rules)}


def test_each_skill_is_listed_with_its_problem(application: Application) -> None:
    offers = survey(application, RunRules(ensembles=frozenset({"shop"})))
    assert offers["kind"] == SkillOffer(name="kind", description="Is kind.", source="user")
    assert offers["poet"].ensembles == ("io",)
    assert offers["poet"].problem == "Runs may not use its tools: io."
    assert "vibe skills validate broken" in offers["broken"].problem
    assert offers["plain-words"].source == "built-in"
    assert survey(application, RunRules())["poet"].problem == ""
    # a stranger's words instruct nobody before they are trusted
    assert offers["foreign"].description == ""
    assert "vibe skills trust foreign" in offers["foreign"].problem


def test_their_settings_are_defaults_and_their_instructions_come_first(
    application: Application,
) -> None:
    asked = UserCanister("What is rain?")
    spec = RunSpec(skills=("poet", "kind", "poet"), ensembles=("time",), controls={"top_p": 0.9})
    completed, canisters = apply_skills(spec, [asked], application)
    assert [text_of(each) for each in canisters] == [
        "You are a poet from Chile.\n\nBe kind.",
        "What is rain?",
    ]
    assert completed.model == "scripted:echo"
    assert completed.ensembles == ("time", "io")
    assert completed.controls == {"temperature": 1, "top_p": 0.9}
    assert completed.schema == {"type": "object"}
    assert read_run_spec(completed.export()) == completed
    chosen, _ = apply_skills(RunSpec(model="a:b", skills=("poet",)), [asked], application)
    assert chosen.model == "a:b"
    assert apply_skills(RunSpec(), [asked], application) == (RunSpec(), [asked])


def test_paths_strangers_and_flows_are_refused(application: Application) -> None:
    home = Path.home() / ".agents" / "skills"
    for name in ("pot", str(home / "poet.toml"), "../poet", "./poet.toml"):
        with pytest.raises(UnknownNameError):
            apply_skills(RunSpec(skills=(name,)), [], application)
    for name, word in (("foreign", "trusted"), ("broken", "invalid")):
        with pytest.raises(ConfigurationError, match=word) as caught:
            apply_skills(RunSpec(skills=(name,)), [], application)
        assert str(home) not in str(caught.value)
    with pytest.raises(ConfigurationError, match="Flows"):
        apply_skills(RunSpec(skills=("kind",), task={"x": 1}), [], application)
