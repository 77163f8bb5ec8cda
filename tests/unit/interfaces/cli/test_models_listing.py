"""``vibe models list``: filters by genus."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from vibe_llms.interfaces.cli.group import produce_group
from vibe_llms.models.genera import Genus


@pytest.mark.parametrize("genus", [each.value for each in Genus])
def test_the_list_has_only_models_of_the_genus(genus: str) -> None:
    arguments = ["models", "list", "--provider", "scripted", "--genus", genus, "--json"]
    done = CliRunner().invoke(produce_group(), arguments)

    assert done.exit_code == 0, done.output
    genera = {row["genus"] for row in json.loads(done.stdout)}
    assert genera <= {genus}
    assert genera or genus not in ("converser", "embedder"), "the provider has these"
