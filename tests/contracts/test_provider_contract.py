"""Every provider keeps the contract: those that ship, and a stranger's."""

from __future__ import annotations

from vibe_llms.testing.contracts import ProviderContract


class TestScripted(ProviderContract):
    """The provider that plays scripts."""

    module = "vibe_llms.providers.scripted"
    model = "echo"
    invokes = False
    loses_nothing = True
