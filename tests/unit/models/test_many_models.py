"""Providers and users with thousands of models: what is read, and what one model costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.models.attributes import AttributeLayer
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.folders import Overrides, ProviderFolder
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.rules import RuleReader
from vibe_llms.tables.reading import TableReader, locate_by_name

NAMES = ("", "a", "b", "ab", "abc")


@st.composite
def produce_tables(draw: st.DrawFn) -> dict[str, Any]:
    """A rule of a pattern, of an exact name, of both or of neither, for one provider or for any."""
    table: dict[str, Any] = {"context_window": draw(st.integers(1, 9))}
    for key, values in (
        ("pattern", ("^a", "b$", "(?!)", "")),
        ("model", NAMES),
        ("provider", ("", "vendor", "other")),
    ):
        if value := draw(st.sampled_from(values)):
            table[key] = value
    return table


@examples(200)
@given(
    tables=st.lists(st.tuples(st.sampled_from(AttributeLayer), produce_tables()), max_size=12),
    model=st.sampled_from(NAMES),
)
def test_the_index_of_exact_names_finds_what_asking_each_rule_does(
    tables: list[tuple[AttributeLayer, dict[str, Any]]], model: str
) -> None:
    """Whatever rules there are, those found are those that concern the model, in their order."""
    reader = RuleReader(place="attributes.toml", tables=TableReader(locate_by_name()))
    rules = [reader.read(table, layer, line=n) for n, (layer, table) in enumerate(tables)]
    integrator = ModelsIntegrator(provider="vendor", rules=rules)

    found = integrator.find_rules(model)

    assert found == tuple(rule for rule in integrator.rules if rule.applies_to("vendor", model))


def count_calls(folder: Path, models: int) -> int:
    """Counts what Python calls, functions in C too, to read a file of that many models."""
    folder.mkdir()
    tables = (f'[[models]]\nmodel = "m{n}"\ncontext_window = {n + 1}\n' for n in range(models))
    (folder / "attributes.toml").write_text("".join(tables), encoding="utf-8")
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        rules = list(ProviderFolder(directory=folder, findings=[]).read())
    finally:
        sys.setprofile(None)
    assert len(rules) == models + 1
    return calls


def test_a_model_costs_as_much_to_read_among_many_as_among_few(tmp_path: Path) -> None:
    """Twice as many models in a file take twice the work, and not four times."""
    counts = (10, 100, 200, 400)  # the first makes what is made but once

    _, few, more, most = (count_calls(tmp_path / str(count), count) for count in counts)

    assert most - more <= 2.1 * (more - few)


def test_a_mistake_in_one_of_many_tables_is_found_in_that_table(tmp_path: Path) -> None:
    """The line is the key's own, however it is written."""
    text = '[[models]]\nmodel = "a"\n"gen\\u0075s" = 1\n\n[[models]]\nmodel = "b"\ngenus = 2\n'
    (tmp_path / "attributes.toml").write_text(text, encoding="utf-8")
    findings: list[Finding] = []

    list(ProviderFolder(directory=tmp_path, findings=findings).read())

    assert [finding.line for finding in findings] == [3, 7]


def test_lines_are_counted_as_toml_counts_them(tmp_path: Path) -> None:
    """A separator that ends a line elsewhere, inside a text, moves no mistake."""
    text = 'source = "one\u2028two\x85three"\n\n[[models]]\nmodel = "a"\ngenus = 1\n'
    (tmp_path / "attributes.toml").write_text(text, encoding="utf-8")
    findings: list[Finding] = []

    list(ProviderFolder(directory=tmp_path, findings=findings).read())

    assert [finding.line for finding in findings] == [5]


def test_what_the_user_wrote_is_read_once_for_all_providers(tmp_path: Path) -> None:
    """Each provider's rules end with the user's, which are the same objects."""
    table = {"models": [{"model": "a", "context_window": 7}]}
    catalogue = Catalogue(
        directory=tmp_path, overrides=(Overrides(place="config.toml", table=table),)
    )

    first, second = (catalogue.access_integrator(name).rules[-1] for name in ("one", "two"))

    assert first is second


def test_a_mistake_of_the_user_is_told_by_every_provider(tmp_path: Path) -> None:
    """What is read once does not fail once: whoever asks next hears the same mistake."""
    broken = Overrides(place="config.toml", table={"models": 1})
    catalogue = Catalogue(directory=tmp_path, overrides=(broken,))

    for name in ("one", "two", "one"):
        with pytest.raises(ConfigurationError, match="must be tables") as caught:
            catalogue.access_integrator(name)
        assert len(caught.value.findings) == 1
