"""The schema for editors and the table of settings agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import jsonschema
import pytest
import tomli

from vibe_llms.configuration.definitions import PLUGIN_KEYS, SETTINGS
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.package_data import access_data
from vibe_llms.invocables.mcp import McpServer

SCHEMA: dict[str, Any] = json.loads(
    access_data("schemas", "configuration.schema.json").read_text(encoding="utf-8")
)


FREE = ("aliases", "controls", "defaults", "ensembles", "limits", "mcp", "models", "providers")
"""Tables whose keys are the user's, or are named elsewhere."""


def is_accepted(text: str, folder: Path) -> tuple[bool, bool]:
    """Returns whether the schema, and whether the loader accepts a user's file."""
    validator = jsonschema.Draft202012Validator(
        SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    try:
        load_configuration(
            environment={"VIBE_LLMS_CONFIG": str(file), "HOME": str(folder)},
            working_directory=folder,
        )
    except ConfigurationError:
        return validator.is_valid(tomli.loads(text)), False
    return validator.is_valid(tomli.loads(text)), True


def test_the_schema_has_every_setting_with_its_summary(tmp_path: Path) -> None:
    """Names, summaries, limits and the keys of plugins are those of the table."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    tables = SCHEMA["properties"]

    described = {
        f"{name}.{key}" if "properties" in table else name: inner["description"]
        for name, table in tables.items()
        for key, inner in table.get("properties", {"": table}).items()
        if name not in FREE
    }

    assert described == {name: definition.summary for name, definition in SETTINGS.items()}
    assert set(SCHEMA["$defs"]["plugin"]["properties"]) == set(PLUGIN_KEYS)
    servers = {field.name for field in attrs.fields(McpServer)} - {"name"}
    assert set(SCHEMA["$defs"]["server"]["properties"]) == servers
    configuration = load_configuration(
        environment={"HOME": str(tmp_path)}, working_directory=tmp_path
    )
    assert set(tables["limits"]["properties"]) == set(attrs.asdict(configuration.limits))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        access_data("configuration", "defaults.toml").read_text(encoding="utf-8"),
        'store = "postgresql://user@host:5432/database?sslmode=require"',
        'store = "postgresql://user:password@host/database"',
        'store = "postgres://host/database?password=x"',
        'model = "p"',
        'model = "p:"',
        'model = "a b:c"',
        'stream = "on"',
        "modle = 1",
        "controls = { temperature = 1 }",
        "controls = 1",
        "aliases = { fast = 'groq:m', openai = 'openai_conversations' }",
        "aliases = { 'a b' = 'groq' }",
        "aliases = { fast = 'groq:' }",
        "aliases = { fast = 1 }",
        "aliases = 1",
        "defaults = { temperature = 1.0 }",
        "defaults = 1",
        "limits = { attachment_bytes = 1 }",
        "limits = { attachment_bytes = 0 }",
        "limits = { attachment_bytes = 0.5 }",
        "limits = { attachment_bytes = inf }",
        "limits = { none = 1 }",
        "directories = { data = '' }",
        "directories.log = 'x'",
        'providers.x = { module = "m.n", package = "p >= 1", own = [1] }',
        'providers."a b" = { module = "m" }',
        'providers.x = { module = "m-n" }',
        'ensembles.x = { module = "m", directories = ["."] }',
        "ensembles.x = { module = 1 }",
        "ensembles = 1",
        'providers.x = "m"',
        'plugins.x = { module = "m", enabled = false }',
        "plugins.disabled = ['x', 1]",
        "plugins.disabled = { module = 'x' }",
        "plugins.x = 1",
        "models = [{ pattern = 'a' }]",
        "models = [{ pattern = '(' }]",
        "models = [{ provider = 'a' }]",
        "models = [1]",
    ],
)
def test_schema_and_loader_accept_the_same(text: str, tmp_path: Path) -> None:
    """What an editor marks as wrong is what the loader refuses."""
    by_schema, by_loader = is_accepted(text, tmp_path)

    assert by_schema == by_loader


def test_the_shipped_limits_are_those_of_the_code() -> None:
    """Whoever makes a model without a configuration gets the same limits."""
    assert (
        load_configuration(environment={"HOME": "/nowhere"}, working_directory=Path("/")).limits
        == Limits()
    )
