"""Credentials of Amazon's cloud, by botocore: its chain of sources, and its signatures of requests.

The chain has environment variables, profiles (with single sign-on, assumed roles and processes),
and the roles of containers and machines. A key for Bedrock needs none of it.
"""

from __future__ import annotations

import asyncio
import configparser
import logging
import os
from collections.abc import Mapping, Sequence
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
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import expand_home, read_file
from vibe_llms.foundation.optional_packages import advise_extra, needing
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.cloud_credentials import ObtainedSecret, Renewal
from vibe_llms.providers.requirements import Requirement, find_packages
from vibe_llms.wire.exchanges import Exchange, WireRequest

REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
PROFILE_VARIABLES: Final = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
KEY_VARIABLE: Final = "AWS_BEARER_TOKEN_BEDROCK"
"""Environment variables that Amazon's own tools read."""

_SIGNED_HEADERS: Final = ("content-type",)
"""Headers of a request that are signed, in addition to those of the signature."""

_EXPIRED_TYPES: Final = frozenset(
    {
        *("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId"),
        *("InvalidSignatureException", "UnrecognizedClientException"),
    }
)
"""Types of errors after which other credentials may help."""

_LOGIN: Final = (
    "Run: aws configure, or aws sso login; or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY"
)
_SHOWN_CHARACTERS: Final = 200
_LARGE_BYTES: Final = 1_000_000
"""Size from which the checksum of a body is computed in a thread."""

Credentials: TypeAlias = Any
"""Credentials of botocore, which has no annotations."""


def read_profile(setting: str, profile: str = "") -> str | None:
    """Return a setting of a profile in the files of Amazon's tools; empty without one.

    The tools themselves would take a second for it.

    Args:
        profile: The profile; by default that of the environment.

    Returns:
        ``None`` if a file is invalid.
    """
    variables = (os.environ.get(name) for name in PROFILE_VARIABLES)
    profile = profile or next(filter(None, variables), "default")
    files = (
        os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config",
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials",
    )
    for path in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(read_file(expand_home(path)).decode())
        except OSError:
            continue
        except (ValueError, RuntimeError, configparser.Error):
            return None  # let the tools report the mistakes in the file
        for section in (profile, f"profile {profile}"):
            if text := parser.get(section, setting, fallback=""):
                return text
    return ""


def find_region(profile: str = "") -> str:
    """Return the region of the environment, or of a profile; empty without one."""
    variables = (os.environ.get(name) for name in REGION_VARIABLES)
    return next(filter(None, variables), "") or read_profile("region", profile) or ""


def survey_aws_requirements() -> tuple[Requirement, ...]:
    """Return the missing requirements for credentials of Amazon's cloud. Does not use the network.

    Whether there are credentials is not known without botocore, and it may ask a machine's server.
    """
    remedy = f"{advise_extra('bedrock', 'botocore')}; or set {KEY_VARIABLE} to a key for Bedrock."
    return find_packages(("botocore",), remedy)


