"""Which proxy the environment names for an address, and which addresses it exempts."""

from __future__ import annotations

import pytest

from vibe_llms.wire.proxies import Proxies

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTP_PROXY", PROXY)


CASES = [
    ("10.0.0.0/8", "http://10.1.2.3:11434", True),
    ("10.0.0.0/8", "http://11.1.2.3:11434", False),
    ("10.1.0.0/8", "http://10.200.0.1", True),  # as others take it, host bits or not
    ("example.com, 192.168.0.0/16 ,localhost", "http://192.168.7.7", True),
    ("fd00::/8", "http://[fd12::1]:8080", True),
    ("[fd00::]/8", "http://[fd12::1]:8080", True),
    ("fd00::/8", "http://[fe80::1]", False),
    ("::1", "http://[::1]:8080", True),
    ("10.1.2.3", "http://10.1.2.3:8080", True),
    ("10.0.0.0/8", "http://name.example", False),
    ("10.0.0.0/99,nonsense/8,,/", "http://10.1.2.3", False),
    (".example.com", "http://a.example.com", True),
    ("0.0.0.0/0", "http://10.1.2.3", True),
    ("0.0.0.0/0", "http://[::1]", False),
    ("", "http://10.1.2.3", False),
]


@pytest.mark.parametrize(("exempt", "url", "expected"), CASES)
def test_a_network_in_no_proxy_is_reached_directly(
    monkeypatch: pytest.MonkeyPatch, exempt: str, url: str, expected: bool
) -> None:
    monkeypatch.setenv("NO_PROXY", exempt)

    proxy = Proxies(None, trust_environment=True).access(url, url)

    assert proxy == (None if expected else PROXY)
