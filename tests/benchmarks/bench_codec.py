"""Speed of reading and writing a conversation, against the same work in msgspec.Struct.

    python tests/benchmarks/bench_codec.py

Prints medians and ratios. The peers read and write the same JSON of the same 200 canisters:
frozen tagged structs, the fastest form of msgspec; plain cattrs over the same attrs
classes; pydantic, if installed. Targets: loads within 4.5 times the structs, dumps
within 2.5.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
import time
import types
import typing
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import msgspec
from cattrs.preconf.msgspec import make_converter
from cattrs.strategies import configure_tagged_union

from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.codec.canister_lines import decode_canisters, encode_canisters
from vibe_llms.messages.contents import AnyContent, ReasoningContent, TextualContent

ROUNDS = 300
TEXT = "The quick brown fox jumps over the lazy dog. " * 4

Peer = tuple[Callable[[], Any], Callable[[], Any]]
"""What loads and what dumps."""


def produce_conversation(count: int = 200) -> list[AnyCanister]:
    """Produces turns of a question, a thoughtful answer, an invocation and its result."""
    began = datetime(2026, 11, 21, 12, tzinfo=UTC)
    canisters: list[AnyCanister] = []
    for index in range(count // 4):
        moment, turn, call = began + timedelta(minutes=index), f"turn{index}", f"call_{index}"
        origin = Origin(
            provider="local",
            model="smollm2",
            protocol="chat_completions",
            response_id=f"chatcmpl-{index}",
            stop_reason=StopReason.INVOCATION,
            usage=Usage(input_tokens=100 + index, output_tokens=20),
        )
        answer = (ReasoningContent(text=TEXT), TextualContent(TEXT))
        arguments = f'{{"city": "Oslo", "day": {index}}}'
        canisters += [
            UserCanister(TEXT, timestamp=moment),
            AssistantCanister(answer, timestamp=moment, origin=origin, turn_id=turn),
            InvocationCanister(
                timestamp=moment,
                invocation_id=call,
                name="weather",
                arguments=arguments,
                origin=origin,
                turn_id=turn,
            ),
            ResultCanister("12 °C, rain", timestamp=moment, invocation_id=call, name="weather"),
        ]
    return canisters


@functools.cache
def derive_struct(cls: type) -> Any:
    """Derives a frozen tagged struct with the fields of one of our classes."""
    hints = typing.get_type_hints(cls)
    tags = {f.name: f.default for f in attrs.fields(cls) if not f.init}
    tag_field, tag = next(iter(tags.items()), (None, None))
    fields: list[tuple[Any, ...]] = []
    for field in attrs.fields(cls):
        if not field.init:
            continue
        kind = derive_type(hints[field.name])
        plain = field.default is None or isinstance(field.default, (str, bool, tuple))
        fields.append((field.name, kind, field.default) if plain else (field.name, kind))
    return msgspec.defstruct(
        cls.__name__, fields, tag_field=tag_field, tag=tag, frozen=True, kw_only=True
    )


def derive_type(hint: Any) -> Any:
    """Replaces our classes in an annotation by their structs."""
    if isinstance(hint, type) and attrs.has(hint):
        return derive_struct(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return functools.reduce(lambda a, b: a | b, map(derive_type, typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        return tuple[derive_type(typing.get_args(hint)[0]), ...]  # type: ignore[misc]
    return hint


def produce_ours(canisters: list[AnyCanister], data: bytes) -> Peer:
    """Our codec."""
    return lambda: decode_canisters(data), lambda: encode_canisters(canisters)


def produce_structs(data: bytes) -> Peer:
    """The fastest form of msgspec with frozen values."""
    decoder, encoder = msgspec.json.Decoder(derive_type(AnyCanister)), msgspec.json.Encoder()
    values = decoder.decode_lines(data)
    assert encoder.encode_lines(values).count(b"\n") == data.count(b"\n")
    return lambda: decoder.decode_lines(data), lambda: encoder.encode_lines(values)


def produce_cattrs(canisters: list[AnyCanister], data: bytes) -> Peer:
    """Cattrs as its manual shows it: a preconfigured converter, tagged unions."""
    converter = make_converter(detailed_validation=False)
    for union, key in ((AnyContent, "type"), (AnyCanister, "role")):
        configure_tagged_union(
            union,
            converter,
            tag_name=key,
            tag_generator=lambda cls, key=key: getattr(attrs.fields(cls), key).default,
        )
    lists = list[AnyCanister]  # type: ignore[valid-type]
    document = b"[" + data.strip().replace(b"\n", b",") + b"]"
    return lambda: converter.loads(document, lists), lambda: converter.dumps(canisters, lists)


def produce_pydantic(data: bytes) -> Peer:
    """Pydantic with discriminated unions of frozen models of the same fields."""
    import pydantic

    @functools.cache
    def model(cls: type) -> Any:
        hints = typing.get_type_hints(cls)
        fields: dict[str, Any] = {}
        for field in attrs.fields(cls):
            plain = field.default is None or isinstance(field.default, (str, bool, tuple))
            fields[field.name] = (kind(hints[field.name]), field.default if plain else ...)
        settings = pydantic.ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64")
        return pydantic.create_model(cls.__name__, __config__=settings, **fields)

    def kind(hint: Any) -> Any:
        if isinstance(hint, type) and attrs.has(hint):
            return model(hint)
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            members = tuple(map(kind, typing.get_args(hint)))
            union = functools.reduce(lambda a, b: a | b, members)
            tag = (
                next((k for k in ("type", "role") if k in members[0].model_fields), None)
                if (hasattr(members[0], "model_fields"))
                else None
            )
            return typing.Annotated[union, pydantic.Field(discriminator=tag)] if tag else union
        if typing.get_origin(hint) is tuple:
            return tuple[kind(typing.get_args(hint)[0]), ...]  # type: ignore[misc]
        return hint

    adapter: Any = pydantic.TypeAdapter(list[kind(AnyCanister)])  # type: ignore[misc]
    document = b"[" + data.strip().replace(b"\n", b",") + b"]"
    values = adapter.validate_json(document)
    return lambda: adapter.validate_json(document), lambda: adapter.dump_json(values)


def measure(peers: dict[str, Peer]) -> dict[str, tuple[float, float]]:
    """Returns the median microseconds of each peer; peers take turns, so that noise is shared."""
    samples: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in peers}
    for _ in range(ROUNDS):
        for name, works in peers.items():
            for series, work in zip(samples[name], works, strict=True):
                began = time.perf_counter()
                work()
                series.append((time.perf_counter() - began) * 1e6)
    return {
        name: (statistics.median(loads), statistics.median(dumps))
        for name, (loads, dumps) in samples.items()
    }


def main() -> None:
    """Measures and prints the table."""
    canisters = produce_conversation()
    data = encode_canisters(canisters)
    assert decode_canisters(data) == canisters
    peers = {
        "msgspec.Struct, frozen": produce_structs(data),
        "vibe_llms codec": produce_ours(canisters, data),
        "cattrs.preconf.msgspec": produce_cattrs(canisters, data),
    }
    if importlib.util.find_spec("pydantic"):
        peers["pydantic"] = produce_pydantic(data)
    medians = measure(peers)
    floor = medians["msgspec.Struct, frozen"]
    print(f"{len(canisters)} canisters, {len(data)} bytes; medians of {ROUNDS}, microseconds")
    print(f"{'':24} {'loads':>8} {'x':>6} {'dumps':>8} {'x':>6}")
    for name, (loads, dumps) in medians.items():
        print(
            f"{name:24} {loads:8.0f} {loads / floor[0]:6.1f} {dumps:8.0f} {dumps / floor[1]:6.1f}"
        )
    print("targets" + " " * 25 + f"{4.5:6.1f} {'':8} {2.5:6.1f}")


if __name__ == "__main__":
    main()
