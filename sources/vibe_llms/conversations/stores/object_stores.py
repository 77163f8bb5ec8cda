"""Object stores of Amazon, Google and Azure: their URLs, their keys, and obstore's clients.

obstore signs requests and supports the roles of machines, containers and clusters. This module adds
Amazon's credentials file, which obstore does not read, and checks of settings that obstore would
silently misinterpret.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from vibe_llms.exceptions import ConfigurationError, StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.child_environment import remember_key
from vibe_llms.foundation.files import read_file
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.foundation.secrets import Secret, is_secret_name
from vibe_llms.providers.credentials import ensure_key

REQUEST_SECONDS: Final = 600
"""Time limit of one request, its body included."""

FIRST_WAIT: Final = timedelta(seconds=0.5)
"""Wait before the first retry; later ones double."""

_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_VARIABLES: Final = re.compile("AWS_|AZURE_|GOOGLE_")
_CONTAINER: Final = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_CONTAINER_TOKEN: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
_CONTAINER_HOSTS: Final = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23"})
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


@frozen(kw_only=True)
class ObjectLocation:
    """Part of a bucket.

    Attributes:
        cloud: ``s3``, ``gs`` or ``az``.
        endpoint: URL of the server; empty for the vendor's own.
        account: Storage account of Azure.
        bucket: Azure calls it a container.
        prefix: Prefix of the objects' names.
    """

    cloud: str
    endpoint: str
    account: str
    bucket: str
    prefix: str


def locate(address: str) -> ObjectLocation:
    """Parse the URL of an object store. Raises ConfigurationError."""
    parts = urlsplit(address)
    cloud, _, way = parts.scheme.partition("+")
    names = f"{'' if way else parts.netloc}{parts.path}".strip("/").split("/")
    account = names.pop(0) if cloud == "az" else ""
    bucket, *prefix = [unquote(each) for each in names or [""]]
    is_named = _NAME.fullmatch(bucket) and (cloud != "az" or _NAME.fullmatch(account))
    if not is_named or not parts.hostname or (parts.port and not way):
        raise ConfigurationError.at("store", f"{address!r} has no bucket name.")
    if not all(prefix):
        message = f"{address!r} has consecutive slashes; write one."
        raise ConfigurationError.at("store", message)
    return ObjectLocation(
        cloud=cloud,
        endpoint=f"{way}://{parts.netloc}" if way else "",
        account=account,
        bucket=bucket,
        prefix="/".join(prefix),
    )


def open_object_store(location: ObjectLocation, keys: dict[str, str]) -> Any:
    """Return obstore's client of a bucket; it connects when it is first used.

    Args:
        keys: From :func:`find_keys`.

    Raises:
        DependencyError: obstore is not installed.
        StoreError: obstore refuses the keys or the settings in the environment.
    """
    with needing("objects", "obstore", "Content in an object store"):
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    shared: dict[str, Any] = {
        "prefix": location.prefix or None,
        "client_options": {
            "allow_http": location.endpoint.startswith("http:"),
            "timeout": timedelta(seconds=REQUEST_SECONDS),
        },
        "retry_config": {
            "max_retries": Limits().attempts - 1,
            "retry_timeout": timedelta(minutes=3),
            "backoff": {"init_backoff": FIRST_WAIT, "max_backoff": timedelta(seconds=8)},
        },
    }
    for name in _KEYS:
        remember_key(name)  # the others have names of secrets
    endpoint, bucket = location.endpoint, location.bucket
    try:
        if location.cloud == "gs":
            if endpoint:
                shared["base_url"] = endpoint
            return GCSStore(bucket, **shared)
        if location.cloud == "az":
            shared["account_name"] = location.account
            if endpoint:
                shared["endpoint"] = f"{endpoint}/{location.account}"
            return AzureStore(bucket, **shared)
        # The alternative, deleting a list of names, is not supported by every server.
        shared |= {**keys, "disable_bulk_delete": True}
        if endpoint:  # by both names: the second one has precedence, also from the environment
            shared |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
        if lender := os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
            shared["metadata_endpoint"] = lender
        return S3Store(bucket, **shared)
    except BaseError as error:
        reason = str(error).split("\n")[0]
        raise StoreError(
            detail=f"The key or the settings for {location.bucket!r} are invalid: {reason}",
            remedy="Correct the environment variables that begin with AWS_, AZURE_ or GOOGLE_.",
        ) from None


def find_keys(location: ObjectLocation) -> dict[str, str]:
    """Return the Amazon key as arguments for obstore; read it again at each call.

    It comes from the environment or the file ``~/.aws/credentials``; the variables
    ``AWS_SHARED_CREDENTIALS_FILE`` and ``AWS_PROFILE`` select another file and a profile in it.
    Without a key, and for other vendors, obstore finds keys and roles.

    Raises:
        ConfigurationError: The key, or a variable that names a provider of keys, is invalid.
        StoreError: The key is missing, and roles are disabled.
    """
    if location.cloud != "s3" or os.environ.get("AWS_SKIP_SIGNATURE"):
        return {}
    found = {name: os.environ.get(name, "") for name in _KEYS}
    if not (found[_KEYS[0]] and found[_KEYS[1]]):
        found = _read_file()
    if found[_KEYS[0]] and found[_KEYS[1]]:
        # obstore panics if a key is not a valid header, for example because of a line break.
        return {
            name.lower(): ensure_key(Secret(text), name).reveal()
            for name, text in found.items()
            if text
        }
    _check_lender()
    return {}


def list_secrets(keys: dict[str, str]) -> Iterable[Secret]:
    """List secrets to redact from errors: given keys, and those in the environment."""
    yield from map(Secret, keys.values())
    for name, text in os.environ.items():
        if text and _VARIABLES.match(name) and is_secret_name(name):
            yield Secret(text)


def _read_file() -> dict[str, str]:
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_file(Path(path).expanduser()).decode())
    except FileNotFoundError:
        return dict.fromkeys(_KEYS, "")
    except (OSError, ValueError, configparser.Error):
        # Suppress the cause: it may show a line, which may contain a key.
        raise ConfigurationError.at("store", f"Cannot read credentials from {path}.") from None
    profile = os.environ.get("AWS_PROFILE") or "default"
    return {name: parser.get(profile, name.lower(), fallback="") for name in _KEYS}


def _check_lender() -> None:
    """Check the role variables; obstore would ignore one, or send a token in plain text."""
    url = os.environ.get(_CONTAINER, "")
    if url:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme != "https" and host not in _CONTAINER_HOSTS and not _is_loopback(host):
            raise ConfigurationError.at(
                _CONTAINER, f"Keys are requested from {host} only over HTTPS."
            )
        if not os.environ.get(_CONTAINER_TOKEN):
            message = f"The token of the container is missing. Set {_CONTAINER_TOKEN}."
            raise ConfigurationError.at(_CONTAINER, message)
        return
    lenders = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_WEB_IDENTITY_TOKEN_FILE")
    is_refused = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if is_refused and not any(map(os.environ.get, lenders)):
        raise StoreError(detail="The key of the bucket is missing.", remedy=KEY_REMEDIES["s3"])


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine; names are not resolved."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


KEY_REMEDIES: Final = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, fill ~/.aws/credentials, or give this "
    "machine a role that may use the bucket.",
    "gs": "Set GOOGLE_APPLICATION_CREDENTIALS, run `gcloud auth application-default login`, or "
    "give this machine a service account that may use the bucket.",
    "az": "Set AZURE_STORAGE_ACCOUNT_KEY, or AZURE_CLIENT_ID with AZURE_CLIENT_SECRET and "
    "AZURE_TENANT_ID, or give this machine an identity that may use the container.",
}
"""How each vendor's keys are given."""
