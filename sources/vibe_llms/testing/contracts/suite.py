"""Contract for the provider named on the command line; run by ``vibe conformance``."""

from __future__ import annotations

from vibe_llms.testing.contracts.provider import ProviderContract


class TestProvider(ProviderContract):
    """The provider under test, as named by the pytest plugin."""

    module = ""
