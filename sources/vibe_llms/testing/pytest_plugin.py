"""The pytest plugin: ``pytest_plugins = ["vibe_llms.testing.pytest_plugin"]``.

It provides a simulated vendor as the fixture ``simulator``, and the options with which ``vibe
conformance`` names the provider under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

# This must precede the import of the contracts, for pytest to show values in their failures.
pytest.register_assert_rewrite("vibe_llms.testing.contracts")

if TYPE_CHECKING:
    from vibe_llms.testing.simulator import SynchronousSimulator


@pytest.fixture
def simulator() -> Iterator[SynchronousSimulator]:
    """Vendors on loopback, for one test."""
    from vibe_llms.testing.simulator import SynchronousSimulator

    with SynchronousSimulator() as running:
        yield running


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command."""
    group = parser.getgroup("vibe-llms")
    group.addoption("--provider-module", help="The plugin whose provider is tested.")
    group.addoption("--provider-name", default="", help="The provider, if the plugin has several.")
    group.addoption("--provider-model", default="", help="The model.")
    group.addoption(
        "--provider-setting",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="A setting of the provider, its value in TOML.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Pass the options to the contract."""
    module = config.getoption("--provider-module")
    if not module:
        return
    from vibe_llms.testing.contracts import suite

    suite.TestProvider.module = module
    suite.TestProvider.name = config.getoption("--provider-name")
    suite.TestProvider.model = config.getoption("--provider-model")
    suite.TestProvider.settings = dict(map(read_setting, config.getoption("--provider-setting")))


def read_setting(text: str) -> tuple[str, Any]:
    """Return the name and the value of ``KEY=VALUE``; a value that is not TOML is a text."""
    import tomli

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise pytest.UsageError(f"{text!r} is not a setting. Write KEY=VALUE.")
    try:
        return key.strip(), tomli.loads(f"value = {value}")["value"]
    except tomli.TOMLDecodeError:
        return key.strip(), value
