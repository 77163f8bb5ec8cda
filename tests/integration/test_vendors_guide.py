"""The settings that the guide to vendors prints are settings that the vendors have."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.configuration.sources import load_configuration
from vibe_llms.plugins import PluginManager

DOCUMENTATION = Path(__file__).parents[2] / "documentation"
PAGES = ("guides/vendors.rst", "reference/settings.rst")
_BLOCK = re.compile(
    r"^\.\. code-block:: toml\n(?:   :.*\n)*\n(?P<text>(?:   .*\n|\n)+)", re.MULTILINE
)


def read_tables() -> list[Any]:
    """Returns each table of a provider that is reached over a network, and its name."""
    tables = []
    for page in PAGES:
        for found in _BLOCK.finditer((DOCUMENTATION / page).read_text("utf-8")):
            block = tomllib.loads(textwrap.dedent(found["text"]))
            if "plugins" in block:
                continue  # it needs what a plugin of the reader brings
            providers = block.get("providers", {})
            tables += [
                pytest.param(name, table, id=f"{page}-{name}")
                for name, table in providers.items()
                if not str(table.get("module", "")).startswith(("my_", "vibe_llms.providers.local"))
            ]
    return tables


@pytest.mark.parametrize(("name", "table"), read_tables())
def test_the_settings_of_a_page_hold(tmp_path: Path, name: str, table: dict[str, Any]) -> None:
    """Who copies a table from the documentation meets no mistake in it."""
    configuration = load_configuration(
        command_line={"providers": {name: table}}, environment={}, working_directory=tmp_path
    )
    client = PluginManager(configuration=configuration).load_provider(name).produce_client()

    settings = set(client.vendor.settings.values)  # type: ignore[attr-defined]
    assert set(table) - {"module", "package"} <= settings
