"""Application Default Credentials of Google's cloud, by the package google-auth.

They are the first of: the file that ``GOOGLE_APPLICATION_CREDENTIALS`` names (of a service account,
a workload identity, or another kind), the login of ``gcloud``, and the service account of the
machine, from its metadata server.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    ProviderError,
    ProviderFault,
    Stage,
    TransportError,
)
from vibe_llms.foundation.files import expand_home
from vibe_llms.foundation.optional_packages import advise_extra, needing
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.cloud_credentials import ObtainedSecret, Renewal
from vibe_llms.providers.requirements import (
    Requirement,
    RequirementKind,
    find_packages,
    find_variable,
)
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.wire.exchanges import Exchange, WireRequest

Credentials: TypeAlias = Any
"""Credentials of google-auth, whose methods have no annotations."""

PROJECT_MARK: Final = "{project}"
"""Stands in a URL for the project of the credentials."""

TOKEN_VARIABLE: Final = "CLOUDSDK_AUTH_ACCESS_TOKEN"
"""Environment variable for an access token, as gcloud reads it."""

_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
_LOGIN: Final = (
    "Run: gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a file "
    "of credentials"
)
_MACHINE_VARIABLES: Final = ("GCE_METADATA_HOST", "GAE_ENV", "K_SERVICE", "KUBERNETES_SERVICE_HOST")
"""Environment variables of machines that may have a metadata server."""
_PRODUCT_FILE: Final = Path("/sys/class/dmi/id/product_name")
_SHOWN_CHARACTERS: Final = 200


def replace_key_requirement(
    provider: str, requirements: Sequence[Requirement], project: str, project_variable: str
) -> tuple[Requirement, ...]:
    """Return the requirements of a vendor on Google's cloud. Does not use the network.

    Without an access token, Application Default Credentials are required, and they may name the
    project.

    Args:
        requirements: The requirements of a vendor whose key is an access token.
        project: The project in the settings; empty if none is set.
        project_variable: Environment variable for the project.
    """
    others = [each for each in requirements if each.kind is not RequirementKind.KEY]
    missing = _survey_credentials()
    if len(others) < len(requirements):
        return (*others, *missing)
    if project or not missing:
        return tuple(requirements)
    return (*find_variable(provider, (project_variable,), "project"), *requirements)


def _survey_credentials() -> tuple[Requirement, ...]:
    remedy = f"{advise_extra('vertex', 'google-auth')}; or set {TOKEN_VARIABLE}."
    missing = find_packages(("google.auth", "requests"), remedy)
    if missing or _may_have_credentials():
        return missing
    remedy = f"{_LOGIN}, or {TOKEN_VARIABLE} to an access token."
    return (Requirement(RequirementKind.KEY, "GOOGLE_APPLICATION_CREDENTIALS", remedy),)


def _may_have_credentials() -> bool:
    """Return whether there is a file of credentials, or this may be a machine of the cloud."""
    variables = ("GOOGLE_APPLICATION_CREDENTIALS", *_MACHINE_VARIABLES)
    if any(os.environ.get(name) for name in variables):
        return True
    if (_find_gcloud_folder() / "application_default_credentials.json").is_file():
        return True
    try:
        return _PRODUCT_FILE.read_text("utf-8").startswith("Google")
    except (OSError, ValueError):
        return False


def _find_gcloud_folder() -> Path:
    """Return the folder in which gcloud keeps its credentials."""
    if folder := os.environ.get("CLOUDSDK_CONFIG"):
        return Path(folder)
    if os.name == "nt":
        return Path(os.environ.get("APPDATA", "C:\\")) / "gcloud"
    return expand_home("~/.config/gcloud")


class GoogleCredentials:
    """Access tokens for Google's cloud; see :class:`.CloudCredentials`.

    A token is renewed some minutes before it ends, and after an answer with status 401.

    Args:
        provider: Name of the provider, for errors.
        settings: Returns the provider's settings, whose proxy and certificate authorities apply to
            the requests for tokens.
    """

    def __init__(self, provider: str, settings: Callable[[], RemoteSettings]) -> None:
        self._provider = provider
        self._settings = settings
        self._project = ""
        self._request: Any = None
        self._renewal = Renewal(self._obtain, _is_fresh, _is_valid)

    @property
    def is_ready(self) -> bool:
        """True if a token was obtained."""
        return self._renewal.current is not None

    async def authorize(self, request: WireRequest) -> WireRequest:
        """Add a token; fill in the project of the credentials. Raises ConverseError."""
        needs_project = PROJECT_MARK in request.url
        if "authorization" in request.headers and not needs_project:
            return request
        credentials = await self._renewal.access()
        url = request.url
        if needs_project:
            url = url.replace(PROJECT_MARK, self._require_project())
        headers = request.headers
        if "authorization" not in headers:
            headers = {**headers, **_compose_headers(credentials)}
        return attrs.evolve(request, url=url, headers=headers)

    async def find_project(self) -> str:
        """Return the project of the credentials. Raises ConverseError."""
        await self._renewal.access()
        return self._require_project()

    def is_refused(self, request: WireRequest, exchange: Exchange) -> bool:
        """Return whether an answer has the status of an invalid token, and it was added here."""
        token = request.headers.get("authorization")
        return exchange.status == 401 and isinstance(token, ObtainedSecret)

    async def renew(self, refused: WireRequest) -> None:
        """Obtain a new token, unless this has happened since the request. Raises ConverseError."""
        current, sent = self._renewal.current, refused.headers.get("authorization")
        is_same = isinstance(sent, Secret) and current and sent.reveal() == _write_token(current)
        if current is None or is_same:
            await self._renewal.renew()

    def list_secrets(self) -> Sequence[Secret]:
        """Return the token."""
        current = self._renewal.current
        return () if current is None else (Secret(str(current.token)),)

    def _require_project(self) -> str:
        if self._project:
            return self._project
        raise ConfigurationError(
            detail=f"The credentials for {self._provider} do not name a project.",
            remedy="Set GOOGLE_CLOUD_PROJECT, "
            f"or project in [providers.{self._provider}], to its id.",
        )

    def _obtain(self, current: Credentials | None) -> Credentials:
        """Load the credentials, or refresh them; in a thread, as both use the network."""
        with needing("vertex", "google-auth", f"The provider {self._provider}"):
            from google.auth import default, exceptions
            from google.auth.transport.requests import Request
        try:
            if self._request is None:
                # Otherwise its warnings, such as of a missing project, would be printed.
                logging.getLogger("google.auth").addHandler(logging.NullHandler())
                self._request = Request(self._produce_session())
            if current is None:
                current, project = default(scopes=_SCOPES, request=self._request)
                self._project = project or ""
            current.refresh(self._request)
        except exceptions.GoogleAuthError as error:
            failure = self._translate(error)
        else:
            return current
        raise failure  # outside of the handler: the original error may show a secret

    def _produce_session(self) -> Any:
        import requests

        settings = self._settings()
        session = requests.Session()
        session.headers["Connection"] = "close"  # the next token is requested in about an hour
        if proxy := settings.access_secret("proxy"):
            session.proxies = {"http": proxy.reveal(), "https": proxy.reveal()}
        if authorities := settings.access_path("certificate_authorities"):
            session.verify = str(authorities)
        return session

    def _translate(self, error: Exception) -> ConverseError:
        """Return the error of credentials that cannot be loaded or refreshed."""
        from google.auth import exceptions

        reason = " ".join(str(error.args[0] if error.args else error).split())
        reason = reason[:_SHOWN_CHARACTERS].rstrip(" .")
        if isinstance(error, exceptions.DefaultCredentialsError):
            return ConfigurationError(
                detail=f"No credentials of Google's cloud for {self._provider}: {reason}.",
                remedy=f"{_LOGIN}.",
            )
        if isinstance(error, exceptions.TransportError) or getattr(error, "retryable", False):
            return TransportError(
                detail=f"The server of Google's access tokens is unreachable: {reason}.",
                stage=Stage.CONNECT,
            )
        return ProviderError(
            provider=self._provider,
            fault=ProviderFault.AUTHENTICATION,
            detail=f"Google's cloud rejected the credentials: {reason}.",
            remedy=f"{_LOGIN}.",
        )


def _is_fresh(credentials: Credentials) -> bool:
    """Return whether a token is valid for some minutes more."""
    return bool(credentials.token_state.name == "FRESH")


def _is_valid(credentials: Credentials) -> bool:
    """Return whether a token is still valid."""
    return bool(credentials.token_state.name != "INVALID")


def _write_token(credentials: Credentials) -> str:
    return f"Bearer {credentials.token}"


def _compose_headers(credentials: Credentials) -> Mapping[str, str | Secret]:
    """Return the token, and the project that pays, if the credentials name one."""
    headers: dict[str, str | Secret] = {"authorization": ObtainedSecret(_write_token(credentials))}
    if credentials.quota_project_id:
        headers["x-goog-user-project"] = credentials.quota_project_id
    return headers
