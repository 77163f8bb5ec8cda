"""The rules of Mermaid's own lexer, in their order: the one that comes first wins.

It wins also where a later one would match more. The names of tokens and states are Mermaid's. What
opens a label does so in every state, so that a bracket inside of a label is an error there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vibe_llms.mermaid.letters import compose_class
from vibe_llms.mermaid.spans import SPACE

_S = f"[{SPACE}]"


class Rule(NamedTuple):
    """What one pattern means: a token, a state to enter, or the present one to leave."""

    kind: str
    pattern: str
    enter: str = ""
    leaves: bool = False


_OPENERS = [
    Rule("(-", r"\(-", "ellipseText"),
    Rule("STADIUMSTART", r"\(\[", "text"),
    Rule("SUBROUTINESTART", r"\[\[", "text"),
    Rule("CYLINDERSTART", r"\[\(", "text"),
    Rule("DOUBLECIRCLESTART", r"\(\(\(", "text"),
    Rule("TRAPSTART", r"\[/", "trapText"),
    Rule("INVTRAPSTART", r"\[\\", "trapText"),
    Rule("PIPE", r"\|", "text"),
    Rule("PS", r"\(", "text"),
    Rule("SQS", r"\[", "text"),
    Rule("DIAMOND_START", r"\{", "text"),
]
_QUOTES = [Rule("", '"`', "md_string"), Rule("", '"', "string")]
# Mermaid tries these in every state, so that all tables below have them, each in its place.
_INVISIBLE = Rule("LINK", rf"{_S}*~~~+{_S}*")
_OPENING = [_INVISIBLE, *_OPENERS]

_LINKS = [
    # A whole link comes before the beginning of one with a label, which fits there as well.
    Rule("LINK", rf"[xo<]?--+[-xo>]{_S}*", leaves=True),
    Rule("START_LINK", rf"[xo<]?--{_S}*", "edgeText"),
    Rule("LINK", rf"[xo<]?==+[=xo>]{_S}*", leaves=True),
    Rule("START_LINK", rf"[xo<]?=={_S}*", "thickEdgeText"),
    Rule("LINK", rf"[xo<]?-?\.+-[xo>]?{_S}*", leaves=True),
    Rule("START_LINK", rf"[xo<]?-\.{_S}*", "dottedEdgeText"),
    Rule("LINK", rf"~~~+{_S}*"),
]
_WORDS = [
    Rule("acc_title", rf"accTitle{_S}*:{_S}*", "acc_title"),
    Rule("acc_descr", rf"accDescr{_S}*:{_S}*", "acc_descr"),
    Rule("", rf"accDescr{_S}*\{{{_S}*", "acc_descr_multiline"),
    Rule("SHAPE_DATA", r"@\{", "shapeData"),
    Rule("", rf"call{_S}+", "callbackname"),
    *_QUOTES,
    Rule("STYLE", r"style\b"),
    Rule("DEFAULT", r"default\b"),
    Rule("LINKSTYLE", r"linkStyle\b"),
    Rule("INTERPOLATE", r"interpolate\b"),
    Rule("CLASSDEF", r"classDef\b"),
    Rule("CLASS", r"class\b"),
    Rule("HREF", rf"href{_S}"),
    Rule("", rf"click{_S}+", "click"),
    Rule("GRAPH", r"(?:flowchart-elk|swimlane-beta|graph|flowchart)\b"),
    Rule("subgraph", r"subgraph\b"),
    Rule("end", rf"end\b{_S}*"),
    Rule("LINK_TARGET", r"(?:_self|_blank|_parent|_top)\b"),
]
# The order is that of Mermaid's table; openers stand between others there, hence the slices.
_REST = [
    Rule("NUM", "[0-9]+"),
    Rule("BRKT", "#"),
    Rule("STYLE_SEPARATOR", ":::"),
    Rule("COLON", ":"),
    Rule("AMP", "&"),
    Rule("SEMI", ";"),
    Rule("COMMA", ","),
    Rule("MULT", r"\*"),
    *_LINKS,
    *_OPENERS[:3],
    Rule("VERTEX_WITH_PROPS_START", r"\[\|"),
    Rule("TAGEND", ">", "text"),
    *_OPENERS[3:7],
    Rule("TAGSTART", "<"),
    Rule("UP", r"\^"),
    Rule("SEP", r"\\\|"),
    Rule("DOWN", r"v\b"),
    Rule("NODE_STRING", r"""(?:[A-Za-z0-9!"#$%&'*+.`?\\_/]|-(?=[^>\-.]))+"""),
    Rule("MINUS", "-"),
    Rule("UNICODE_TEXT", f"[{compose_class()}]"),
    *_OPENERS[7:],
]
_BLANKS = [Rule("NEWLINE", r"(?:\r?\n)+"), Rule("SPACE", rf"(?:(?![\n\r]){_S})+")]

