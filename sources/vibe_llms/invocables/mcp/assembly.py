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
from vibe_llms.invocables.mcp.patience import Patience
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
    patience = Patience()
    wiring = Wiring(produce_callbacks=answers.produce_callbacks, patience=patience)
    wants_authorization = server.oauth is not None or authorizer is not None
    if server.url and wants_authorization:
        settings = server.oauth or OAuthSettings()
        wiring = attrs.evolve(
            wiring,
            produce_auth=functools.cache(
                lambda: produce_authorization(
                    server.name,
                    server.url,
                    settings,
                    directory=grants,
                    authorizer=authorizer,
                    patience=patience,
                )
            ),
            person_seconds=settings.wait_seconds if authorizer is not None else 0.0,
        )
    return McpEnsemble(server, wiring=wiring, limits=limits)
