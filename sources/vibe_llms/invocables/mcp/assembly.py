"""One call that makes an ensemble of a server, with all who answer what it asks."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import attrs

from vibe_llms.invocables.approvals import Approver
from vibe_llms.invocables.mcp.answers import AnswerLimits, Answers
from vibe_llms.invocables.mcp.connections import Wiring
from vibe_llms.invocables.mcp.elicitation import Elicitor
from vibe_llms.invocables.mcp.ensembles import McpEnsemble
from vibe_llms.invocables.mcp.oauth import Authorizer, OAuthSettings, produce_authorization
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.limits import Limits

if TYPE_CHECKING:
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.providers.interfaces import ConverserModel


class Answerers(TypedDict, total=False):
    """Who answers what a server asks; see :func:`produce_mcp_ensemble`."""

    approver: Approver | None
    model: ConverserModel | None
    reactors: ConversationReactors | None
    elicitor: Elicitor | None
    roots: Iterable[Path]
    authorizer: Authorizer | None


def produce_mcp_ensemble(
    server: McpServer,
    *,
    approver: Approver | None = None,
    model: ConverserModel | None = None,
    reactors: ConversationReactors | None = None,
    elicitor: Elicitor | None = None,
    roots: Iterable[Path] = (),
    authorizer: Authorizer | None = None,
    grants: Path | None = None,
    limits: Limits | None = None,
    answer_limits: AnswerLimits | None = None,
) -> McpEnsemble:
    """Makes an ensemble of a server. What is not given, the server may not ask for.

    Args:
        server: How it is reached, and what of it is offered.
        approver: Is asked before a model is asked what the server wants to know.
        model: Is asked, if there is also an approver.
        reactors: Hear of the model's answers.
        elicitor: Asks a person the server's questions.
        roots: Directories that the server is told of.
        authorizer: Brings a person to the browser where the server wants OAuth.
        grants: The directory where tokens of OAuth are kept; ``None`` to keep them in memory.
        limits: As everywhere.
        answer_limits: How much the server may ask.
    """
    answers = Answers(
        server=server.name,
        approver=approver,
        model=model,
        reactors=reactors,
        elicitor=elicitor,
        roots=roots,
        limits=answer_limits or AnswerLimits(),
    )
    wiring = Wiring(produce_callbacks=answers.produce_callbacks)
    if _may_want_oauth(server, authorizer, grants):
        wiring = _add_authorization(wiring, server, authorizer, grants)
    return McpEnsemble(server, wiring=wiring, limits=limits)


def _may_want_oauth(server: McpServer, authorizer: Authorizer | None, grants: Path | None) -> bool:
    """Tells whether a server is to be let in by OAuth, if it wants: unless it has a token."""
    if not server.url:
        return False
    has_token = any(name.lower() == "authorization" for name in server.headers)
    can_be = authorizer is not None or grants is not None
    return server.oauth is not None or (can_be and not has_token)


def _add_authorization(
    wiring: Wiring, server: McpServer, authorizer: Authorizer | None, grants: Path | None
) -> Wiring:
    settings = server.oauth or OAuthSettings()
    produce = functools.partial(
        produce_authorization,
        server.name,
        server.url,
        settings,
        directory=grants,
        authorizer=authorizer,
        patience=wiring.patience,
    )
    return attrs.evolve(
        wiring,
        produce_auth=functools.cache(produce),  # it counts how often a person was asked
        person_seconds=settings.wait_seconds if authorizer is not None else 0.0,
    )
