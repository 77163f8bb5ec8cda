"""URLs of content backends."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

from vibe_llms.conversations.stores.content_backends import ContentBackend, DirectoryBackend
from vibe_llms.exceptions import ConfigurationError

FORMS: Final = (
    "file:///FOLDER, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX, "
    "or, at another host, s3+https://HOST/BUCKET/PREFIX"
)

SCHEMES: Final = frozenset(
    f"{vendor}{suffix}" for vendor in ("s3", "gs", "az") for suffix in ("", "+https", "+http")
)
"""Schemes of object stores: a vendor's service, or another server with the vendor's protocol."""


def split_content_address(url: str) -> tuple[str, str]:
    """Split a database's URL into the URL without the parameter ``content``, and its value.

    The value is empty if there is no such parameter. In the URL, ``&`` and ``%`` of the value are
    quoted, as in any query.
    """
    base, question_mark, query = url.partition("?")
    other_parameters, address = list[str](), ""
    for parameter in query.split("&"):
        name, _, value = parameter.partition("=")
        if name == "content":
            address = unquote(value)
        else:
            other_parameters.append(parameter)
    other_query = "&".join(other_parameters)
    return f"{base}{question_mark if other_query else ''}{other_query}", address


@lru_cache(maxsize=64)
def produce_backend(address: str) -> ContentBackend:
    """Return the backend of a URL, without connecting to the backend.

    Raises:
        ConfigurationError: The URL is invalid.
    """
    try:
        parts = urlsplit(address)
        is_plain = address.isprintable() and parts.port != 0
    except ValueError:  # invalid host or port
        raise _refuse(address) from None
    if parts.username is not None or parts.password is not None:
        # The URL is not shown: it may have a key.
        message = "The URL of a content backend must not contain keys: set environment variables."
        raise ConfigurationError.at("store", message)
    # These parts would be ignored, so that different URLs would mean one backend.
    if not is_plain or "?" in address or "#" in address:
        raise _refuse(address)
    if parts.scheme == "file" and not parts.netloc and parts.path.strip("/"):
        return DirectoryBackend(address)
    # A proxy may resolve ".." and access another bucket.
    steps = unquote(parts.path).split("/")
    if parts.scheme in SCHEMES and not {".", ".."} & {*steps}:
        from vibe_llms.conversations.stores.object_stores import locate
        from vibe_llms.conversations.stores.objects import ObjectBackend

        return ObjectBackend(address, locate(address))
    raise _refuse(address)


def _refuse(address: str) -> ConfigurationError:
    # Not displayed: the text after "?" and "#" or before "@", which may be a key.
    shown = re.split("[?#]", address)[0].rpartition("@")[2]
    return ConfigurationError.at(
        "store",
        f"{shown!r} is not the URL of a content backend. Use {FORMS}; without '?', '#' and '..'.",
    )
