# ruff: noqa: E501
"""Generated diagrams, which Mermaid and our parser must read in the same way.

Run ``VIBE_LLMS_NODE=FOLDER python tests/support/diagrams/mermaid_generation.py MINUTES`` to compare new
diagrams for that time; the folder is the one for tests marked ``node``. Shorten the diagrams that it prints,
and add them to ``mermaid_texts``.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of its own finds `support`

from support.diagrams.mermaid_cases import agree, ask, compose_oracle, describe
from support.diagrams.mermaid_texts import TEXTS

_IDS = ("A", "B", "C1", "e1", "s")
_ODD_IDS = (
    "a-b",
    "ж",
    "v",
    "x.y",
    "end1",
    "A,B",
    "default",
    "1",
    "o",
    "xx",
    "a@b",
    "graph",
    "click",
)
_WORDS = (
    "text",
    "two words",
    '"quoted (x)"',
    '"`*md*`"',
    "a#quot;b",
    "#35;",
    "x;y",
    "ünï ☃",
    "a@b",
)
_ODD_WORDS = (
    "end", "v", "-", "a--b", "==", "<b>x</b>", '<a href="x">', "a&b", "%%", "/", "\\", "1.", "direction LR",
    "style: #abc;", "`", "~~~", "'", "=", ":", "x\ny", " ", "?", '""', "|", "{", "]", '"a"b',
)  # fmt: skip
_BRACKETS = (
    "[]", "()", "{}", "(())", "((()))", "([])", "[[]]", "[()]", "{{}}", ">]", "[/\\]", "[\\/]",
    "[//]", "[\\\\]", "(--)",
)  # fmt: skip
_LINKS = (
    "-->", "---", "==>", "===", "-.->", "-.-", "~~~", "<-->", "x--x", "o--o", "--x", "--o", "---->",
    "-..->", "-- t -->", "== t ==>", "-. t .->", "-->|t|", "---|t|", "e1@-->", "e2@==>", '-->|"t"|',
)  # fmt: skip
_ODD_LINKS = (
    "====>", "-- t --o", "x-- t --x", "<-- t -->", "<== t --x", "-.-x", "=", "--", "-.", "~~", "|t|",
    "@-->", "x==>", "-- a--b -->", "-->|a|b|", "<-- t ---", "e1@-- t -->", "==x", "&", "-- %% -->",
)  # fmt: skip
_VALUES = (
    "doc", "diam", "cyl", "text", '"a b"', "'it''s'", "5", "1.50", "true", "null", "~", "[1, 2]",
    "{a: b}", "fast", "|", ">-", "- x", "0x1F", ".inf", "1e3", "#c", "a#b", "",
)  # fmt: skip
_NAMES = (
    "shape",
    "label",
    "icon",
    "w",
    "animate",
    "animation",
    "curve",
    "view",
    "labelType",
    "?",
    "a b",
)
_YAML = (
    "a: ", "b: ", "label: ", "w: ", "- ", "[", "]", "{", "}", ", ", ": ", "x", '"q"', "'s'", '"a\\nb"',
    "\n", "\n ", "\n  ", "\n    ", "|", ">", "|-", ">+", "# c", "1", "null", "~", "true", "?", " ", ":",
    "-", "1e3", ".5", '"', "'", "\\", "\t", "x y", "x: y", "[]", "[a]", "''", "%", "@", "`", "!", "&",
    "*", "--", "...", "0x1", "é", "a:b", "a: b: c", '"a": ',
)  # fmt: skip
_STYLES = ("fill:#f96", "stroke:#333", "stroke-width:4px", "color:red", "fill: #fff", "a:b:c", "x")
_BLANKS = (" ", "  ", "", "\t", "\n", " \n ", "\u00a0", ";", " %% c\n")
_PIECES = (
    *_LINKS, *_ODD_LINKS, *_ODD_WORDS, *"[](){}<>|&;:,@#%-=.~\"'`/\\?! \n\txov", "%%", "%%{", "}%%", "subgraph ",
    "end", "direction TB", "style ", "classDef ", "class ", "click ", "linkStyle ", "accTitle:",
    "accDescr {", "call ", "href ", "@{", "}", ":::", "\n---\n", "\r\n", "\u2028", "graph TD\n",
)  # fmt: skip


def generate(seed: int, count: int) -> list[str]:
    """Return diagrams, most of which are valid; equal seeds give equal diagrams."""
    return [_Generator(random.Random(f"{seed}/{number}")).produce() for number in range(count)]


class _Generator:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def pick(self, usual: tuple[str, ...], odd: tuple[str, ...]) -> str:
        return self.chance.choice(usual if self.chance.random() < 0.93 else odd)

    def produce(self) -> str:
        """Return one diagram: generated statements, or a stored diagram with mistakes."""
        pick = self.chance.random()
        if pick < 0.2:
            return self.write_block()
        if pick < 0.5:
            text = self.write_head() + self.write_lines(self.chance.randint(1, 6))
        else:
            text = self.chance.choice(TEXTS)[:400]
        for _ in range(self.chance.choice((0, 0, 0, 1) if pick < 0.5 else (1, 1, 2, 3))):
            text = self.add_mistake(text)
        return text

    def write_block(self) -> str:
        """Return a diagram whose attributes or front matter may be YAML."""
        block = "".join(self.chance.choices(_YAML, k=self.chance.randint(1, 9)))
        if self.chance.random() < 0.15:
            return f"---\n{block}\n---\ngraph TD\nA"
        owner = self.chance.choice(("x[y]\n", "subgraph x\nA\nend\n", "A x@--> B\n"))
        opening, closing = self.chance.choice(((" ", " "), ("\n", "\n"), ("\n  ", "\n")))
        return f"graph TD\n{owner}x@{{{opening}{block}{closing}}}"

    def write_head(self) -> str:
        head = self.chance.choice(("graph TD\n", "flowchart LR\n", "graph\n", "flowchart RL;"))
        if self.chance.random() < 0.1:
            head = f"---\ntitle: {self.chance.choice(_VALUES)}\n---\n{head}"
        return head

    def write_lines(self, count: int) -> str:
        return "".join(
            f"{self.chance.choice(('', '', ' ', '  '))}{self.write_statement()}"
            f"{self.chance.choice((chr(10), chr(10), ';', ' ' + chr(10)))}"
            for _ in range(count)
        )

    def write_statement(self) -> str:
        return self.chance.choice(
            (
                *[self.write_chain] * 6,
                self.write_attributes,
                self.write_attributes,
                self.write_subgraph,
                self.write_edge_properties,
                self.write_click,
                lambda: self.chance.choice(
                    ("%% words", "%%{init: {}}%%", "accTitle: x", "direction BT")
                ),
            )
        )()

    def write_chain(self) -> str:
        parts = [self.write_group()]
        for _ in range(self.chance.choice((0, 1, 1, 2))):
            parts += [self.blank(), self.pick(_LINKS, _ODD_LINKS), self.blank(), self.write_group()]
        return "".join(parts)

    def blank(self) -> str:
        return " " if self.chance.random() < 0.95 else self.chance.choice(_BLANKS)

    def write_group(self) -> str:
        uses = [self.write_use() for _ in range(self.chance.choice((1, 1, 1, 2, 3)))]
        return self.pick((" & ", "  &  "), ("&",)).join(uses)

    def write_use(self) -> str:
        use = self.pick(_IDS, _ODD_IDS)
        if self.chance.random() < 0.4:
            brackets = self.chance.choice(_BRACKETS)
            half = len(brackets) // 2
            use += brackets[:half] + self.pick(_WORDS, _ODD_WORDS) + brackets[half:]
        if self.chance.random() < 0.1:
            use += self.chance.choice((":::c", ":::c,d", "::c"))
        if self.chance.random() < 0.1:
            use += "@{ shape: doc }"
        return use

    def write_attributes(self) -> str:
        pairs = [
            f"{self.chance.choice(_NAMES)}: {self.chance.choice(_VALUES)}"
            for _ in range(self.chance.randint(0, 3))
        ]
        if self.chance.random() < 0.5:
            inside = f" {', '.join(pairs)} "
        else:
            inside = "".join(f"\n{self.chance.choice(('  ', ' ', '    '))}{pair}" for pair in pairs)
            inside += "\n"
        return f"{self.pick(_IDS, _ODD_IDS)}@{{{inside}}}"

    def write_subgraph(self) -> str:
        title = self.chance.choice(
            ("s", "t", "two words", "s [title]", 's ["a (b)"]', '"q"', "s[`x`]")
        )
        return f"subgraph {title}\n{self.write_lines(self.chance.randint(0, 3))}end"

    def write_edge_properties(self) -> str:
        styles = ",".join(self.chance.choices(_STYLES, k=self.chance.randint(1, 2)))
        id_ = self.pick(_IDS, _ODD_IDS)
        return self.chance.choice(
            (
                f"style {id_} {styles}",
                f"classDef c {styles}",
                f"classDef c,d {styles};",
                f"class {id_} c",
                "class A,B,s c",
                f"linkStyle 0 {styles}",
                f"linkStyle default interpolate basis {styles}",
                "linkStyle 0,1 interpolate basis",
            )
        )

    def write_click(self) -> str:
        rest = (
            '"x"',
            '"x" "tip"',
            'href "x" _blank',
            "call f(a)",
            "f",
            'call f() "tip"',
            '"x" _self',
        )
        return f"click {self.pick(_IDS, _ODD_IDS)} {self.chance.choice(rest)}"

    def add_mistake(self, text: str) -> str:
        """Return a text in which a part is missing, repeated or in a wrong place."""
        start = self.chance.randint(0, len(text))
        end = min(len(text), start + self.chance.randint(1, 6))
        return self.chance.choice(
            (
                text[:start] + text[end:],
                text[:end] + text[start:],
                text[:start] + self.chance.choice(_PIECES) + text[start:],
                text[:start] + self.chance.choice(_PIECES) + text[end:],
                text[:start] + self.chance.choice(TEXTS)[-40:],
            )
        )


def find_disagreements(texts: list[str]) -> list[str]:
    """Return the texts that Mermaid and our parser read differently.

    YAML that our reader rejects on purpose does not count.
    """
    answers = ask(compose_oracle(), texts)
    pairs = ((text, describe(text), answer) for text, answer in zip(texts, answers, strict=True))
    return [
        text
        for text, ours, theirs in pairs
        if not agree(ours, theirs) and "is not read in diagrams" not in ours.get("refused", "")
    ]


def main() -> int:
    """Compare until the time is over; return 1 if any diagram was read differently."""
    end = time.monotonic() + 60 * float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().getrandbits(32)
    compared = 0
    found: list[str] = []
    while time.monotonic() < end:
        texts = generate(seed, 3_000)
        different = find_disagreements(texts)
        for text in different:
            print(f"seed {seed}: {text!r}", flush=True)
        found += different
        compared, seed = compared + len(texts), seed + 1
    print(f"{compared} diagrams, {len(found)} disagreements")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
