"""Choice of the proxy for a request."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.size_limits import describe_address


class Proxies:
    """Proxies by address, from a setting or the environment. The environment's are cached.

    Args:
        proxy: Proxy for all requests.
        trust_environment: Whether to use the environment if there is no ``proxy``.
    """

    def __init__(self, proxy: str | Secret | None, *, trust_environment: bool) -> None:
        self._setting: str | None = None
        if proxy is not None:
            secret = proxy if isinstance(proxy, Secret) else Secret(proxy)
            self._setting = _ensure_proxy(secret, "The proxy").reveal()
        self._trusts_environment = trust_environment
        self._cache: dict[str, str | None] = {}

    def access(self, url: str, address: str) -> str | None:
        """Return the proxy for a URL, if there is one; do not show it, as it may have a password.

        Args:
            address: Scheme, host and port of the URL.

        Raises:
            ConfigurationError: The environment names a proxy of an unsupported kind.
        """
        if self._setting is not None or not self._trusts_environment:
            return self._setting
        try:
            return self._cache[address]
        except KeyError:
            proxy = self._cache[address] = _find_in_environment(url)
            return proxy


def _find_in_environment(url: str) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]) or is_exempt(url):
        return None
    name = f"{parts.scheme}_proxy" if proxies.get(parts.scheme) else "all_proxy"
    # Without a scheme, the proxy is HTTP, as in other programs that read these variables.
    secret = Secret(proxy if "://" in proxy else f"http://{proxy}")
    return _ensure_proxy(secret, name.upper()).reveal()


def is_exempt(url: str) -> bool:
    """Return whether ``NO_PROXY`` contains the IP address of a URL, or its network (10.0.0.0/8).

    The standard library already compares host names; they are not resolved here.
    """
    from ipaddress import ip_address, ip_network
    from urllib.request import getproxies

    try:
        address = ip_address(urlsplit(url).hostname or "")
    except ValueError:  # a host name
        return False
    for entry in getproxies().get("no", "").split(","):
        with suppress(ValueError):  # a host name, or empty
            if address in ip_network(entry.strip().replace("[", "").replace("]", ""), strict=False):
                return True
    return False


def _ensure_proxy(proxy: Secret, origin: str) -> Secret:
    problem = _find_problem(proxy.reveal())
    if problem:
        raise ConfigurationError(
            detail=f"{origin} {problem}.",
            remedy="Other kinds of proxies, such as SOCKS, are not supported.",
        )
    return proxy


def _find_problem(proxy: str) -> str:
    if describe_address(proxy):
        return ""
    scheme = proxy.partition("://")[0] if "://" in proxy else ""
    kind_note = f", but of {scheme[:20]!r}" if scheme and "@" not in scheme else ""
    return f"is not an http or https URL with a host{kind_note}"
