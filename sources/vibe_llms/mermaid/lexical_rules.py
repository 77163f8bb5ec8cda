"""Rules of Mermaid's own lexer, in their order: the first match wins.

The first rule wins even if a later one would match more characters. The names of tokens and states
are Mermaid's.
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


# Each opener begins the label of a node or an edge.
_OPEN_ELLIPSE = LexicalRule("(-", r"\(-", "ellipseText")
_OPEN_STADIUM = LexicalRule("STADIUMSTART", r"\(\[", "text")
_OPEN_SUBROUTINE = LexicalRule("SUBROUTINESTART", r"\[\[", "text")
_OPEN_CYLINDER = LexicalRule("CYLINDERSTART", r"\[\(", "text")
_OPEN_DOUBLE_CIRCLE = LexicalRule("DOUBLECIRCLESTART", r"\(\(\(", "text")
_OPEN_TRAPEZOID = LexicalRule("TRAPSTART", r"\[/", "trapText")
_OPEN_INVERTED_TRAPEZOID = LexicalRule("INVTRAPSTART", r"\[\\", "trapText")
_OPEN_EDGE_LABEL = LexicalRule("PIPE", r"\|", "text")
_OPEN_ROUND = LexicalRule("PS", r"\(", "text")
_OPEN_SQUARE = LexicalRule("SQS", r"\[", "text")
_OPEN_DIAMOND = LexicalRule("DIAMOND_START", r"\{", "text")
_OPENERS = [
    _OPEN_ELLIPSE,
    _OPEN_STADIUM,
    _OPEN_SUBROUTINE,
    _OPEN_CYLINDER,
    _OPEN_DOUBLE_CIRCLE,
    _OPEN_TRAPEZOID,
    _OPEN_INVERTED_TRAPEZOID,
    _OPEN_EDGE_LABEL,
    _OPEN_ROUND,
    _OPEN_SQUARE,
    _OPEN_DIAMOND,
]
_MARKDOWN_QUOTE = LexicalRule("", '"`', "md_string")
_QUOTES = [_MARKDOWN_QUOTE, LexicalRule("", '"', "string")]
_INVISIBLE_LINK = LexicalRule("LINK", rf"{_S}*~~~+{_S}*")
# Mermaid tries these in most states, so that an unquoted opener inside a label is a syntax error.
_NESTED = [_INVISIBLE_LINK, *_OPENERS]

_LINK = LexicalRule("LINK", rf"[xo<]?--+[-xo>]{_S}*", leaves=True)
_THICK_LINK = LexicalRule("LINK", rf"[xo<]?==+[=xo>]{_S}*", leaves=True)
_DOTTED_LINK = LexicalRule("LINK", rf"[xo<]?-?\.+-[xo>]?{_S}*", leaves=True)
_LINKS = [
    # A whole link first: the rule for the beginning of a link with a label would match it as well.
    _LINK,
    LexicalRule("START_LINK", rf"[xo<]?--{_S}*", "edgeText"),
    _THICK_LINK,
    LexicalRule("START_LINK", rf"[xo<]?=={_S}*", "thickEdgeText"),
    _DOTTED_LINK,
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
# The order is that of Mermaid's table, in which other rules stand between the openers.
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
    _OPEN_ELLIPSE,
    _OPEN_STADIUM,
    _OPEN_SUBROUTINE,
    LexicalRule("VERTEX_WITH_PROPS_START", r"\[\|"),
    LexicalRule("TAGEND", ">", "text"),
    _OPEN_CYLINDER,
    _OPEN_DOUBLE_CIRCLE,
    _OPEN_TRAPEZOID,
    _OPEN_INVERTED_TRAPEZOID,
    LexicalRule("TAGSTART", "<"),
    LexicalRule("UP", r"\^"),
    LexicalRule("SEP", r"\\\|"),
    LexicalRule("DOWN", r"v\b"),
    LexicalRule("NODE_STRING", r"""(?:[A-Za-z0-9!"#$%&'*+.`?\\_/]|-(?=[^>\-.]))+"""),
    LexicalRule("MINUS", "-"),
    LexicalRule("UNICODE_TEXT", f"[{compose_class()}]"),
    _OPEN_EDGE_LABEL,
    _OPEN_ROUND,
    _OPEN_SQUARE,
    _OPEN_DIAMOND,
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
        *_NESTED,
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
        *_NESTED,
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
        *_NESTED,
    ],
    "string": [_MARKDOWN_QUOTE, LexicalRule("STR", '[^"]+'), LexicalRule("", '"', leaves=True)],
    "text": [
        *_QUOTES,
        _INVISIBLE_LINK,
        _OPEN_ELLIPSE,
        LexicalRule("STADIUMEND", r"\]\)", leaves=True),
        _OPEN_STADIUM,
        LexicalRule("SUBROUTINEEND", r"\]\]", leaves=True),
        _OPEN_SUBROUTINE,
        LexicalRule("CYLINDEREND", r"\)\]", leaves=True),
        _OPEN_CYLINDER,
        LexicalRule("DOUBLECIRCLEEND", r"\)\)\)", leaves=True),
        _OPEN_DOUBLE_CIRCLE,
        _OPEN_TRAPEZOID,
        _OPEN_INVERTED_TRAPEZOID,
        LexicalRule("PIPE", r"\|", leaves=True),
        LexicalRule("PE", r"\)", leaves=True),
        _OPEN_ROUND,
        LexicalRule("SQE", r"\]", leaves=True),
        _OPEN_SQUARE,
        LexicalRule("DIAMOND_STOP", r"\}", leaves=True),
        _OPEN_DIAMOND,
        LexicalRule("TEXT", r'[^\[\](){}|"]+'),
    ],
    "trapText": [
        *_QUOTES,
        _INVISIBLE_LINK,
        _OPEN_ELLIPSE,
        _OPEN_STADIUM,
        _OPEN_SUBROUTINE,
        _OPEN_CYLINDER,
        _OPEN_DOUBLE_CIRCLE,
        # Mermaid puts a lookahead into a character class: so )] and =] and ?] are ends as well.
        LexicalRule("TRAPEND", r"[\\(?=\])]\]", leaves=True),
        LexicalRule("INVTRAPEND", r"/\]", leaves=True),
        LexicalRule("TEXT", r"/(?!\])|\\(?!\])|[^\\\[\](){}/]+"),
        _OPEN_TRAPEZOID,
        _OPEN_INVERTED_TRAPEZOID,
        _OPEN_EDGE_LABEL,
        _OPEN_ROUND,
        _OPEN_SQUARE,
        _OPEN_DIAMOND,
    ],
    # one character at a time, because the end may begin with any of them
    "ellipseText": [
        *_QUOTES,
        _INVISIBLE_LINK,
        LexicalRule("-)", r"[-/)]\)", leaves=True),
        LexicalRule("TEXT", r"[^()\[\]{}]"),
        *_OPENERS,
    ],
    "edgeText": [*_QUOTES, _LINK],
    "thickEdgeText": [*_QUOTES, _THICK_LINK],
    "dottedEdgeText": [*_QUOTES, _DOTTED_LINK],
}

RULES = {
    # Groups are tried in their order, as Mermaid's lexer tries its rules. ASCII: so \b and \w are
    # JavaScript's.
    state: (re.compile("|".join(f"({rule.pattern})" for rule in rules), re.ASCII), rules)
    for state, rules in _TABLE.items()
}
"""Pattern of each state, whose n-th group is the n-th rule."""
