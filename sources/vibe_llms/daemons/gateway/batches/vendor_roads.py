"""Roads of a batch: models whose requests are submitted to batch APIs of vendors.

All requests of a batch for one model go to one target, which is chosen when the batch begins, and
stored. Requests without such a target go to the gateway itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.gateway.batches.files import perform
from vibe_llms.daemons.gateway.batches.storage import BatchedRequest, VendorRoad
from vibe_llms.daemons.gateway.faces import calls, chat_completions, media, messages, responses
from vibe_llms.daemons.gateway.file_references import refers_to_files
from vibe_llms.daemons.gateway.upstreams import is_remote
from vibe_llms.exceptions import ConverseError
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.client_requests import Face
    from vibe_llms.daemons.gateway.gateway import Gateway
    from vibe_llms.daemons.gateway.upstreams import Upstream
    from vibe_llms.plugins.specification.daemons import Grant
    from vibe_llms.providers.batches import VendorBatches

FACES: Final = {
    "/v1/chat/completions": chat_completions.FACE,
    "/v1/embeddings": calls.EMBEDDINGS,
    "/v1/images/generations": media.IMAGES,
    "/v1/messages": messages.FACE,
    "/v1/moderations": calls.MODERATIONS,
    "/v1/responses": responses.FACE,
}
"""Protocols of the paths that the requests of a batch may have."""

VENDOR: Final = "vendor"


async def choose_roads(
    gateway: Gateway, grant: Grant | None, path: str, items: Iterable[BatchedRequest]
) -> list[VendorRoad]:
    """Choose a target with a batch API for each model that has one."""
    face = FACES.get(path)
    if face is None:
        return []
    roads = []
    models = await perform(_survey_models, items)
    for name, has_files in models.items():
        # Files of the gateway are read for each request, not for a whole batch.
        if name and not has_files and (grant is None or grant.admits(name)):
            road = await _choose(gateway, face, path, name)
            roads += [] if road is None else [road]
    return roads


def _survey_models(items: Iterable[BatchedRequest]) -> dict[str, bool]:
    """Return for each model whether its requests refer to files of the gateway."""
    models: dict[str, bool] = {}
    for item in items:
        name = item.find_model()
        models[name] = models.get(name, False) or refers_to_files(bytes(item.body))
    return models


async def _choose(gateway: Gateway, face: Face, path: str, name: str) -> VendorRoad | None:
    for address, strict in await _list_targets(gateway, face, name):
        try:
            upstream = await gateway.upstreams.reach(address, strict=strict, genus=face.genus)
        except ConverseError:  # the next target may be usable
            continue
        if produce_vendor_batches(upstream, face, path) is not None:
            return VendorRoad(model=name, address=upstream.address, strict=strict)
    return None


async def _list_targets(gateway: Gateway, face: Face, name: str) -> Sequence[tuple[str, bool]]:
    """Return the addresses of a model's own targets in the order in which to ask them.

    Fallbacks are no choice: they are for requests that have failed.
    """
    router = gateway.router
    try:
        if router is None:
            upstream = await gateway.upstreams.access(name, face.genus)
            return [(upstream.address, upstream.strict)]
        plan = router.plan(name)
    except ConverseError:  # each request will be answered with this error
        return []
    if router.routes[name].settings.batches != VENDOR:
        return []
    targets = [target.configured for target in plan.targets]
    return [(each.settings.model, each.strict) for each in targets if each.owner == name]


def produce_vendor_batches(upstream: Upstream, face: Face, path: str) -> VendorBatches | None:
    """Return the vendor's batches for requests of a path; ``None`` if it has none.

    Requests outside of a conversation are not translated: the vendor must have the same path.
    """
    model = upstream.model
    if not is_remote(model):
        return None
    vendor_path = model.compose_path(streaming=False)
    if face.genus is not Genus.CONVERSER and not (model.protocol and f"/v1{vendor_path}" == path):
        return None
    return model.client.vendor.produce_batches(model.client, vendor_path)