class AwsCredentials:
    """Signatures for requests to a service of Amazon's cloud; see :class:`.CloudCredentials`.

    Args:
        provider: Name of the provider, for errors.
        service: Name of the service in signatures.
        region: The region.
        profile: The profile; by default that of the environment.
    """

    def __init__(self, provider: str, service: str, region: str, profile: str = "") -> None:
        self._provider, self._service = provider, service
        self._region, self._profile = region, profile
        self._renewal = Renewal(self._obtain, _is_fresh, _is_usable)

    @property
    def is_ready(self) -> bool:
        """True if credentials were found."""
        return self._renewal.current is not None

    async def authorize(self, request: WireRequest) -> WireRequest:
        """Sign a request, unless it has a key. Raises ConverseError."""
        if "authorization" in request.headers:
            return request
        frozen = (await self._renewal.access()).frozen
        if len(request.body) < _LARGE_BYTES:
            signature = self._sign(request, frozen)
        else:
            signature = await asyncio.to_thread(self._sign, request, frozen)
        return attrs.evolve(request, headers={**request.headers, **signature})

    def _sign(self, request: WireRequest, frozen: Credentials) -> Mapping[str, str | Secret]:
        """Return the headers of the signature."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        names = [name for name in _SIGNED_HEADERS if name in request.headers]
        headers = {name: request.headers[name] for name in names}
        aws_request = AWSRequest(
            method=request.method, url=request.url, data=request.body, headers=headers
        )
        SigV4Auth(frozen, self._service, self._region).add_auth(aws_request)
        signed = {name.lower(): text for name, text in aws_request.headers.items()}
        return {
            name: ObtainedSecret(text) if name != "x-amz-date" else text
            for name, text in signed.items()
            if name not in request.headers
        }

    def is_refused(self, request: WireRequest, exchange: Exchange) -> bool:
        """Return whether an answer refuses a signature, or its credentials."""
        kind = exchange.headers.get("x-amzn-errortype", "").partition(":")[0]
        is_signed = isinstance(request.headers.get("authorization"), ObtainedSecret)
        return exchange.status in (400, 401, 403) and is_signed and kind in _EXPIRED_TYPES

    async def renew(self, refused: WireRequest) -> None:
        """Load the credentials again, unless this has happened since. Raises ConverseError."""
        current, sent = self._renewal.current, refused.headers["authorization"]
        text = sent.reveal() if isinstance(sent, Secret) else sent
        if current is None or f"Credential={current.frozen.access_key}/" in text:
            self._renewal.current = None  # not refreshed, but looked up anew
            await self._renewal.renew()

    def list_secrets(self) -> Sequence[Secret]:
        """Return the parts of the credentials that are sent, or that sign."""
        current = self._renewal.current
        if current is None:
            return ()
        frozen = current.frozen
        return [Secret(text) for text in (frozen.secret_key, frozen.token) if text]

    def _obtain(self, current: _Loaded | None) -> _Loaded:
        """Find credentials, or refresh them; in a thread, as both may use the network."""
        with needing("bedrock", "botocore", f"The provider {self._provider}"):
            from botocore import auth, awsrequest  # noqa: F401  # not in the thread of the loop
            from botocore.exceptions import BotoCoreError
            from botocore.session import Session
        try:
            if current is None:
                # Otherwise its warnings would be printed.
                logging.getLogger("botocore").addHandler(logging.NullHandler())
                found = Session(profile=self._profile or None).get_credentials()
            else:
                found = current.credentials
            if found is not None:
                return _Loaded(found, found.get_frozen_credentials())
            failure = self._explain_missing("none were found")
        except (BotoCoreError, OSError, ValueError) as error:
            failure = self._translate(error)
        raise failure  # outside of the handler: the original error may show a secret

    def _explain_missing(self, reason: str) -> ConverseError:
        return ConfigurationError(
            detail=f"No credentials of Amazon's cloud for {self._provider}: {reason}.",
            remedy=f"{_LOGIN}; or set {KEY_VARIABLE} to a key for Bedrock.",
        )

    def _translate(self, error: Exception) -> ConverseError:
        """Return the error of credentials that cannot be loaded or refreshed."""
        names = {cls.__name__ for cls in type(error).__mro__}
        reason = " ".join(str(error).split())[:_SHOWN_CHARACTERS].rstrip(" .")
        if names & {"HTTPClientError", "ConnectionError"}:
            return TransportError(
                detail=f"The server of Amazon's credentials is unreachable: {reason}.",
                stage=Stage.CONNECT,
            )
        if names & {"SSOError", "UnauthorizedSSOTokenError", "CredentialRetrievalError"}:
            return ProviderError(
                provider=self._provider,
                fault=ProviderFault.AUTHENTICATION,
                detail=f"Amazon's cloud has no valid credentials: {reason}.",
                remedy=f"{_LOGIN}.",
            )
        return self._explain_missing(reason)


@frozen
class _Loaded:
    """Credentials of botocore, and a copy of their present state."""

    credentials: Credentials
    frozen: Credentials


def _is_fresh(loaded: _Loaded) -> bool:
    """Return whether credentials do not end, or not within the next quarter of an hour."""
    needs_refresh = getattr(loaded.credentials, "refresh_needed", None)
    return needs_refresh is None or not needs_refresh()


def _is_usable(loaded: _Loaded) -> bool:
    """Return whether credentials have not ended."""
    return not loaded.credentials.refresh_needed(0)
