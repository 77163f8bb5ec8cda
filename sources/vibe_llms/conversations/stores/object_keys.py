"""Who asks for objects: keys that are written down, or those that a machine's role is lent.

Source: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html, read
2026-11-26, and the pages to which it leads: containers, machines, and roles by a web identity.
"""

from __future__ import annotations

import configparser
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import unescape
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import attrs

from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    StoreError,
    StoreUnavailableError,
)
from vibe_llms.files import read_file, read_secret
from vibe_llms.providers.credentials import ensure_key
from vibe_llms.secrets import Secret
from vibe_llms.values import define
from vibe_llms.wire.exchanges import Timeouts, Transport, WireRequest
from vibe_llms.wire.signatures import AccessKey

KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_REGION: Final = "us-east-1"
_LENDER: Final = "http://169.254.169.254"
"""Where a machine of Amazon's is told what it is; nothing answers there elsewhere."""
_CONTAINERS: Final = "http://169.254.170.2"
_HOSTS: Final = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23"})
"""Whom a container is told without TLS, besides itself."""
_PATIENCE: Final = Timeouts(connect_seconds=1, first_byte_seconds=5, total_seconds=10)
_AHEAD: Final = timedelta(minutes=5)
"""So long before a key ends another one is asked for."""
_ANSWER_BYTES: Final = 65_536
_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


def read_region() -> str:
    """Returns the region that the environment names, or else Amazon's first."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _REGION


def find_access_key() -> AccessKey | None:
    """Returns the key that is written down, as Amazon's own tools find it, read anew each time.

    That is in the environment, or else in the file ``~/.aws/credentials``, where
    ``AWS_SHARED_CREDENTIALS_FILE`` and ``AWS_PROFILE`` may name another file and part of it.

    Raises:
        ConfigurationError: What was found is none.
    """
    found = {name: os.environ.get(name, "") for name in KEYS}
    if not (found[KEYS[0]] and found[KEYS[1]]):
        found = _read_file()
    return _make_key(found) if found[KEYS[0]] and found[KEYS[1]] else None


def _make_key(found: Mapping[str, str]) -> AccessKey:
    identity, secret, token = (
        ensure_key(Secret(found[name]), name) if found.get(name) else None for name in KEYS
    )
    assert identity is not None
    assert secret is not None
    return AccessKey(identity=identity.reveal(), secret=secret, token=token)


def _read_file() -> dict[str, str]:
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_file(Path(path).expanduser()).decode())
    except FileNotFoundError:
        return dict.fromkeys(KEYS, "")
    except (OSError, ValueError, configparser.Error):
        # Not from the error: it may show a line, which may be a key.
        raise ConfigurationError.at("store", f"{path} cannot be read as credentials.") from None
    profile = os.environ.get("AWS_PROFILE") or "default"
    return {name: parser.get(profile, name.lower(), fallback="") for name in KEYS}


@define(eq=False)
class KeyRing:
    """Finds the key with which to ask; one that is lent is kept until shortly before it ends.

    Args:
        transport: Asks who lends over the network.
        near: Asks who lends on this very machine: what is said there goes through no proxy.
    """

    _transport: Transport
    _near: Transport
    _lent: AccessKey | None = attrs.field(default=None, init=False)
    _until: datetime = attrs.field(default=_LONG_AGO, init=False)

    async def access(self) -> AccessKey:
        """Returns the key that is written down, or else the one of the role of this machine.

        Raises:
            StoreError: There is none.
            StoreUnavailableError: Who lends keys cannot be reached, or gives none.
            ConfigurationError: What was found is none.
        """
        written = find_access_key()
        if written is not None:
            return written
        if self._lent is None or datetime.now(UTC) > self._until - _AHEAD:
            await self._borrow()
        assert self._lent is not None
        return self._lent

    async def _borrow(self) -> None:
        path = os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")
        told: Mapping[str, str] | None
        if path and (role := os.environ.get("AWS_ROLE_ARN")):
            told = await self._assume(role, path)
        elif container := _find_container():
            told = _read_told(await self._ask("GET", container, _authorize_container()), container)
        else:
            told = await self._ask_machine()
        if told is None:
            raise StoreError(
                detail="There is no key for the place where content is kept.",
                remedy="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, fill ~/.aws/credentials, "
                "or give this machine a role.",
            )
        words = ("AccessKeyId", "SecretAccessKey", "Token")
        given = dict(zip(KEYS, (told.get(each, "") for each in words), strict=True))
        if not (given[KEYS[0]] and given[KEYS[1]]):
            raise _refuse("the role of this machine", str(told.get("Message") or "it has no key"))
        self._lent = _make_key(given)
        self._until = _read_moment(told.get("Expiration", ""))

    async def _assume(self, role: str, path: str) -> Mapping[str, str]:
        """Takes a role on by a token that lies in a file, as in a cluster."""
        token = _read_token("AWS_WEB_IDENTITY_TOKEN_FILE", path)
        base = (
            os.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{read_region()}.amazonaws.com"
        )
        asked = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": os.environ.get("AWS_ROLE_SESSION_NAME") or "vibe-llms",
            "WebIdentityToken": token,
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        answer = await self._ask("POST", f"{base.rstrip('/')}/", headers, urlencode(asked).encode())
        names = "AccessKeyId|SecretAccessKey|SessionToken|Expiration"
        told = {name: unescape(said) for name, said in re.findall(f"<({names})>([^<]*)<", answer)}
        return {**told, "Token": told.get("SessionToken", "")}

    async def _ask_machine(self) -> Mapping[str, str] | None:
        """Asks the machine for the key of its role; ``None`` where it is no machine of Amazon's."""
        if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            return None
        base = (os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _LENDER).rstrip("/")
        lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "300"}
        try:
            token = await self._ask("PUT", f"{base}/latest/api/token", lifetime)
        except StoreUnavailableError:
            return None
        given = {"x-aws-ec2-metadata-token": Secret(token)}
        roles = f"{base}/latest/meta-data/iam/security-credentials/"
        role = (await self._ask("GET", roles, given)).strip().split("\n")[0]
        return _read_told(await self._ask("GET", f"{roles}{role}", given), base)

    async def _ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str | Secret],
        body: bytes = b"",
    ) -> str:
        transport = self._transport if url.startswith("https:") else self._near
        request = WireRequest(
            method=method, url=url, headers=headers, body=body, timeouts=_PATIENCE
        )
        host = urlsplit(url).netloc
        try:
            async with await transport.send(request) as exchange:
                said = (await exchange.read(_ANSWER_BYTES)).decode("utf-8", "replace")
                if exchange.status != 200:
                    # Not what it says: it may repeat the token.
                    raise _refuse(host, f"it answered with status {exchange.status}")
                return said
        except StoreError:
            raise
        except ConverseError as error:
            raise _refuse(host, error.describe()) from error


