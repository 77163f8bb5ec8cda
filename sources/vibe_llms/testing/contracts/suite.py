"""The contract for the provider that the command line names; run by ``vibe conformance``."""

from __future__ import annotations

from vibe_llms.testing.contracts.provider import ProviderContract


class TestProvider(ProviderContract):
    """The provider that is tried; the pytest plugin says which."""

    module = ""
