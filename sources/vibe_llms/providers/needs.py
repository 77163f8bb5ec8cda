"""What a provider lacks before it can be asked, and how it is had."""

from __future__ import annotations

import enum
import os
import socket
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    DependencyError,
    ProviderError,
    Stage,
    TransportError,
    TransportTimeoutError,
)
from vibe_llms.foundation.attrs_classes import frozen

_KNOCK_SECONDS: Final = 0.3
"""How long a server on this machine may take to let somebody in; nobody there is said at once."""


_THERE: Final = ("CertificateFault", "TlsFault", "ProxyRefusal", "ProxyUnreachable")
"""What has gone wrong where a server listens that is not to be talked to, or something before it:
kinds of ``wire.http.faults``, by the names that are left of them."""


class NeedKind(enum.StrEnum):
    """What can be missing."""

    KEY = "key"
    PACKAGE = "package"
    PROGRAM = "program"
    SERVER = "server"
    SETTING = "setting"
    WEIGHTS = "weights"


@frozen
class Need:
    """Something that a provider lacks.

    Attributes:
        name: Of the variable, the package, the program; where the server would be.
        remedy: How it is had, as one sentence.
    """

    kind: NeedKind
    name: str
    remedy: str

    @property
    def prevents(self) -> bool:
        """Whether nothing can be asked before somebody acts; weights are fetched on the way."""
        return self.kind is not NeedKind.WEIGHTS

    def __str__(self) -> str:
        words = {NeedKind.KEY: "", NeedKind.SETTING: "", NeedKind.SERVER: "a server at "}
        return f"{words.get(self.kind, f'the {self.kind} ')}{self.name}"


def find_packages(modules: Iterable[str], remedy: str) -> tuple[Need, ...]:
    """Returns the need of packages whose modules cannot be imported; imports none.

    Args:
        modules: Their names.
        remedy: What installs them.
    """
    lacking = [module for module in modules if not _is_there(module)]
    return (Need(NeedKind.PACKAGE, ", ".join(lacking), remedy),) if lacking else ()


def find_server(base_url: str, remedy: str) -> tuple[Need, ...]:
    """Returns the need of a server on this machine that nobody has started.

    A server elsewhere is not looked for: that would take long, and tell somebody.
    """
    parts = urlsplit(base_url)
    if parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        return ()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), _KNOCK_SECONDS).close()
    except OSError:
        return (Need(NeedKind.SERVER, f"{parts.hostname}:{port}", remedy),)
    return ()


def advise_of_server(error: ConverseError, advice: str) -> None:
    """Lets the error of a server that does not listen say how it is started.

    Args:
        advice: What can be done; empty where it is no server that its user starts.
    """
    if not advice or not isinstance(error, TransportError) or error.stage is not Stage.CONNECT:
        return
    is_there = getattr(error.__cause__, "type", "") in _THERE
    if not is_there and not isinstance(error, TransportTimeoutError):
        error.remedy = advice


def advise_of_address(error: ConverseError, model: str, url: str) -> None:
    """Let the error of a 404 say what was asked: the base URL may be wrong.

    Nothing is added where the server says that it has no such model.
    """
    if not isinstance(error, ProviderError) or error.status != 404:
        return
    path = urlsplit(url).path
    if not model or model not in error.detail.replace(path, ""):  # a path may name the model, too
        from vibe_llms.wire.bodies import describe_address  # brings all that a request is made of

        asked = f"It was asked at {describe_address(url)}{path}."
        error.remedy = f"{error.remedy} {asked}".lstrip()  # not for a gateway's clients


def find_variable(provider: str, variables: Iterable[str], setting: str) -> tuple[Need, ...]:
    """Returns the need of variables of the environment, in place of which a setting does, too."""
    return tuple(
        Need(NeedKind.SETTING, name, f"Set {name}, or {setting} in [providers.{provider}].")
        for name in variables
        if not os.environ.get(name, "").strip()
    )


def refuse_for_want(provider: str, needs: Iterable[Need]) -> None:
    """Refuses to go on where something is missing that is not fetched on the way.

    Raises:
        ConfigurationError: A setting, or the key.
        DependencyError: A package, or a program.
        TransportError: A server on this machine.
    """
    for need in needs:
        if need.kind is NeedKind.KEY:
            raise ConfigurationError(detail=f"There is no key for {provider}.", remedy=need.remedy)
        if need.kind is NeedKind.SETTING:
            detail = f"There is no {need.name}, without which {provider} cannot be asked."
            raise ConfigurationError(detail=detail, remedy=need.remedy)
        if need.kind is NeedKind.PACKAGE:
            detail = f"The provider {provider} needs {need.name}, which is not installed."
            raise DependencyError(package=need.name, detail=detail, remedy=need.remedy)
        if need.kind is NeedKind.PROGRAM:
            detail = f"The provider {provider} starts {need.name}, which is not installed."
            raise DependencyError(package=need.name, detail=detail, remedy=need.remedy)
        if need.kind is NeedKind.SERVER:
            detail = f"Nothing listens at {need.name}, where the server of {provider} is to be."
            raise TransportError(detail=detail, remedy=need.remedy, stage=Stage.CONNECT)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
