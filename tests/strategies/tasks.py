"""Tasks as somebody may write them, and what may stand in them by mistake."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_TEXTS = st.sampled_from(["a", "Say why.", " b ", "ü\n", "{{topic}}"])
_STRINGS = st.just("") | _TEXTS
_NAMES = st.sampled_from(["schema", "a b", "v1.2", "x"])
_VALUES = st.sampled_from(["a", 1, 1.5, True, {"type": "object"}])

CONDITIONS = st.sampled_from(
    [
        {"evaluation_type": "GOAL_MET"},
        {"evaluation_type": "JUDGE", "expected_value": None},
        {"evaluation_type": "CONTAINS", "expected_value": "a"},
        {"evaluation_type": "CATEGORY_MATCH", "expected_value": "success"},
        {"evaluation_type": "CUSTOM", "expected_value": "is_short"},
        {"evaluation_type": "ITERATION_LIMIT", "expected_value": "20"},
        {"evaluation_type": "ITERATION_LIMIT", "expected_value": 20},
        {"evaluation_type": "JSON_SCHEMA", "expected_value": {"type": "object"}},
    ]
).flatmap(lambda condition: _TEXTS.map(lambda text: {"description": text, **condition}))

ENTRIES = st.fixed_dictionaries(
    {"name": _NAMES, "source_url": st.just("https://example.org/a")},
    optional={
        "category": _STRINGS,
        "description": _STRINGS,
        "content": _STRINGS,
        "fields": st.dictionaries(st.sampled_from(["author", "year"]), _STRINGS),
    },
)
CATEGORIES = st.fixed_dictionaries(
    {"field": st.just("review.score")},
    optional={
        "description": _STRINGS,
        "keywords": st.lists(_TEXTS),
        "pattern": st.sampled_from(["^a", "(a+)+$"]),
        "equals": _VALUES | st.none(),
        "predicate": _NAMES,
    },
)
TASKS = st.fixed_dictionaries(
    {
        "goal": st.fixed_dictionaries(
            {"description": _TEXTS}, optional={"target_conditions": st.lists(CONDITIONS)}
        ),
        "resource_llm": st.fixed_dictionaries(
            {"provider": st.sampled_from(["mock", "anthropic", "a.b-c"]), "model": _TEXTS},
            optional={
                "temperature": st.none() | st.sampled_from([0, 0.5]),
                "max_tokens": st.none() | st.integers(1, 9),
                "api_key_env": st.none() | st.sampled_from(["ANTHROPIC_API_KEY", "KEY"]),
            },
        ),
        "prompts": st.lists(
            st.fixed_dictionaries(
                {"template": _TEXTS},
                optional={"role": st.sampled_from(["user", "system"]), "description": _STRINGS},
            )
        ),
        "flow_diagram": st.fixed_dictionaries({"mermaid": _TEXTS}),
        "resource_registry": st.fixed_dictionaries(
            {}, optional={"entries": st.lists(ENTRIES, unique_by=lambda entry: entry["name"])}
        ),
    },
    optional={
        "categories": st.dictionaries(_TEXTS, CATEGORIES),
        "variables": st.dictionaries(st.sampled_from(["topic", "a_1"]), _VALUES),
        "ensembles": st.lists(_TEXTS),
        "mcp": st.lists(_TEXTS),
        "$schema": st.just("task.json"),
    },
)
"""What is right."""

JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        1.5,
        "",
        " ",
        "a\0",
        "{x}",
        "a b",
        "0",
        [],
        [""],
        ["a"],
        [1],
        {},
        {"a": 1},
        {"field": "a"},
        "(",
        "GOAL_MET",
        "AKIAIOSFODNN7EXAMPLE",
        "user",
        "a\n",
    ]
)
"""What may stand anywhere, and is right in some places; no regular expression, which a schema
cannot tell, and no 1.0, which is whole to a schema."""
