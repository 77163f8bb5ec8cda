"""The check before a run finds all that is wrong with a task, each with its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import Surroundings, TaskCheck
from vibe_llms.flows.faults import SEVERITIES
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.invocables.invokers import Effect, Invoker

GIVEN = Surroundings(variables={"topic"})


def make(diagram: str, *prompts: str | dict[str, str], **more: Any) -> dict[str, Any]:
    """Returns a task as plain data."""
    return {
        "goal": {"description": "Answer."},
        "resource_llm": {"provider": "mock", "model": "echo"},
        "prompts": [
            {"template": each} if isinstance(each, str) else each
            for each in prompts or ("Hello {{topic}}",)
        ],
        "resource_registry": {"entries": []},
        "flow_diagram": {"mermaid": diagram},
        **more,
    }


def check(
    diagram: str,
    *prompts: str | dict[str, str],
    strict: bool = True,
    around: Surroundings = GIVEN,
    **more: Any,
) -> TaskCheck:
    """Checks a task."""
    return check_task(examine_task(make(diagram, *prompts, **more), strict=strict), around)


def find(found: TaskCheck) -> list[str]:
    """Returns all findings, each with its kind; the path of the diagram is left out."""
    kinds = (("error", found.errors), ("warning", found.warnings))
    return [
        f"{kind} {each.path.removeprefix('flow_diagram.mermaid:')} {each.message}"
        for kind, findings in kinds
        for each in findings
    ]


def expect(found: TaskCheck, *expected: str) -> None:
    """Compares all findings with the beginnings of those that are expected."""
    told = find(found)
    assert len(told) == len(expected), told
    for each, beginning in zip(told, expected, strict=True):
        assert each.startswith(beginning), (each, beginning)


def test_a_sound_task_is_ready_to_run() -> None:
    """Its graph, its templates and what its tools are given come with it."""
    found = check(
        'graph TD\nSTART --> P0 --> T[/"calc x={{response:P0}}"/] --> END', ensembles=["a"]
    )

    assert found.errors == ()
    assert found.access_flow() is found.flow
    assert [str(each) for each in found.templates[0].references] == ["{{topic}}"]
    assert found.invocations["T"].tool == "calc"


def test_mistakes_of_all_kinds_come_at_once(tmp_path: Path) -> None:
    """In the file, in a template and in the diagram, each where it stands in the file."""
    path = tmp_path / "task.json"
    task = make('graph TD\n  START --> A --> T[/"calc x"/]', "a {{1 + 1}}", resource_lm={})
    path.write_text(json.dumps(task, indent=1))

    found = check_task(examine_task(path), GIVEN)

    with pytest.raises(ConfigurationError) as caught:
        found.access_flow()
    lines = path.read_text().splitlines()
    words = [(lines[each.line - 1][each.column - 1 :][:4], each.path) for each in found.errors]
    assert ("{{1 ", "prompts[0].template:1:3") in words
    assert ('x\\"/', "flow_diagram.mermaid:2:28") in words
    assert any(path == "resource_lm" for _, path in words)
    assert caught.value.findings == found.errors


def test_all_mistakes_in_a_diagram_that_does_not_read_are_told() -> None:
    """Along with those in templates."""
    found = check("graph TD\nSTART --> A[\nB --> C{\n", "{{1 + 1}}")

    assert found.flow is None
    assert {each.path.rpartition(":")[0] for each in found.errors} > {"prompts[0].template:1"}


def test_the_diagram_of_the_requirements_passes() -> None:
    """Also strictly: what it leaves open is bounded by max_iterations, and said in warnings."""
    found = check(
        "graph TD\n    START --> P0\n    P0 --> COND{Check}\n    COND -->|success| END\n"
        "    COND -->|retry| P0",
        "Given {{topic}}, identify key aspects. Previous: {{response:P0}}",
    )

    expect(
        found,
        "warning 3:12 COND has no default edge",
        "warning 5:10 P0 \N{RIGHTWARDS ARROW} COND \N{RIGHTWARDS ARROW} P0 repeats until max_i",
        "warning prompts[0].template:1:50 P0 may have no response yet when P0 is",
    )


CASES: list[tuple[str, tuple[str, ...]]] = [
    # What nobody comes to, and what nobody gets away from
    ("START --> P0 --> END\nB --> C --> B\nC --> END", ("error 3:1 B, C cannot be reached",)),
    ("START --> P0 --> END\nB --> P0\nC", ("error 3:1 B cannot", "error 4:1 C cannot be reached")),
    (
        "START --> P0 --> CHEK\nCHECK[x] --> END",
        (
            "error 2:18 CHEK is a dead end: lead an edge to END, or to the next",
            "error 3:1 CHECK cannot be reached from START: lead an edge there, or",
        ),
    ),
    (
        "START --> P0 --> A --> B --> A\nEND",
        ("error 2:18 No path leads from A, B to", "warning 2:26 A \N{RIGHTWARDS ARROW} B"),
    ),
    ("START --> P0 -->|error| H --> END", ("error 2:11 P0 has edges for failure, but",)),
    (
        "START --> P0 --> A --> P0\nA -->|error| END",
        (
            "error 2:11 No path leads from P0, A to",
            "warning 2:20 P0 \N{RIGHTWARDS ARROW} A",
            "warning 3:3 A never fails",
        ),
    ),
    # Choices
    ("START --> P0 --> C{x} --> END", ("error 2:18 C has only one edge and",)),
    (
        "START --> P0 --> C{x}\nC --> A --> END\nC --> END",
        ("error 2:18 C chooses by labels, but 2 of its edges have no label",),
    ),
    (
        "START --> P0 --> C{x}\nC -->|yes| END\nC -->|Yes| A --> END\nC --> END",
        ("error 4:3 The label 'Yes' leads from C to both END",),
    ),
    (
        "START --> P0 --> C{x}\nC -->|yes| END\nC -->|no| A --> END",
        ("warning 2:18 C has no default edge",),
    ),
    ("START --> P0 --> C{x}\nC -->|yes| END\nC -->|no| A --> END\nC -->|error| A", ()),
    ("START --> P0 -->|ok| END", ("warning 2:11 P0 has no default edge",)),
    (
        "START -->|go| P0 --> END\nSTART --> END",
        ("error 2:7 START chooses by the last response, but there is",),
    ),
    ("START --> P0 --> END\nP0 --> END", ("error 3:4 P0 already has such an edge",)),
    # Loops and cycles
    (
        "START --> L([Refine]) --> P0 --> L --> END",
        ("warning 2:11 L has no bound, and repeats until max_iterations is",),
    ),
    ("START --> L([x3]) -->|again| P0 --> L -->|done| END", ()),
    ("START --> L([x3]) -->|again| P0 --> L -->|limit| END", ()),
    (
        "START --> L([Loop 3]) --> P0 --> L --> END",
        ("error 2:11 L contains '3', which is not read as a bound: write ([Loop",),
    ),
    (
        "START --> L([up to 12 tries]) --> P0 --> L --> END",
        ("error 2:11 L contains '12', which is not read as a bound: write ([up to",),
    ),
    ("START --> L([GPT-4, x3]) --> P0 --> L --> END", ()),
    # Edges that end in a letter
    (
        "START-->P0--ok-->END",
        ("error 2:11 P0--ok is read as an edge --o to a node k. Is a space",),
    ),
    ("START --> P0 --xy--> END", ("error 2:14 P0--xy is read as an edge --x to a node y",)),
    ("START --> P0 --o A --> END", ()),
    ("START --> P0 -- ok --> END\nP0 --> END", ()),
    ("START --> L([x0]) --> P0 --> L --> END", ("error 2:11 L repeats 0 times: write at",)),
    (
        "START --> L([x3]) -->|a| P0 --> L -->|b| END\nL -->|c| L",
        ("error 3:3 Only one edge may start the rounds of L, but edges lead to",),
    ),
    ("START --> P0 --> L([x3]) -->|a| L -->|b| END", ("error 2:18 L is not a loop, because no",)),
    (
        "START --> L([x3]) --> P0 --> L\nP0 -->|ok| END",
        ("error 2:11 No edge leaves L after its last round: draw one, L -->|done| END.",),
    ),
    (
        "START --> L([End]) --> P0 --> END",
        ("error 2:11 L is not a loop, because no path leads",),
    ),
    (
        "START --> L([x3]) -->|a| P0 --> L -->|b| END\nL -->|c| A --> L\nL -->|d| B --> END",
        (
            "error 3:3 Only one edge may start the rounds of L, but edges lead to",
            "error 4:3 Only one edge may leave L after its last round, but edges",
        ),
    ),
    (
        "START --> L([x3]) -->|a| P0 --> M --> L -->|b| END\nSTART -->|x| M\nSTART -->|else| L",
        (
            "error 2:7 START has 2 edges without a matching label",
            "error 3:7 L is not a loop, because this edge enters its round without",
            "error 3:7 START chooses by the last",
            "error 4:7 START has 2 edges",
            "warning 2:19 P0",
        ),
    ),
    # Splits
    (
        "START --> S --> P0 & A --> J --> END\nP0 -->|error| END",
        ("error 3:4 The branches of S do not wait for each other at J, but at",),
    ),
    (
        "START --> S --> P0 & A --> J --> END\nP0 -->|again| S",
        (
            "error 3:4 A branch of S leads back to S before it meets the others at J",
            "warning 3:4 S",
        ),
    ),
    ("START --> S --> P0 & A --> J --> END", ()),
    (
        "START --> S --> P0 & A --> J --> END\nS --> B --> C",
        ("error 3:13 C is a dead end: lead an",),
    ),
    # Edges after a failure or a limit
    ("START --> P0 --> A --> END\nA -->|error| END", ("warning 3:3 A never fails",)),
    ("START --> P0 --> A --> END\nA -->|limit| END", ("warning 3:3 A never reaches a limit",)),
    (
        "START --> P0 --> END\nP0 -->|error| A --> END\nP0 -->|on error| END",
        ("error 4:4 P0 already has such an edge and takes the first",),
    ),
    # Ids
    ("START --> P0 --> End --> END", ("error 2:18 End is an ordinary node: capitals matter.",)),
    (
        "START --> P1 --> END",
        (
            "error 2:11 P1 refers to a prompt that does not exist: the last prompt is P0",
            "error prompts[0] The prompt is never used, because the diagram has no node P0",
        ),
    ),
]


@pytest.mark.parametrize(("lines", "expected"), CASES)
def test_what_is_wrong_with_a_graph_is_found(lines: str, expected: tuple[str, ...]) -> None:
    """With its place and what to do; nothing else is."""
    expect(check(f"graph TD\n{lines}", "Ask."), *expected)


@pytest.mark.parametrize(
    ("lines", "prompts", "expected"),
    [
        (
            "START --> P0 --> END",
            ["{{topik}}"],
            "error prompts[0].template:1:1 Unknown variable",
        ),
        (
            "START --> P0 --> END",
            ["{{loop.index}}"],
            "error prompts[0].template:1:1 P0 is outside",
        ),
        (
            "START --> L([x3]) --> A --> L --> P0 --> END",
            ["{{loop.index}}"],
            "error prompts[0].template:1:1 P0 is outside of loops, so {{loop.index}}",
        ),
        ("START --> L([x3]) --> P0 --> L --> END", ["{{loop.index}}{{loop.count}}"], ""),
        (
            "START --> P0 --> END",
            ["a\n {{response:P9}}"],
            "error prompts[0].template:2:2 Unknown node 'P9'. Known: P0.",
        ),
        (
            "START --> A --> P0 --> END",
            ["{{response:A}}"],
            "error prompts[0].template:1:1 A has no response of its own.",
        ),
        (
            "START --> P0 --> END",
            ["{{response:P0}}"],
            "error prompts[0].template:1:1 P0 has no response yet on any path to",
        ),
        (
            "START --> P0 --> P1 --> END",
            ["{{response:P1}}", "b"],
            "error prompts[0].template:1:1 P1 has no response yet on any path to",
        ),
        ("START --> P0 --> P1 --> END", ["a", "{{response:P0}}"], ""),
        (
            "START --> P0 --> C{x} -->|a| P1 --> P2 --> END\nC --> P2",
            ["a", "b", "{{response:P1}}"],
            "warning prompts[2].template:1:1 P1 may have no response yet when P2 is",
        ),
        ("START --> L([x3]) --> P0 --> L --> P1 --> END", ["a", "{{response:P0}}"], ""),
        # Who leaves a loop by its limit has gone round.
        ("START --> L([x3]) --> P0 --> L -->|limit| P1 --> END", ["a", "{{response:P0}}"], ""),
        (
            "START --> L([x3]) --> P0 --> C{x} -->|ok| END\nC --> L -->|limit| P1 --> END",
            ["a", "{{response:P0}}"],
            "",
        ),
        (
            "START --> L([x3]) --> P0 --> L -->|limit| P1 --> END\nP0 -->|error| L",
            ["a", "{{response:P0}}"],
            "warning prompts[1].template:1:1 P0 may have no response yet when P1 is",
        ),
        (
            "START --> L([x3]) --> M([x2]) --> P0 --> M --> L --> P1 --> END",
            ["a", "{{response:P0}}"],
            "",
        ),
        (
            "START --> L([x3]) --> P0 --> C{x} -->|a| P1 --> L --> P2 --> END\nC --> L",
            ["a", "b", "{{response:P1}}"],
            "warning prompts[2].template:1:1 P1 may have no response yet when P2 is",
        ),
        (
            "START --> S --> P0 & P1 --> P2 --> END",
            ["a", "b", "{{response:P0}}{{response:P1}}"],
            "",
        ),
        (
            "START --> L([x2]) --> S --> P0 & P1 --> L --> P2 --> END",
            ["a", "b", "{{response:P0}}{{response:P1}}"],
            "",
        ),
        (
            "START --> S --> P0 & P1 --> P2 --> END",
            ["a", "{{response:P0}}", "c"],
            "error prompts[1].template:1:1 P0 has no response yet on any path to",
        ),
        (
            "START --> S --> A & P0 --> P1 --> END\nA --> T\nT --> P2 & P3 --> U --> P1",
            ["a", "{{response:P0}}{{response:P2}}{{response:P3}}", "c", "d"],
            "",
        ),
        (
            "START --> S --> A & P0 --> P1 --> END\nP0 -->|x| P1",
            ["a", "{{response:P0}}"],
            "",
        ),
        (
            "START --> P0 --> END\nP0 -->|error| P1 --> END",
            ["a", "{{response:P0}}"],
            "error prompts[1].template:1:1 P0 has no response yet on any path to",
        ),
        (
            "START --> P0 --> P1 --> END\nP0 -->|error| P1",
            ["a", "{{response:P0}}"],
            "warning prompts[1].template:1:1 P0 may have no response yet when P1 is",
        ),
        (
            'START --> P0 --> T[/"calc a=1 b={{response:P1}}"/] --> END',
            ["a"],
            "error 2:33 Unknown node 'P1'. Known: P0, T.",
        ),
    ],
)
def test_what_templates_refer_to_must_be_known_there(
    lines: str, prompts: list[str], expected: str
) -> None:
    """On every way; on some ways alone, it is empty on the others, and a warning says so."""
    found = check(f"graph TD\n{lines}", *prompts, ensembles=["tools"])

    expect(found, *filter(None, [expected]))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{registry:docs}} {{registry:docs.author}} {{registry:docs.content}}", ""),
        (
            "{{registry:dogs}}",
            "error prompts[0].template:1:1 Unknown entry 'dogs' of the registry; did "
            "you mean 'docs'?",
        ),
        (
            "{{registry:docs.autor}}",
            "error prompts[0].template:1:1 The entry 'docs' has no field 'autor'; did you mean "
            "'author'?",
        ),
        ("{{registry:note.content}}", ""),
        (
            "{{registry:note}}",
            "error prompts[0].template:1:1 The field 'source_url' of the entry",
        ),
        (
            "{{registry:old.content}}",
            "error prompts[0].template:1:1 Cannot load the content of 'old': Cannot",
        ),
        (
            "{{registry:near.content}}",
            "error prompts[0].template:1:1 Cannot load the content of 'near': Its",
        ),
    ],
)
def test_entries_of_the_registry_must_be_there(template: str, expected: str) -> None:
    """With the field that is named."""
    entries = [
        {"name": "docs", "source_url": "https://example.org", "fields": {"author": "Ada"}},
        {"name": "note", "content": "Remember."},
        {"name": "old", "source_url": "ftp://example.org"},
        {"name": "near", "source_url": "file:notes.md"},
    ]
    found = check(
        "graph TD\nSTART --> P0 --> END", template, resource_registry={"entries": entries}
    )

    expect(found, *filter(None, [expected]))


def test_variables_that_nobody_has_given_yet_are_told() -> None:
    """Before a run, when nobody can know; also with the word that may have been meant."""
    found = check(
        "graph TD\nSTART --> P0 --> END",
        "{{topic}} {{topik}}",
        around=Surroundings(),
        variables={"topic": "cells"},
    )

    expect(
        found,
        "warning prompts[0].template:1:11 The variable 'topik' must be set when",
    )


def test_labels_and_categories_belong_together() -> None:
    """A misspelt one is an error, one that is of no use only where one is strict."""
    task = {
        "goal": {
            "description": "Answer.",
            "target_conditions": [
                {"description": "a", "evaluation_type": "CATEGORY_MATCH", "expected_value": "retri"}
            ],
        },
        "categories": {"success": {"keywords": ["a"]}, "odd": {"keywords": ["b"]}},
    }
    diagram = (
        "graph TD\nSTART --> L([x2]) --> P0 --> C{?} -->|sucess| END\nC -->|retry| L\nC --> END\n"
        "L --> END"
    )

    expect(
        check(diagram, "Ask.", strict=False, **task),
        "error 2:35 Unknown category 'sucess'; did you mean 'success'?",
        "error goal.target_conditions[0].expected_value No category or edge has",
        "warning categories.odd No edge has this label, and no condition expects",
    )
    assert len(check(diagram, "Ask.", **task).errors) == 3


def test_predicates_are_those_of_plugins() -> None:
    """As far as it is known which there are."""
    more = {
        "goal": {
            "description": "Answer.",
            "target_conditions": [
                {"description": "a", "evaluation_type": "CUSTOM", "expected_value": "is_long"}
            ],
        },
        "categories": {"ok": {"predicate": "is_shrt"}},
    }
    around = Surroundings(variables=(), predicates=("is_short", "is_polite"))
    diagram = "graph TD\nSTART --> P0 -->|ok| END\nP0 --> END"

    expect(check(diagram, "Ask.", around=Surroundings(variables=()), **more))
    expect(
        check(diagram, "Ask.", around=around, **more),
        "error categories.ok.predicate Unknown predicate 'is_shrt'; did you mean",
        "error goal.target_conditions[0].expected_value Unknown predicate 'is_long'",
    )


def invoker(name: str, effect: str, *required: str, **more: Any) -> Invoker:
    """Returns a tool with two arguments."""
    return Invoker(
        name=name,
        description="Does something.",
        schema={
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
            "required": list(required),
            "additionalProperties": False,
        },
        function=print,
        effect=Effect(effect),
        **more,
    )


TOOLS = Surroundings(
    variables=(),
    tools={
        "send": invoker("send", "once"),
        "drop": invoker("drop", "once", needs_approval=True),
        "read": invoker("read", "pure", "path"),
        "write": invoker("write", "idempotent"),
    },
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "START --> P0 --> T[/raed path=a/] --> END",
            "error 2:18 Unknown tool 'raed'; did you mean 'read'?",
        ),
        (
            "START --> P0 --> T[/read text=a/] --> END",
            "error 2:18 read needs more arguments: write path=… after its name.",
        ),
        (
            "START --> P0 --> T[/read path=a txt=b/] --> END",
            "error 2:18 read has no argument 'txt'; did you mean 'text'?",
        ),
        (
            "START --> P0 --> T[/read path=a text=null/] --> END",
            "error 2:18 Invalid argument of read: arguments.text: must be a string, not null.",
        ),
        ("START --> P0 --> T[/read path=7 text=true/] --> END", ""),
        ("START --> P0 --> T[/read path/] --> END", "error 2:26 Invalid argument"),
        (
            "START --> P0 --> T[/send/] --> END",
            "warning 2:18 T invokes send, which acts on the world regardless",
        ),
        ("START --> P0 --> T[/drop/] --> END", ""),
        ("START --> P0 --> T[/write/] --> END", ""),
        ("START --> P0 --> C{x} -->|yes| T[/send/] --> END\nC --> END", ""),
        (
            "START --> S --> T[/write text=a/] --> U[/write text=b/] --> END\nS --> END",
            "",
        ),
        (
            "START --> S --> T[/write text=a/] & U[/write text=b/] --> END",
            "warning 2:37 T and U may invoke write at the same time, on branches of S",
        ),
        (
            "START --> S --> T[/read path=a/] & U[/read path=b/] --> END",
            "",
        ),
        (
            "START --> S --> T[/write/] & R\nT --> J --> END\nR --> A & U[/write/] --> Q --> J",
            "warning 4:11 T and U may invoke write at the same time, on branches of S",
        ),
    ],
)
def test_tools_are_there_and_guarded(lines: str, expected: str) -> None:
    """What acts once is not invoked before anybody has looked at what was said."""
    found = [
        each
        for each in find(check(f"graph TD\n{lines}", "Ask.", around=TOOLS, ensembles=["a"]))
        if "prompts[0]" not in each
    ]

    assert [each.startswith(expected) for each in found] == [True] * bool(expected), found


def test_tools_may_be_given_when_a_task_is_run() -> None:
    """Before, a task that names none is told so; then, that there is none."""
    diagram = "graph TD\nSTART --> P0 --> T[/a/] --> U[/b/] --> END"

    expect(check(diagram), "warning 2:18 T invokes a tool: provide it when running the task, or")
    expect(
        check(diagram, around=Surroundings(variables={"topic"}, tools={})),
        "error 2:18 Unknown tool 'a'; name the ensemble or server that has it",
        "error 2:29 Unknown tool 'b'; name the ensemble or server that has it",
    )


def write(folder: Path, name: str, diagram: str, template: str = "Ask.", **more: Any) -> Path:
    """Writes a task file."""
    path = folder / name
    path.write_text(json.dumps(make(diagram, template, **more), indent=1), encoding="utf-8")
    return path


def test_subflows_are_looked_at_as_well(tmp_path: Path) -> None:
    """Each mistake once, with the file that it is in; they know what the task above them knows."""
    below = write(
        tmp_path, "review.json", "graph TD\nSTART --> P0 --> END", "{{topic}} {{x}} {{y}}"
    )
    path = write(
        tmp_path,
        "task.json",
        "graph TD\nSTART --> P0 --> A[[review]] --> B[[review.json]] --> C[[revue]] --> END",
        variables={"x": 1},
    )

    found = check_task(examine_task(path), GIVEN)

    assert {name: each.task.place for name, each in found.subflows.items()} == {
        "A": str(below),
        "B": str(below),
    }
    assert [(Path(each.place).name, each.message) for each in found.errors] == [
        (
            "review.json",
            "Unknown variable 'y'. Known: input, topic, x. Set it in "
            "'variables', or when running the task.",
        ),
        (
            "task.json",
            "revue.json or revue.toml does not exist in the folder of "
            "this task; did you mean 'review'?",
        ),
    ]


def test_a_task_cannot_run_itself(tmp_path: Path) -> None:
    """Neither at once nor by way of another."""
    write(tmp_path, "b.json", "graph TD\nSTART --> P0 --> A[[a]] --> END")
    path = write(tmp_path, "a.json", "graph TD\nSTART --> P0 --> B[[b]] --> A[[a]] --> END")

    messages = [each.message for each in check_task(examine_task(path), GIVEN).errors]

    assert messages == [
        "a.json \N{RIGHTWARDS ARROW} a.json: a task cannot run itself. Remove one of these nodes.",
        "a.json \N{RIGHTWARDS ARROW} b.json \N{RIGHTWARDS ARROW} a.json: a task cannot run itself. "
        "Remove one of these nodes.",
    ]


@pytest.mark.parametrize("name", ["../a", ".hidden", "/etc/passwd", "a/b", " "])
def test_a_subflow_is_beside_its_task(tmp_path: Path, name: str) -> None:
    """A name is no way to somewhere else."""
    path = write(tmp_path, "task.json", f'graph TD\nSTART --> P0 --> A[["{name}"]] --> END')

    (found,) = check_task(examine_task(path), GIVEN).errors

    assert "is not a task" in found.message


def test_a_subflow_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """With why."""
    (tmp_path / "a.toml").write_text("x = ")
    path = write(tmp_path, "task.json", "graph TD\nSTART --> P0 --> A[[a]] --> END")

    (found,) = check_task(examine_task(path), GIVEN).errors

    assert (Path(found.place).name, found.line) == ("a.toml", 1)
    assert "Invalid TOML" in found.message


def test_subflows_of_subflows_are_looked_at_once(tmp_path: Path) -> None:
    """However many ways lead to them: each of thirty runs the next one twice."""
    for number in range(30):
        diagram = f"graph TD\nSTART --> P0 --> A[[t{number + 1}]] --> B[[t{number + 1}]] --> END"
        write(tmp_path, f"t{number}.json", diagram)
    write(tmp_path, "t30.json", "graph TD\nSTART --> P0 --> END", "{{oops}}")

    found = check_task(examine_task(tmp_path / "t0.json"), GIVEN)

    assert [each.message[:23] for each in found.errors] == ["Unknown variable 'oops'"]


def test_the_guide_explains_every_rule() -> None:
    """With what it does to a run."""
    guide = Path(__file__).parents[3] / "documentation" / "guides" / "flow-checks.rst"
    rows = re.findall(r"\* - ``([\w-]+)``\n     - (\w+)\n", guide.read_text(encoding="utf-8"))

    assert dict(rows) == {str(rule): str(weight) for rule, weight in SEVERITIES.items()}
    assert len(rows) == len(SEVERITIES)
