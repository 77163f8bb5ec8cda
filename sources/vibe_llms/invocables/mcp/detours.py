"""Places where a person has to have been before a server begins with a call.

So it is in the era of sessions, where the call is an error that names them; in the other the result
requires an answer, and the official package asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp.client.client import Client

DETOURS_LIMIT: Final = 5
"""To how many addresses one call may send a person."""


async def make_detours(client: Client, error: BaseException | None) -> bool:
    """Sends a person where a refused call wants them to go.

    Args:
        client: Of the server; whoever answers its questions answers this one, too.
        error: What came of the call.

    Returns:
        Whether they have been everywhere, so that the call can be made again; ``False`` also
        where it was refused for another reason.
    """
    from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
    from mcp_types import URL_ELICITATION_REQUIRED

    if not isinstance(error, MCPError) or error.code != URL_ELICITATION_REQUIRED:
        return False
    ask: Any = client.elicitation_callback
    if ask is None:
        return False
    try:
        wanted = UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValueError, TypeError, KeyError):
        return False
    if not 0 < len(wanted) <= DETOURS_LIMIT:
        return False
    for each in wanted:
        answer = await ask(None, each)
        if getattr(answer, "action", "") != "accept":
            return False
    return True
