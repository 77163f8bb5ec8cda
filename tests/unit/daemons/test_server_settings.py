"""What a server's table may say, and where it may listen."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_llms.daemons.server import ServerSettings, check_binding, override
from vibe_llms.daemons.server.binding import is_loopback
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.tables.documents import parse_document

PEM = Path("one.pem")


def test_all_mistakes_come_at_once_with_their_lines() -> None:
    """As of every table."""
    document = parse_document(b"port = 70000\nworkers = 0\nbaklog = 3\nidle_seconds = -1\n", "f")
    reader = document.produce_reader()

    assert reader.read(ServerSettings, document.tree) is None
    assert [(found.line, found.path) for found in reader.findings] == [
        (1, "port"),
        (2, "workers"),
        (3, "baklog"),
        (4, "idle_seconds"),
    ]
    assert "backlog" in reader.findings[2].message


def test_a_key_needs_its_certificate() -> None:
    """And so do authorities: without TLS nobody shows one."""
    with pytest.raises(ConfigurationError, match="certificate") as caught:
        ServerSettings(key=PEM, client_authorities=PEM)

    assert [found.path for found in caught.value.findings] == ["key", "client_authorities"]


def test_a_command_line_overrides_what_it_says() -> None:
    """And leaves the rest; its mistakes are those of the table."""
    settings = override(ServerSettings(host="::1", port=1), {"port": 2, "workers": None})

    assert (settings.host, settings.port, settings.workers) == ("::1", 2, 1)
    with pytest.raises(ConfigurationError, match=r"server\.port"):
        override(settings, {"port": -1})


@pytest.mark.parametrize(
    ("settings", "is_guarded", "lack"),
    [
        (ServerSettings(), False, ""),
        (ServerSettings(host="localhost"), False, ""),
        (ServerSettings(host="::1"), False, ""),
        (ServerSettings(host="127.5.0.1"), False, ""),
        (ServerSettings(host="0.0.0.0"), False, "TLS"),
        (ServerSettings(host="0.0.0.0"), False, "authentication is off"),
        (ServerSettings(host="::"), True, "TLS"),
        (ServerSettings(host="::", certificate=PEM), False, "authentication is off"),
        (ServerSettings(host="192.0.2.1", certificate=PEM), True, ""),
        (ServerSettings(host="::", certificate=PEM, client_authorities=PEM), False, ""),
        (ServerSettings(host="0.0.0.0", insecure=True), False, ""),
    ],
)
def test_nobody_is_let_in_from_afar_by_oversight(
    settings: ServerSettings, is_guarded: bool, lack: str
) -> None:
    """Wider than loopback there must be TLS and somebody who asks, or it is said twice."""
    if not lack:
        check_binding(settings, is_guarded=is_guarded)
        return
    with pytest.raises(ConfigurationError, match=lack) as caught:
        check_binding(settings, is_guarded=is_guarded)
    assert "--insecure" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_nobody_knows_is_not_taken_for_loopback() -> None:
    """Who does not know where it leads does not open it."""
    assert not is_loopback("nowhere.invalid")
