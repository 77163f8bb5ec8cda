"""The file of a gateway is checked as a whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vibe_llms.daemons.gateway.routing.settings import CacheSettings, TargetSettings
from vibe_llms.daemons.gateway.settings import GatewaySettings, read_settings
from vibe_llms.exceptions import ConfigurationError, UnknownNameError


def write(folder: Path, text: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(text, encoding="utf-8")
    return path


def resolve(address: str) -> None:
    if not address.startswith("here:"):
        raise UnknownNameError(kind="provider", name=address, known=("here",))


def test_a_target_is_an_address_or_a_table(tmp_path: Path) -> None:
    text = """
    authorizer = "keys"
    [server]
    port = 9000
    [limits]
    requests = 10
    [models.quick]
    targets = ["here:a", { model = "here:b", weight = 3, concurrency = 8, queue = 32 }]
    fallback = ["large"]
    cache = { seconds = 60 }
    [models.large]
    targets = ["here:c"]
    passthrough = ["/v1/embeddings"]
    """
    settings = read_settings(write(tmp_path, text), resolve)
    assert (settings.authorizer, settings.server.port, settings.limits.requests) == (
        "keys",
        9000,
        10,
    )
    quick = settings.models["quick"]
    assert quick.targets == (
        TargetSettings(model="here:a"),
        TargetSettings(model="here:b", weight=3, concurrency=8, queue=32),
    )
    assert quick.cache == CacheSettings(seconds=60)


def test_nothing_is_a_file_too(tmp_path: Path) -> None:
    assert read_settings(write(tmp_path, "")) == GatewaySettings()


def test_all_mistakes_come_at_once_with_their_lines(tmp_path: Path) -> None:
    text = """[server]
prot = 1
[limits]
requests = 0
[models.a]
targets = []
[models.b]
targets = [{ model = "here:x", weigth = 2 }, 3]
passthrough = ["v1/embeddings"]
[models.c]
targets = [{ model = "here:x", queue = 2 }]
"""
    with pytest.raises(ConfigurationError) as caught:
        read_settings(write(tmp_path, text), resolve)
    told = [(finding.line, finding.message) for finding in caught.value.findings]
    assert [line for line, _ in told] == [2, 4, 6, 8, 8, 9, 11]
    assert "'port'" in told[0][1]
    assert "'weight'" in told[3][1]


def test_what_leads_nowhere_or_back_to_itself_is_told(tmp_path: Path) -> None:
    text = """[models.a]
targets = ["here:x"]
fallback = ["b"]
[models.b]
targets = ["there:x"]
fallback = ["a", "nobody"]
"""
    path = write(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        read_settings(path, resolve)
    told = str(caught.value)
    for part in ("a → b → a", "'there:x'", "'nobody'"):
        assert part in told


def test_the_files_of_the_guide_are_right(tmp_path: Path) -> None:
    guide = Path(__file__).parents[4] / "documentation" / "guides" / "gateway-routing.rst"
    pattern = r"\.\. code-block:: toml\n   :caption: gateway.toml\n\n((?:   .*\n|\n)+)"
    texts = re.findall(pattern, guide.read_text(encoding="utf-8"))
    assert len(texts) == 4
    for text in texts:
        assert read_settings(write(tmp_path, text)).models


def test_the_servers_patience_is_longer_than_that_for_a_request(tmp_path: Path) -> None:
    """Else it would cut what should have been told to be too slow."""
    text = "[server]\ntotal_seconds = 60\n[limits]\ntotal_seconds = {}\n"
    assert read_settings(write(tmp_path, text.format(59))).limits.total_seconds == 59
    with pytest.raises(ConfigurationError, match="must be less") as caught:
        read_settings(write(tmp_path, text.format(60)))
    assert [(each.line, each.path) for each in caught.value.findings] == [(3, "limits")]
