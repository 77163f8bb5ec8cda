"""Strategies for answers: what a model can have said, as a provider hands it out."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
from hypothesis import strategies as st

from strategies.messages import canisters_by_role, losses, origins, requests, responses
from vibe_llms.messages.canisters import AnyCanister, Origin
from vibe_llms.messages.contents import MEDIA_CLASSES
from vibe_llms.messages.requests import Request, Response

_said = st.one_of(
    canisters_by_role["assistant"].filter(lambda canister: bool(canister.content)),
    canisters_by_role["invocation"],
    canisters_by_role["result"],
)
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@st.composite
def _answers(draw: st.DrawFn) -> Response:
    origin = draw(origins)
    response = draw(responses)
    said = draw(st.lists(_said, min_size=1, max_size=4))
    summaries = draw(st.lists(origins, max_size=2))
    metadata = attrs.evolve(response.metadata, origin=origin, summaries=summaries)
    return attrs.evolve(
        response,
        canisters=[attrs.evolve(each, origin=origin, turn_id="turn") for each in said],
        metadata=metadata,
        losses=draw(st.lists(losses, max_size=3)),
    )


answers: st.SearchStrategy[Response] = _answers()
"""Responses of which all canisters come from one turn of one model."""


def _has_bytes(request: Request) -> bool:
    media = [
        content
        for canister in request.canisters
        for content in canister.content
        if isinstance(content, MEDIA_CLASSES)
    ]
    return all(each.data is not None or each.url or each.file_id for each in media)


questions: st.SearchStrategy[Request] = st.builds(
    lambda request, lenient, window: attrs.evolve(request, lenient=lenient, window=window),
    requests.filter(_has_bytes),
    st.booleans(),
    st.sampled_from(["stop", "drop", "summarize"]),
)
"""Requests with any wishes, whose media are there."""


def strip_identity(canisters: tuple[AnyCanister, ...]) -> list[AnyCanister]:
    """Returns canisters without what whoever keeps them names anew: ids, times, the turn."""
    return [attrs.evolve(each, id="", timestamp=_EPOCH, turn_id=None) for each in canisters]


def reduce_origin(canisters: tuple[AnyCanister, ...], origin: Origin) -> list[AnyCanister]:
    """Returns the same, all with one origin."""
    return [attrs.evolve(each, origin=origin) for each in strip_identity(canisters)]
