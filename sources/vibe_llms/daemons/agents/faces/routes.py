"""Routes of all faces."""

from __future__ import annotations

from vibe_llms.daemons.agents.faces.a2a import A2aFace
from vibe_llms.daemons.agents.faces.a2a_card import produce_card_route
from vibe_llms.daemons.agents.faces.ag_ui import AgUiFace
from vibe_llms.daemons.agents.faces.ai_sdk import AiSdkFace
from vibe_llms.daemons.agents.faces.serving import FaceParts
from vibe_llms.daemons.agents.route_access import RouteAccess
from vibe_llms.daemons.routes import Route


def produce_face_routes(parts: FaceParts, access: RouteAccess) -> list[Route]:
    """Produce the routes of all faces."""
    rows = {
        "ag-ui": AgUiFace(parts).list_rows(),
        "ai-sdk": AiSdkFace(parts).list_rows(),
        "a2a": A2aFace(parts).list_rows(),
    }
    routes = [access.produce_route(row, tag=tag) for tag, listed in rows.items() for row in listed]
    return [*routes, produce_card_route(access)]
