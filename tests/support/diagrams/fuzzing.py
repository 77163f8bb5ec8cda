"""Fuzzer for the parser of diagrams and the reader of templates: finds crashes and slow texts.

Run ``python tests/support/diagrams/fuzzing.py MINUTES [SEED]``: each of the two gets that many
minutes. A part of every fourth text is repeated, up to some thousands of characters and then up to
four times as many. The text is slow if the second one takes more than eight times as long, or if
its time per character is far above that of other texts. Shorten each finding as far as possible,
and add it to the tests of the part that it breaks.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from strategies.diagrams import PIECES

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of its own finds `support`

from support.diagrams.mermaid_generation import generate
from vibe_llms.exceptions import ConfigurationError, RequestError
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.interpolation import TemplateScope, read_template, render_template
from vibe_llms.mermaid import parse_diagram

_CHARACTERS = 4_000
_MIN_MICROSECONDS = 20_000
"""Shorter times depend more on the machine than on the text."""
_MAX_MICROSECONDS = 150.0
"""Per character: three times the time of the slowest ordinary text."""
_BRACES = (
    "{{", "}}", "{", "}", "\\{{", "\\", "a", "registry:", "response:", "loop.", "index", "count",
    "a.b", ".", ":", " ", "\n", "\r", "{{a}}", "{{registry:a.b}}", "{{response:P0}}",
    "{{loop.index}}", "ä", "\0", "-", "_", "1", "🙂", "{{{", "}}}",
)  # fmt: skip
_SCOPE = TemplateScope(
    variables={"a": "{{a}}", "b": [1, None]},
    registry={"a": {"b": "x", "source_url": "y"}},
    responses={"P0": "z"},
    loop=(0, 3),
)


def read_diagram(text: str) -> None:
    """Read a diagram, and compile it to a flow."""
    try:
        diagram = parse_diagram(text)
    except ConfigurationError as error:
        if not all(finding.line and finding.column for finding in error.findings):
            raise AssertionError("A finding has no place.") from error
    else:
        compile_flow(diagram, prompts=1)


def read_and_render(text: str) -> None:
    """Read a template, and render it."""
    template = read_template(text)
    try:
        render_template(template, _SCOPE)
    except RequestError:
        return
    assert not template.faults


def produce_diagram(chance: random.Random) -> str:
    """Return a text that may be a diagram."""
    if chance.random() < 0.5:
        return generate(chance.getrandbits(64), 1)[0]
    return "graph TD\n" + "".join(chance.choices(PIECES, k=chance.randint(1, 12)))


def produce_template(chance: random.Random) -> str:
    """Return a text that may be a template."""
    return "".join(chance.choices(_BRACES, k=chance.randint(1, 12)))


def measure(read: Callable[[str], None], text: str) -> float:
    """Return the processor time for a text, in microseconds: the minimum of two tries."""
    times = []
    for _ in range(2):
        begin = time.process_time()
        read(text)
        times.append((time.process_time() - begin) * 1e6)
    return min(times)


@attrs.define
class Fuzzer:
    """Reader of generated texts that counts its findings."""

    read: Callable[[str], None]
    chance: random.Random
    count: int = 0
    findings: int = 0
    slowest: float = 0.0

    def examine(self, text: str) -> None:
        """Read a text, and sometimes one in which a part is repeated."""
        self.count += 1
        start = self.chance.randint(0, len(text))
        part = text[start : start + self.chance.randint(1, 10)]
        try:
            self.read(text)
            if part and self.chance.random() < 0.25:
                self.measure_growth(text[:start], part, text[start:])
        except Exception as error:  # any error is a finding
            self.report(f"{type(error).__name__} {error}: {text!r}, {part!r} at {start}")

    def measure_growth(self, before: str, part: str, after: str) -> None:
        """Repeat a part of a text, and report a time that grows too fast."""
        texts = [
            before + part * (characters // len(part)) + after
            for characters in (_CHARACTERS, 4 * _CHARACTERS)
        ]
        few, many = (measure(self.read, text) for text in texts)
        rate = many / len(texts[1])
        self.slowest = max(self.slowest, rate)
        if rate > _MAX_MICROSECONDS or (many > 8 * few and many > _MIN_MICROSECONDS):
            self.report(f"slow ({rate:.0f} µs a character): {before!r} + {part!r} * n + {after!r}")

    def report(self, finding: str) -> None:
        """Print a finding."""
        self.findings += 1
        print(finding, flush=True)


def fuzz(
    read: Callable[[str], None],
    produce: Callable[[random.Random], str],
    chance: random.Random,
    seconds: float,
) -> int:
    """Read texts until the time is over; return the number of findings."""
    fuzzer = Fuzzer(read, chance)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        fuzzer.examine(produce(chance))
    print(
        f"{read.__name__}: {fuzzer.count} texts, {fuzzer.findings} findings,"
        f" at most {fuzzer.slowest:.1f} µs a character",
        flush=True,
    )
    return fuzzer.findings


def main() -> int:
    """Fuzz both readers; return 1 if there was a finding."""
    seconds = 60 * float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().getrandbits(32)
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    found = fuzz(read_diagram, produce_diagram, chance, seconds)
    found += fuzz(read_and_render, produce_template, chance, seconds)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
