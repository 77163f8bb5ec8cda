"""TLS contexts, cached because loading the system's certificates is slow."""

from __future__ import annotations

import ssl
from functools import lru_cache
from pathlib import Path

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.files import open_regular, warn_of_readers


@lru_cache(maxsize=1)
def access_default_context() -> ssl.SSLContext:
    """Return the default context."""
    return _produce_context()


def _produce_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def produce_tls_context(
    authorities: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext | None:
    """Make a context for the settings; ``None`` if there are none.

    Raises:
        ConfigurationError: A file is missing or invalid, or does not match another one. The place
            of the finding is the name of the setting, such as ``client_key``.
    """
    if authorities is None and certificate is None:
        if key is None:
            return None
        message = "Its certificate is missing: name it in client_certificate."
        raise ConfigurationError.at("client_key", message)
    context = _produce_context()
    if authorities is not None:
        is_folder = authorities.is_dir()
        try:
            if not is_folder:
                ensure_file(authorities)
            context.load_verify_locations(
                cafile=None if is_folder else authorities,
                capath=authorities if is_folder else None,
            )
        except OSError as error:  # ssl.SSLError is one
            raise refuse_file("certificate_authorities", authorities, error) from error
    if certificate is not None:
        setting, file = "client_certificate", certificate
        try:
            ensure_file(certificate)
            if key is not None:
                setting, file = "client_key", key
                ensure_file(key)
            # With an empty password, an encrypted key is an error instead of a prompt.
            context.load_cert_chain(certificate, key, password="")
            warn_of_readers(key or certificate)
        except OSError as error:
            raise refuse_file(setting, file, error) from error
    return context


def ensure_file(path: Path) -> None:
    """Raise OSError for a pipe or a device, which OpenSSL would read forever."""
    open_regular(str(path)).close()


def refuse_file(place: str, path: Path, error: OSError) -> ConfigurationError:
    """Return the error of an unreadable file, with the name of the setting as its place."""
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    needed = "It must be a readable PEM file; a key must be unencrypted and match the certificate."
    return ConfigurationError.at(place, f"{path} cannot be loaded: {reason}. {needed}")
