"""Rules of Mermaid's own lexer, in their order: the first match wins.

The first rule wins even if a later one would match more characters. The names of tokens and states
are Mermaid's. The opening of a label applies in every state, so that a bracket inside of a label is
an error there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vibe_llms.mermaid.letters import compose_class
from vibe_llms.mermaid.spans import SPACE

_S = f"[{SPACE}]"


class LexicalRule(NamedTuple):
    """Meaning of one pattern: a token, a state to enter, or the current one to leave."""

    kind: str
    pattern: str
    enter: str = ""
    leaves: bool = False


_OPENERS = [
    LexicalRule("(-", r"\(-", "ellipseText"),
    LexicalRule("STADIUMSTART", r"\(\[", "text"),
    LexicalRule("SUBROUTINESTART", r"\[\[", "text"),
    LexicalRule("CYLINDERSTART", r"\[\(", "text"),
    LexicalRule("DOUBLECIRCLESTART", r"\(\(\(", "text"),
    LexicalRule("TRAPSTART", r"\[/", "trapText"),
    LexicalRule("INVTRAPSTART", r"\[\\", "trapText"),
    LexicalRule("PIPE", r"\|", "text"),
    LexicalRule("PS", r"\(", "text"),
    LexicalRule("SQS", r"\[", "text"),
    LexicalRule("DIAMOND_START", r"\{", "text"),
]
_QUOTES = [LexicalRule("", '"`', "md_string"), LexicalRule("", '"', "string")]
# Mermaid tries these in every state, so that all tables below contain them, each in its position.
_INVISIBLE = LexicalRule("LINK", rf"{_S}*~~~+{_S}*")
_OPENING = [_INVISIBLE, *_OPENERS]

_LINKS = [
    # A whole link first: the rule for the beginning of a link with a label would match it as well.
    LexicalRule("LINK", rf"[xo<]?--+[-xo>]{_S}*", leaves=True),
    LexicalRule("START_LINK", rf"[xo<]?--{_S}*", "edgeText"),
    LexicalRule("LINK", rf"[xo<]?==+[=xo>]{_S}*", leaves=True),
    LexicalRule("START_LINK", rf"[xo<]?=={_S}*", "thickEdgeText"),
    LexicalRule("LINK", rf"[xo<]?-?\.+-[xo>]?{_S}*", leaves=True),
    LexicalRule("START_LINK", rf"[xo<]?-\.{_S}*", "dottedEdgeText"),
    LexicalRule("LINK", rf"~~~+{_S}*"),
]
_WORDS = [
    LexicalRule("acc_title", rf"accTitle{_S}*:{_S}*", "acc_title"),
    LexicalRule("acc_descr", rf"accDescr{_S}*:{_S}*", "acc_descr"),
    LexicalRule("", rf"accDescr{_S}*\{{{_S}*", "acc_descr_multiline"),
    LexicalRule("SHAPE_DATA", r"@\{", "shapeData"),
    LexicalRule("", rf"call{_S}+", "callbackname"),
    *_QUOTES,
    LexicalRule("STYLE", r"style\b"),
    LexicalRule("DEFAULT", r"default\b"),
    LexicalRule("LINKSTYLE", r"linkStyle\b"),
    LexicalRule("INTERPOLATE", r"interpolate\b"),
    LexicalRule("CLASSDEF", r"classDef\b"),
    LexicalRule("CLASS", r"class\b"),
    LexicalRule("HREF", rf"href{_S}"),
    LexicalRule("", rf"click{_S}+", "click"),
    LexicalRule("GRAPH", r"(?:flowchart-elk|swimlane-beta|graph|flowchart)\b"),
    LexicalRule("subgraph", r"subgraph\b"),
    LexicalRule("end", rf"end\b{_S}*"),
    LexicalRule("LINK_TARGET", r"(?:_self|_blank|_parent|_top)\b"),
]
# The order is that of Mermaid's table; openers stand between others there, hence the slices.
_REST = [
    LexicalRule("NUM", "[0-9]+"),
    LexicalRule("BRKT", "#"),
    LexicalRule("STYLE_SEPARATOR", ":::"),
    LexicalRule("COLON", ":"),
    LexicalRule("AMP", "&"),
    LexicalRule("SEMI", ";"),
    LexicalRule("COMMA", ","),
    LexicalRule("MULT", r"\*"),
    *_LINKS,
    *_OPENERS[:3],
    LexicalRule("VERTEX_WITH_PROPS_START", r"\[\|"),
    LexicalRule("TAGEND", ">", "text"),
    *_OPENERS[3:7],
    LexicalRule("TAGSTART", "<"),
    LexicalRule("UP", r"\^"),
    LexicalRule("SEP", r"\\\|"),
    LexicalRule("DOWN", r"v\b"),
    LexicalRule("NODE_STRING", r"""(?:[A-Za-z0-9!"#$%&'*+.`?\\_/]|-(?=[^>\-.]))+"""),
    LexicalRule("MINUS", "-"),
    LexicalRule("UNICODE_TEXT", f"[{compose_class()}]"),
    *_OPENERS[7:],
]
_BLANKS = [LexicalRule("NEWLINE", r"(?:\r?\n)+"), LexicalRule("SPACE", rf"(?:(?![\n\r]){_S})+")]

