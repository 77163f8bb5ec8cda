"""Contracts of plugins, as tests that a plugin inherits with one class.

::

    from vibe_llms.testing.contracts import ProviderContract, StoreContract

    class TestMine(ProviderContract):
        module = "my_provider"

    class TestStore(StoreContract):
        def produce_store(self, directory):
            return MyStore(directory)

May import everything that a plugin may use. Must not know any provider by name: the inheriting
class declares the differences.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.testing.contracts.authorizers import AuthorizerContract
    from vibe_llms.testing.contracts.call_models import CallModelContract
    from vibe_llms.testing.contracts.guards import GuardContract
    from vibe_llms.testing.contracts.provider import ProviderContract
    from vibe_llms.testing.contracts.simulated import SimulatedContract
    from vibe_llms.testing.contracts.stores import StoreContract

__all__ = [
    "AuthorizerContract",
    "CallModelContract",
    "GuardContract",
    "ProviderContract",
    "SimulatedContract",
    "StoreContract",
]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "AuthorizerContract": "authorizers",
        "CallModelContract": "call_models",
        "GuardContract": "guards",
        "ProviderContract": "provider",
        "SimulatedContract": "simulated",
        "StoreContract": "stores",
    },
)
