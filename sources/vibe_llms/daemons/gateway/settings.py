"""The gateway's TOML file, checked as a whole: all mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

import attrs

from vibe_llms.daemons.gateway.request_limits import GatewayLimits
from vibe_llms.daemons.gateway.responses.storage import StorageLimits
from vibe_llms.daemons.gateway.routing.settings import ModelSettings
from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import MappingKind, Strings, TableKind
from vibe_llms.tables.documents import read_document
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import require

_MODELS = MappingKind(TableKind(ModelSettings))

_Mistake: TypeAlias = tuple[KeyPath, str]


@frozen(kw_only=True)
class GatewaySettings:
    """The whole file.

    Attributes:
        server: Address, TLS and limits of connections.
        limits: Limits on requests.
        responses: Limits on stored responses and conversations.
        authorizer: Authenticates clients; by default all are accepted.
        hosts: Further host names of the gateway. Without an authorizer, a gateway on loopback
            refuses other names. Pages of these hosts may read the gateway's answers:
            ``localhost:5173`` admits one port, and an origin such as ``tauri://localhost`` an
            application without a port.
        page: Serve a page on which an operator sees traffic, spending and routing, and administers
            keys; requires ``authorizer``.
        log_contents: Log one line for each request, including request and response bodies.
        models: Names that clients may use, and their targets; without any, all names of the
            configuration are allowed.
    """

    server: ServerSettings = attrs.field(factory=ServerSettings)
    limits: GatewayLimits = attrs.field(factory=GatewayLimits)
    responses: StorageLimits = attrs.field(factory=StorageLimits)
    authorizer: str | None = None
    hosts: Strings = ()
    page: bool = False
    log_contents: bool = False
    models: Annotated[Mapping[str, ModelSettings], _MODELS] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        require(self, "gateway")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between fields: a field, and a sentence."""
        request_seconds = self.limits.total_seconds
        connection_seconds = self.server.total_seconds
        if request_seconds >= connection_seconds:
            yield (
                "limits",
                f"Its total_seconds ({request_seconds:g}) must be less than that of server "
                f"({connection_seconds:g}), which cuts longer answers off without an error.",
            )


@frozen(kw_only=True)
class _Models:
    models: Annotated[Mapping[str, ModelSettings], _MODELS] = attrs.field(factory=dict)


def read_settings(path: Path, resolve: Callable[[str], object] | None = None) -> GatewaySettings:
    """Read the gateway's file.

    Args:
        resolve: Raises ConverseError for an unknown address, such as
            :meth:`.Application.resolve_address`.

    Raises:
        ConfigurationError: The file has mistakes; the error lists every mistake.
    """
    document = read_document(path)
    reader = document.produce_reader(path.parent)
    settings = reader.read(GatewaySettings, document.tree)
    # Report mistakes of models even if other parts are invalid.
    models = document.produce_reader(path.parent).read(
        _Models, {"models": document.tree.get("models", {})}
    )
    if models is not None:
        for place, message in _find_mistakes(models.models, resolve):
            reader.report(place, message)
    reader.finish()
    assert settings is not None
    return settings


def _find_mistakes(
    models: Mapping[str, ModelSettings], resolve: Callable[[str], object] | None
) -> Iterator[_Mistake]:
    """Yield contradictions between the tables, and with the configuration."""
    for name, model in models.items():
        for field in ("targets", "fallback"):
            for index, target in enumerate(getattr(model, field)):
                path = ("models", name, field, index)
                if field == "fallback" and target.model in models:
                    continue
                try:
                    if resolve is not None:
                        resolve(target.model)
                except ConverseError as error:
                    yield path, str(error)
        if (cycle := find_cycle(models, name)) is not None:
            path_text = " → ".join((*cycle, cycle[0]))
            yield ("models", name, "fallback"), f"It leads back to itself: {path_text}."


def find_cycle(models: Mapping[str, ModelSettings], name: str) -> tuple[str, ...] | None:
    """Return the cycle in which a model falls back to itself; ``None`` without one."""
    paths: list[tuple[str, ...]] = [(name,)]
    seen = {name}
    while paths:
        path = paths.pop()
        for target in models[path[-1]].fallback:
            if target.model == name:
                return path
            if target.model in models and target.model not in seen:
                seen.add(target.model)
                paths.append((*path, target.model))
    return None