_TABLE: dict[str, list[LexicalRule]] = {
    "words": _WORDS,
    "links": _LINKS,
    "rest": _REST,
    "blanks": _BLANKS,
    "dir": [
        *_QUOTES,
        LexicalRule("NODIR", rf"{_S}*\n", leaves=True),
        # BR is in Mermaid's table as well.
        LexicalRule("DIR", rf"{_S}*(?:(?:LR|RL|TB|BT|TD|BR)\b|[<>^]|v\b)", leaves=True),
        *_OPENING,
    ],
    "acc_title": [LexicalRule("acc_title_value", r"[^\n]*", leaves=True)],
    "acc_descr": [LexicalRule("acc_descr_value", r"[^\n]*", leaves=True)],
    "acc_descr_multiline": [
        LexicalRule("", r"\}", leaves=True),
        LexicalRule("acc_descr_multiline_value", r"[^}]*"),
    ],
    "shapeData": [
        LexicalRule("SHAPE_DATA", '"', "shapeDataStr"),
        # The second ^ excludes the character ^, as in Mermaid's rule: unquoted, it is an error.
        LexicalRule("SHAPE_DATA", '[^}^"]+'),
        LexicalRule("", r"\}", leaves=True),
        *_OPENING,
    ],
    "shapeDataStr": [
        LexicalRule("SHAPE_DATA", '"', leaves=True),
        LexicalRule("SHAPE_DATA", '[^"]+'),
    ],
    "callbackname": [
        LexicalRule("", rf"\({_S}*\)", leaves=True),
        LexicalRule("", r"\(", "callbackargs", leaves=True),
        LexicalRule("CALLBACKNAME", r"[^(]*"),
    ],
    "callbackargs": [LexicalRule("", r"\)", leaves=True), LexicalRule("CALLBACKARGS", r"[^)]*")],
    "click": [*_QUOTES, LexicalRule("", _S, leaves=True), LexicalRule("CLICK", rf"[^{SPACE}]*")],
    "md_string": [
        LexicalRule("MD_STR", '[^`"]+'),
        LexicalRule("", '`"', leaves=True),
        *_QUOTES,
        *_OPENING,
    ],
    "string": [_QUOTES[0], LexicalRule("STR", '[^"]+'), LexicalRule("", '"', leaves=True)],
    "text": [
        *_QUOTES,
        _INVISIBLE,
        _OPENERS[0],
        LexicalRule("STADIUMEND", r"\]\)", leaves=True),
        _OPENERS[1],
        LexicalRule("SUBROUTINEEND", r"\]\]", leaves=True),
        _OPENERS[2],
        LexicalRule("CYLINDEREND", r"\)\]", leaves=True),
        _OPENERS[3],
        LexicalRule("DOUBLECIRCLEEND", r"\)\)\)", leaves=True),
        *_OPENERS[4:7],
        LexicalRule("PIPE", r"\|", leaves=True),
        LexicalRule("PE", r"\)", leaves=True),
        _OPENERS[8],
        LexicalRule("SQE", r"\]", leaves=True),
        _OPENERS[9],
        LexicalRule("DIAMOND_STOP", r"\}", leaves=True),
        _OPENERS[10],
        LexicalRule("TEXT", r'[^\[\](){}|"]+'),
    ],
    "trapText": [
        *_QUOTES,
        _INVISIBLE,
        *_OPENERS[:5],
        # Mermaid puts a lookahead into a character class: so )] and =] and ?] are ends as well.
        LexicalRule("TRAPEND", r"[\\(?=\])]\]", leaves=True),
        LexicalRule("INVTRAPEND", r"/\]", leaves=True),
        LexicalRule("TEXT", r"/(?!\])|\\(?!\])|[^\\\[\](){}/]+"),
        *_OPENERS[5:],
    ],
    # one character at a time, because the end may begin with any of them
    "ellipseText": [
        *_QUOTES,
        _INVISIBLE,
        LexicalRule("-)", r"[-/)]\)", leaves=True),
        LexicalRule("TEXT", r"[^()\[\]{}]"),
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
"""Pattern of each state, whose n-th group is the n-th rule."""
