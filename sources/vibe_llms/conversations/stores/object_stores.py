"""Object stores of Amazon, Google and Azure: URLs, keys, and obstore's clients.

obstore signs requests and supports the roles of machines, containers and clusters. This module
reads Amazon's credentials file, which obstore does not, and checks settings that obstore would
silently misinterpret.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable
from datetime import timedelta
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from vibe_llms.exceptions import ConfigurationError, StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.child_environment import remember_key
from vibe_llms.foundation.files import expand_home, read_file
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.foundation.secrets import Secret, is_secret_name
from vibe_llms.providers.credentials import ensure_key

REQUEST_SECONDS: Final = 600
"""Time limit of one request, including its body."""

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
    """A bucket, and a prefix in the bucket.

    Attributes:
        cloud: ``s3``, ``gs`` or ``az``.
        endpoint: URL of the server; empty for the vendor's server.
        account: The storage account of Azure; empty for other vendors.
        bucket: The name of the bucket, which Azure calls a container.
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
    cloud, _, server_scheme = parts.scheme.partition("+")
    names = f"{'' if server_scheme else parts.netloc}{parts.path}".strip("/").split("/")
    account = names.pop(0) if cloud == "az" else ""
    bucket, *prefix = [unquote(each) for each in names or [""]]
    is_named = _NAME.fullmatch(bucket) and (cloud != "az" or _NAME.fullmatch(account))
    if not is_named or not parts.hostname or (parts.port and not server_scheme):
        raise ConfigurationError.at("store", f"{address!r} has no bucket name.")
    if not all(prefix):
        message = f"{address!r} has consecutive slashes; write one."
        raise ConfigurationError.at("store", message)
    return ObjectLocation(
        cloud=cloud,
        endpoint=f"{server_scheme}://{parts.netloc}" if server_scheme else "",
        account=account,
        bucket=bucket,
        prefix="/".join(prefix),
    )


def open_object_store(location: ObjectLocation, keys: dict[str, str]) -> Any:
    """Return obstore's client of a bucket, which connects on first use.

    Args:
        keys: From :func:`find_keys`.

    Raises:
        DependencyError: obstore is not installed.
        StoreError: obstore refuses the keys or the settings in the environment.
    """
    with needing("objects", "obstore", "Content in an object store"):
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    options: dict[str, Any] = {
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
        remember_key(name)  # other keys are recognized by the names of their variables
    endpoint, bucket = location.endpoint, location.bucket
    try:
        if location.cloud == "gs":
            if endpoint:
                options["base_url"] = endpoint
            return GCSStore(bucket, **options)
        if location.cloud == "az":
            options["account_name"] = location.account
            if endpoint:
                options["endpoint"] = f"{endpoint}/{location.account}"
            return AzureStore(bucket, **options)
        # Not every server supports the deletion of several objects by one request.
        options |= {**keys, "disable_bulk_delete": True}
        # Both names, as a variable of the second name in the environment would have precedence.
        if endpoint:
            options |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
        if metadata_endpoint := os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
            options["metadata_endpoint"] = metadata_endpoint
        return S3Store(bucket, **options)
    except BaseError as error:
        reason = str(error).split("\n")[0]
        raise StoreError(
            detail=f"The key or the settings for {location.bucket!r} are invalid: {reason}",
            remedy="Correct the environment variables that begin with AWS_, AZURE_ or GOOGLE_.",
        ) from None


def find_keys(location: ObjectLocation) -> dict[str, str]:
    """Return the Amazon key as arguments for obstore. It is read again at each call.

    It comes from the environment or the file ``~/.aws/credentials``; the variables
    ``AWS_SHARED_CREDENTIALS_FILE`` and ``AWS_PROFILE`` select another file and a profile in it.
    Without a key, and for other vendors, obstore finds keys and roles.

    Raises:
        ConfigurationError: The key, or a variable that names a provider of keys, is invalid.
        StoreError: The key is missing, and roles are disabled.
    """
    if location.cloud != "s3" or os.environ.get("AWS_SKIP_SIGNATURE"):
        return {}
    keys = {name: os.environ.get(name, "") for name in _KEYS}
    if not (keys[_KEYS[0]] and keys[_KEYS[1]]):
        keys = _read_credentials_file()
    if keys[_KEYS[0]] and keys[_KEYS[1]]:
        # obstore panics if a key is not a valid header, for example because of a line break.
        return {
            name.lower(): ensure_key(Secret(text), name).reveal()
            for name, text in keys.items()
            if text
        }
    _check_key_provider()
    return {}


def list_secrets(keys: dict[str, str]) -> Iterable[Secret]:
    """Yield secrets to redact from errors: some keys, and those in the environment."""
    yield from map(Secret, keys.values())
    for name, text in os.environ.items():
        if text and _VARIABLES.match(name) and is_secret_name(name):
            yield Secret(text)


def _read_credentials_file() -> dict[str, str]:
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_file(expand_home(path)).decode())
    except FileNotFoundError:
        return dict.fromkeys(_KEYS, "")
    except (OSError, ValueError, configparser.Error):
        # Not chained to its cause, which may quote a line with a key.
        raise ConfigurationError.at("store", f"Cannot read credentials from {path}.") from None
    profile = os.environ.get("AWS_PROFILE") or "default"
    return {name: parser.get(profile, name.lower(), fallback="") for name in _KEYS}


def _check_key_provider() -> None:
    """Check the variables that name a provider of keys.

    Otherwise obstore would ignore one, or send a token in plain text.
    """
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
    providers = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_WEB_IDENTITY_TOKEN_FILE")
    is_disabled = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if is_disabled and not any(map(os.environ.get, providers)):
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
"""How to provide the keys, by vendor."""
