"""Choice of the proxy for a request."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.size_limits import describe_address


class Proxies:
    """Proxies by address, from a setting or the environment; cached.

    Args:
        proxy: Proxy for all requests.
        trust_environment: Without ``proxy``, use the environment.
    """

    def __init__(self, proxy: str | Secret | None, *, trust_environment: bool) -> None:
        self._given: str | None = None
        if proxy is not None:
            secret = proxy if isinstance(proxy, Secret) else Secret(proxy)
            self._given = _ensure_proxy(secret, "The proxy").reveal()
        self._trusts_environment = trust_environment
        self._found: dict[str, str | None] = {}

    def access(self, url: str, address: str) -> str | None:
        """Return the proxy for a URL, if there is one; do not show it, as it may have a password.

        Args:
            address: Scheme, host and port of the URL.

        Raises:
            ConfigurationError: The environment names a proxy of an unsupported kind.
        """
        if self._given is not None or not self._trusts_environment:
            return self._given
        try:
            return self._found[address]
        except KeyError:
            proxy = self._found[address] = _find_in_environment(url)
            return proxy


def _find_in_environment(url: str) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    known = getproxies()
    proxy = known.get(parts.scheme) or known.get("all")
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]) or is_exempt(url):
        return None
    name = f"{parts.scheme}_proxy" if known.get(parts.scheme) else "all_proxy"
    # Without a scheme it is HTTP, as other programs read these variables, too.
    secret = Secret(proxy if "://" in proxy else f"http://{proxy}")
    return _ensure_proxy(secret, name.upper()).reveal()


def is_exempt(url: str) -> bool:
    """Tell whether ``NO_PROXY`` names the address of a URL, or its network, such as 10.0.0.0/8.

    Names are compared by the standard library; they are not resolved for this.
    """
    from ipaddress import ip_address, ip_network
    from urllib.request import getproxies

    try:
        address = ip_address(urlsplit(url).hostname or "")
    except ValueError:  # a name
        return False
    for entry in getproxies().get("no", "").split(","):
        with suppress(ValueError):  # a name, or nothing
            if address in ip_network(entry.strip().replace("[", "").replace("]", ""), strict=False):
                return True
    return False


def _ensure_proxy(proxy: Secret, origin: str) -> Secret:
    problem = _find_problem(proxy.reveal())
    if problem:
        raise ConfigurationError(
            detail=f"{origin} {problem}.",
            remedy="Other kinds of proxies, SOCKS among them, are not supported.",
        )
    return proxy


def _find_problem(proxy: str) -> str:
    if describe_address(proxy):
        return ""
    scheme = proxy.partition("://")[0] if "://" in proxy else ""
    which = f", but of {scheme[:20]!r}" if scheme and "@" not in scheme else ""
    return f"is not an http or https URL with a host{which}"