def _find_container() -> str:
    """Returns where a container is told its key; empty where this is none."""
    if path := os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return f"{_CONTAINERS}{path}"
    url = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if url and parts.scheme != "https" and not (host in _HOSTS or _is_here(host)):
        raise ConfigurationError.at(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{host} is asked for keys with https alone."
        )
    return url


def _is_here(host: str) -> bool:
    """Tells whether a host is this machine; a name is not looked up, whatever it begins with."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_token(variable: str, path: str) -> str:
    """Reads the token that lies where a variable of the environment says."""
    try:
        return read_secret(path)
    except ValueError as error:
        raise ConfigurationError.at(variable, str(error)) from None


def _authorize_container() -> dict[str, str | Secret]:
    token = os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if path := os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = _read_token("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path)
    return {"authorization": Secret(token)} if token else {}


def _read_told(text: str, place: str) -> Mapping[str, str]:
    try:
        told: Any = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise _refuse(urlsplit(place).netloc, "what it says does not read")
    return {str(name): value for name, value in told.items() if isinstance(value, str)}


def _read_moment(text: str) -> datetime:
    """Returns when a key ends; of one that does not say, it is asked for anew each time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _LONG_AGO
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _refuse(who: str, why: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        path=who,
        detail=f"No key for the place where content is kept was lent by {who}: {why}.",
        remedy="Give this machine a role that may use the bucket, or set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY.",
    )
