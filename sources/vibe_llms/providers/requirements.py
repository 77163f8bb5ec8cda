"""Requirements of a provider that are missing, and how to meet them."""

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

_CONNECT_SECONDS: Final = 0.3
"""Seconds to wait for a connection to a local server; a closed port refuses at once."""


_LISTENING_FAULTS: Final = ("CertificateFault", "TlsFault", "ProxyRefusal", "ProxyUnreachable")
"""Names of errors that show that a server or a proxy is listening: classes in
``wire.http.faults``. A sanitized error has only the name of the class of its cause.
"""


class RequirementKind(enum.StrEnum):
    """Kind of a missing requirement."""

    KEY = "key"
    PACKAGE = "package"
    PROGRAM = "program"
    SERVER = "server"
    SETTING = "setting"
    WEIGHTS = "weights"


@frozen
class Requirement:
    """A missing requirement of a provider.

    Attributes:
        kind: Kind of the requirement.
        name: Name of the variable, package or program; the address of a server.
        remedy: How to meet the requirement, in one sentence.
    """

    kind: RequirementKind
    name: str
    remedy: str

    @property
    def prevents(self) -> bool:
        """True if the user must act before a request can be sent; weights are downloaded
        automatically.
        """
        return self.kind is not RequirementKind.WEIGHTS

    def __str__(self) -> str:
        words = {
            RequirementKind.KEY: "",
            RequirementKind.SETTING: "",
            RequirementKind.SERVER: "a server at ",
        }
        return f"{words.get(self.kind, f'the {self.kind} ')}{self.name}"


def find_packages(modules: Iterable[str], remedy: str) -> tuple[Requirement, ...]:
    """Return the requirement of packages whose modules are missing; no module is imported.

    Args:
        modules: Names of the modules.
        remedy: How to install the packages.
    """
    missing = [module for module in modules if not _is_installed(module)]
    return (Requirement(RequirementKind.PACKAGE, ", ".join(missing), remedy),) if missing else ()


def find_server(base_url: str, remedy: str) -> tuple[Requirement, ...]:
    """Return the requirement of a server on this machine that is not running.

    A server on another machine is not contacted, as that could take long.
    """
    parts = urlsplit(base_url)
    if parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        return ()
    default_port = 443 if parts.scheme == "https" else 80
    port = parts.port or default_port
    try:
        socket.create_connection((parts.hostname, port), _CONNECT_SECONDS).close()
    except OSError:
        return (Requirement(RequirementKind.SERVER, f"{parts.hostname}:{port}", remedy),)
    return ()


def advise_of_server(error: ConverseError, advice: str) -> None:
    """Set the remedy of an error if its cause is a server that is not running.

    Args:
        error: The error of a request to the server.
        advice: How to start the server; empty if the user does not start it.
    """
    if not advice or not isinstance(error, TransportError) or error.stage is not Stage.CONNECT:
        return
    is_listening = getattr(error.__cause__, "type", "") in _LISTENING_FAULTS
    if not is_listening and not isinstance(error, TransportTimeoutError):
        error.remedy = advice


def advise_of_address(error: ConverseError, model: str, url: str) -> None:
    """Add the address of the request to the error of a 404, as the base URL may be wrong.

    Nothing is added if the server says that it does not have the model.
    """
    if not isinstance(error, ProviderError) or error.status != 404:
        return
    path = urlsplit(url).path
    # The path may contain the model's name.
    if not model or model not in error.detail.replace(path, ""):
        from vibe_llms.wire.size_limits import describe_address  # imported only here, as it is slow

        address = f"The request went to {describe_address(url)}{path}."
        # In the remedy, which a gateway's clients do not see.
        error.remedy = f"{error.remedy} {address}".lstrip()


def find_variable(provider: str, variables: Iterable[str], setting: str) -> tuple[Requirement, ...]:
    """Return the requirements of unset environment variables, which a setting can replace."""
    return tuple(
        Requirement(
            RequirementKind.SETTING, name, f"Set {name}, or {setting} in [providers.{provider}]."
        )
        for name in variables
        if not os.environ.get(name, "").strip()
    )


def refuse_requirements(provider: str, requirements: Iterable[Requirement]) -> None:
    """Raise an error for requirements that are not downloaded automatically.

    Raises:
        ConfigurationError: A setting, or the key, is missing.
        DependencyError: A package or program is missing.
        TransportError: A server on this machine is not running.
    """
    for requirement in requirements:
        if requirement.kind is RequirementKind.KEY:
            raise ConfigurationError(
                detail=f"The key for {provider} is missing.", remedy=requirement.remedy
            )
        if requirement.kind is RequirementKind.SETTING:
            detail = f"{provider} requires {requirement.name}, which is not set."
            raise ConfigurationError(detail=detail, remedy=requirement.remedy)
        if requirement.kind is RequirementKind.PACKAGE:
            detail = f"The provider {provider} needs {requirement.name}, which is not installed."
            raise DependencyError(
                package=requirement.name, detail=detail, remedy=requirement.remedy
            )
        if requirement.kind is RequirementKind.PROGRAM:
            detail = f"The provider {provider} starts {requirement.name}, which is not installed."
            raise DependencyError(
                package=requirement.name, detail=detail, remedy=requirement.remedy
            )
        if requirement.kind is RequirementKind.SERVER:
            detail = f"The server of {provider} is not running at {requirement.name}."
            raise TransportError(detail=detail, remedy=requirement.remedy, stage=Stage.CONNECT)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
