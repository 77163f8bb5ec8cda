"""Being let in by a server that wants OAuth, over the official package's flow.

``settings`` is what the user says, and who asks a person. ``flow`` does it, and is imported, with
the official package, when somebody is to be let in; below it are where the browser comes back to
(``loopback``), what is kept (``token_storage``), and what goes wrong (``errors``).
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.invocables.mcp.oauth.settings import (
        Authorizer,
        Grant,
        OAuthSettings,
        TellingAuthorizer,
        produce_authorization,
    )


__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Authorizer": "settings",
        "Grant": "settings",
        "OAuthSettings": "settings",
        "TellingAuthorizer": "settings",
        "produce_authorization": "settings",
    },
)

__all__ = ["Authorizer", "Grant", "OAuthSettings", "TellingAuthorizer", "produce_authorization"]