_TABLE: dict[str, list[Rule]] = {
    "words": _WORDS,
    "links": _LINKS,
    "rest": _REST,
    "blanks": _BLANKS,
    "dir": [
        *_QUOTES,
        Rule("NODIR", rf"{_S}*\n", leaves=True),
        # BR is in Mermaid's table as well.
        Rule("DIR", rf"{_S}*(?:(?:LR|RL|TB|BT|TD|BR)\b|[<>^]|v\b)", leaves=True),
        *_OPENING,
    ],
    "acc_title": [Rule("acc_title_value", r"[^\n]*", leaves=True)],
    "acc_descr": [Rule("acc_descr_value", r"[^\n]*", leaves=True)],
    "acc_descr_multiline": [
        Rule("", r"\}", leaves=True),
        Rule("acc_descr_multiline_value", r"[^}]*"),
    ],
    "shapeData": [
        Rule("SHAPE_DATA", '"', "shapeDataStr"),
        # The second ^ is a letter, as in Mermaid's: outside of quotes it is unreadable there, too.
        Rule("SHAPE_DATA", '[^}^"]+'),
        Rule("", r"\}", leaves=True),
        *_OPENING,
    ],
    "shapeDataStr": [Rule("SHAPE_DATA", '"', leaves=True), Rule("SHAPE_DATA", '[^"]+')],
    "callbackname": [
        Rule("", rf"\({_S}*\)", leaves=True),
        Rule("", r"\(", "callbackargs", leaves=True),
        Rule("CALLBACKNAME", r"[^(]*"),
    ],
    "callbackargs": [Rule("", r"\)", leaves=True), Rule("CALLBACKARGS", r"[^)]*")],
    "click": [*_QUOTES, Rule("", _S, leaves=True), Rule("CLICK", rf"[^{SPACE}]*")],
    "md_string": [Rule("MD_STR", '[^`"]+'), Rule("", '`"', leaves=True), *_QUOTES, *_OPENING],
    "string": [_QUOTES[0], Rule("STR", '[^"]+'), Rule("", '"', leaves=True)],
    "text": [
        *_QUOTES,
        _INVISIBLE,
        _OPENERS[0],
        Rule("STADIUMEND", r"\]\)", leaves=True),
        _OPENERS[1],
        Rule("SUBROUTINEEND", r"\]\]", leaves=True),
        _OPENERS[2],
        Rule("CYLINDEREND", r"\)\]", leaves=True),
        _OPENERS[3],
        Rule("DOUBLECIRCLEEND", r"\)\)\)", leaves=True),
        *_OPENERS[4:7],
        Rule("PIPE", r"\|", leaves=True),
        Rule("PE", r"\)", leaves=True),
        _OPENERS[8],
        Rule("SQE", r"\]", leaves=True),
        _OPENERS[9],
        Rule("DIAMOND_STOP", r"\}", leaves=True),
        _OPENERS[10],
        Rule("TEXT", r'[^\[\](){}|"]+'),
    ],
    "trapText": [
        *_QUOTES,
        _INVISIBLE,
        *_OPENERS[:5],
        # Mermaid puts what was to look ahead into a class: so )] and =] and ?] are ends as well.
        Rule("TRAPEND", r"[\\(?=\])]\]", leaves=True),
        Rule("INVTRAPEND", r"/\]", leaves=True),
        Rule("TEXT", r"/(?!\])|\\(?!\])|[^\\\[\](){}/]+"),
        *_OPENERS[5:],
    ],
    # one character at a time, because the end may begin with any of them
    "ellipseText": [
        *_QUOTES,
        _INVISIBLE,
        Rule("-)", r"[-/)]\)", leaves=True),
        Rule("TEXT", r"[^()\[\]{}]"),
        *_OPENERS,
    ],
    "edgeText": [*_QUOTES, _LINKS[0]],
    "thickEdgeText": [*_QUOTES, _LINKS[2]],
    "dottedEdgeText": [*_QUOTES, _LINKS[4]],
}

RULES = {
    # Groups are tried in their order, as Mermaid's lexer tries its rules. ASCII: so \b and \w are
    # JavaScript's.
    state: (re.compile("|".join(f"({rule.pattern})" for rule in rules), re.ASCII), rules)
    for state, rules in _TABLE.items()
}
"""Of each state the pattern whose n-th group is the n-th rule."""
