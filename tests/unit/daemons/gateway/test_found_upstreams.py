"""An upstream that was found before is found again at once; what is kept is bounded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from vibe_llms.daemons.gateway.upstreams import Upstreams


def produce_upstreams(models: dict[str, Any], names: dict[str, str] | None = None) -> Upstreams:
    application: Any = SimpleNamespace(find_model=lambda address, holder: models.get(address))
    return Upstreams(application, names)


def produce_model(name: str) -> Any:
    return SimpleNamespace(descriptor=SimpleNamespace(provider="p", name=name))


def test_a_known_model_is_found_until_it_is_another() -> None:
    models = {"p:m": produce_model("m")}
    upstreams = produce_upstreams(models)

    found = upstreams.find("p:m")
    assert found is not None
    assert (found.address, found.name) == ("p:m", "m")
    assert upstreams.find("p:m") is found
    models["p:m"] = produce_model("m")  # after a reload
    assert upstreams.find("p:m") is not found
    del models["p:m"]
    assert upstreams.find("p:m") is None


def test_only_the_names_of_the_tables_are_found() -> None:
    upstreams = produce_upstreams({"p:m": produce_model("m")}, {"chat": "p:m"})

    assert upstreams.find("chat") is not None
    assert upstreams.find("p:m") is None
    assert upstreams.find("") is None


def test_what_clients_name_is_kept_within_bounds() -> None:
    class AnyModel(dict[str, Any]):
        def get(self, address: str, default: Any = None) -> Any:
            return produce_model(address)

    upstreams = produce_upstreams(AnyModel())
    for number in range(3_000):
        assert upstreams.find(f"p:{number}") is not None
    assert upstreams.find("p:" + "x" * 900) is not None
    assert upstreams.find("p:" + "x" * 10_000) is None
    assert len(upstreams._cache) <= 1_000
    assert max(map(len, upstreams._cache)) <= 256
