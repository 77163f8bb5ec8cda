"""What a whole flow can come to at most: requests, tokens and money, before it costs a cent.

Everything is taken at its worst: each answer is as long as the model may make it, each choice
takes the dearer way, each loop goes round as often as it may (``summing``), and a model that has
tools uses all of its turns. Of texts (``sizing``) what is known is counted, and a response is as
long as the node that gives it may make it. So a bound is seldom reached, and never passed as far
as tokens are counted right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from vibe_llms.exceptions import Finding
from vibe_llms.flows.categorizing import find_rule
from vibe_llms.flows.checking import DIAGRAM, TaskCheck
from vibe_llms.flows.graphs import ENGAGED, FlowNode, NodeKind
from vibe_llms.flows.reading import TaskReading
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.sizing import Provision, Sizer, add
from vibe_llms.flows.subflows import INPUT
from vibe_llms.flows.summing import GreatestSum
from vibe_llms.flows.tasks import EvaluationType
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.instruments.parsers.parsers import ATTEMPTS
from vibe_llms.messages.canisters import Usage
from vibe_llms.telemetry.prices import OWN_MACHINES, Unpriced, price_usage

_FORM: Final = 500
"""The tokens of a judge's question besides what it is about, and of asking for its form again."""

_MILLION: Final = 1_000_000

_FREE: Final = (0.0, 0.0)
"""What a token costs on one's own machine."""


@frozen(kw_only=True)
class FlowBound:
    """What a run of a flow can come to at most.

    Attributes:
        requests: How many answers models may give.
        tokens: Input and output; ``None`` where that cannot be said.
        cost_cents: In US cents, of those models whose vendors send a bill; ``None`` where that
            cannot be said.
        reasons: Why something cannot be said, in words that end a sentence.
        says: How many tokens the final response may have; ``None`` where that cannot be said.
        greatest: The node with the greatest part; ``None`` where none asks a model.
        visits: How often that may be visited.
    """

    requests: int
    tokens: int | None
    cost_cents: float | None
    reasons: tuple[str, ...] = ()
    says: int | None = 0
    greatest: FlowNode | None = None
    visits: int = 0


@frozen(kw_only=True)
class _Part:
    """What one visit can come to.

    Attributes:
        longest: The input tokens of its longest request, by which prices may differ.
        below: What a subflow comes to.
    """

    requests: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    longest: int = 0
    below: FlowBound | None = None

    def __add__(self, other: _Part) -> _Part:
        return _Part(
            requests=self.requests + other.requests,
            input_tokens=add(self.input_tokens, other.input_tokens),
            output_tokens=add(self.output_tokens, other.output_tokens),
            longest=max(self.longest, other.longest),
            below=self.below or other.below,
        )

    @property
    def tokens(self) -> int | None:
        tokens = add(self.input_tokens, self.output_tokens)
        return tokens if self.below is None else add(tokens, self.below.tokens)


def bound_flow(check: TaskCheck, provision: Provision | None = None) -> FlowBound:
    """Works out what a run of a task can come to at most.

    Raises:
        ConfigurationError: There are mistakes in the task; all of them.
    """
    return _bound(check, provision or Provision(), {}, {})


def check_budget(bound: FlowBound, config: AdapterConfig, reading: TaskReading) -> list[Finding]:
    """Finds which budgets a run could exceed; with any of these it does not start."""
    found = []
    for name, most, unit in (
        ("max_requests", bound.requests, "requests"),
        ("max_tokens", bound.tokens, "tokens"),
        ("max_cost_cents", bound.cost_cents, "cents"),
    ):
        budget: float | None = getattr(config, name)
        if budget is None or (most is not None and most <= budget):
            continue
        found.append(_tell(bound, reading, name, budget, most, unit))
    return found


def _tell(
    bound: FlowBound,
    reading: TaskReading,
    name: str,
    budget: float,
    most: float | None,
    unit: str,
) -> Finding:
    if most is None:
        reason = next(iter(bound.reasons), "nothing is known about the model.")
        message = f"It is unknown if {name} = {_write(budget)} is enough: {reason}"
        return reading.find(DIAGRAM, message)
    message = f"The flow may need {_write(most)} {unit}, but {name} is {_write(budget)}."
    node, line, column = bound.greatest, 0, 0
    if node is not None:
        line, column = node.line, node.column
        times = f"{bound.visits:,} times" if bound.visits > 1 else "once"
        message += f" The largest part is {node.id}, which may be visited {times}:"
    if bound.visits > 1:
        remedy = "lower the bound of its loop, lower max_iterations"
    elif unit == "requests":
        remedy = "ask less"
    else:
        remedy = "lower 'max_tokens' in 'resource_llm'"
    return reading.find(DIAGRAM, f"{message} {remedy}, or raise {name}.", line, column)


def _write(number: float) -> str:
    return f"{number:,.2f}".rstrip("0").rstrip(".") if number >= 0.01 else f"{number:.2g}"


_Known = dict[tuple[int, int | None], FlowBound]


def _bound(
    check: TaskCheck, provision: Provision, given: Mapping[str, int | None], known: _Known
) -> FlowBound:
    check.access_flow()
    return _Bounder(check, provision, Sizer(check.task, provision, given), known).bound()


@define
class _Bounder:
    """Works out the bound of one task.

    Attributes:
        known: The bounds of subflows that were worked out already.
        said: How many tokens a branch may have with it.
    """

    check: TaskCheck
    provision: Provision
    sizer: Sizer
    known: _Known
    said: int | None = 0

    def bound(self) -> FlowBound:
        flow = self.check.access_flow()
        total = GreatestSum(flow, self.provision.max_iterations)
        self._measure_responses(total)
        parts = {name: self._measure(flow.nodes[name]) for name in total.visits}
        end = self._measure_goal()
        tariff = _find_tariff([*parts.values(), end], self.sizer)
        costs = {name: _price(part, tariff) for name, part in parts.items()}
        costs[_END], parts[_END] = _price(end, tariff), end
        tokens = {name: part.tokens for name, part in parts.items()}
        requests: dict[str, float | None] = {
            name: part.requests + (part.below.requests if part.below else 0)
            for name, part in parts.items()
        }
        # Where tokens are not known, requests tell at least which node asks most.
        dearest = tokens if _is_known(tokens) else requests
        sums = {name: (dearest[name] or 0) * visits for name, visits in total.visits.items()}
        greatest = max(sums, key=lambda name: sums[name], default="")
        most = _add_all(total, tokens)
        return FlowBound(
            requests=int(_add_all(total, requests) or 0),
            tokens=None if most is None else int(most),
            cost_cents=_add_all(total, costs),
            reasons=tuple(self.sizer.reasons),
            says=self.said,
            greatest=flow.nodes[greatest] if sums.get(greatest) else None,
            visits=total.visits.get(greatest, 0) if sums.get(greatest) else 0,
        )

    def _measure_responses(self, total: GreatestSum) -> None:
        """Measures what each node says, and then what a branch may have with it."""
        flow, sizer = self.check.access_flow(), self.sizer
        speaking = [flow.nodes[name] for name in total.visits if flow.nodes[name].kind in ENGAGED]
        output = sizer.measure_output() if any(each.prompt is not None for each in speaking) else 0
        subflows = []
        for node in speaking:
            if node.kind is NodeKind.TOOL:
                size = sizer.measure_tool(self.check.invocations[node.id])
            elif node.kind is NodeKind.SUBFLOW:
                subflows.append(node)
                size = output  # what it is given is not known before; it is measured again below
            else:
                size = output
            sizer.responses[node.id] = size
        # What a subflow says depends on what a branch has with it, and the other way round: so
        # twice.
        self._measure_said(total)
        for node in subflows:
            sizer.responses[node.id] = self._bound_subflow(node).says
        if subflows:
            self._measure_said(total)

    def _measure_said(self, total: GreatestSum) -> None:
        sizes = self.sizer.responses
        if not _is_known(sizes):
            self.said = None
        elif self.check.access_flow().joins:
            # Where branches meet, what they have said is put together, in each round again.
            self.said = sum((size or 0) * total.visits[name] for name, size in sizes.items())
        else:
            self.said = max((size or 0 for size in sizes.values()), default=0)

    def _bound_subflow(self, node: FlowNode) -> FlowBound:
        check = self.check.subflows[node.id]
        key = (id(check), self.said)  # its parent holds the check: no id comes twice
        if key not in self.known:
            sizer = self.sizer
            given = {**sizer.given, INPUT: self.said}
            given |= {
                name: sizer.measure_value(value) for name, value in sizer.task.variables.items()
            }
            other = self.provision.model or check.task.resource_llm.address
            # What is known of one model says nothing of another; and the registry is this task's
            # own.
            attributes = self.provision.attributes if other == sizer.address else None
            provision = attrs.evolve(self.provision, contents={}, attributes=attributes)
            self.known[key] = _bound(check, provision, given, self.known)
        return self.known[key]

    def _measure(self, node: FlowNode) -> _Part:
        """Measures one visit of a node."""
        part = _Part()
        if node.kind is NodeKind.SUBFLOW:
            below = self._bound_subflow(node)
            self.sizer.reasons.update(dict.fromkeys(below.reasons))
            part = _Part(below=below)
        elif node.prompt is not None:
            part = self._measure_prompt(node.prompt)
        choices = self.check.access_flow().exits[node.id].choices
        if choices and node.kind is not NodeKind.LOOP:
            # What says nothing itself is told apart by what was said before it.
            said = self.sizer.responses.get(node.id, self.said)
            part += self._measure_categories([edge.label for edge in choices], said)
        return part

    def _measure_prompt(self, index: int) -> _Part:
        """Measures an engine's run: one request, or turns that each have those before with them."""
        sizer, limits = self.sizer, self.provision.limits
        said = sizer.measure_template(self.check.templates[index])
        if self.check.task.prompts[index].role == "system":
            goal = sizer.measure_text(self.check.task.goal.description)
            said = add(said, None if self.said is None else max(self.said, goal))
        output, tools, task = sizer.measure_output(), self.provision.tools, self.check.task
        first = sizer.measure_window(add(said, sizer.measure_tools()))
        if not (tools or task.ensembles or task.mcp):
            return _Part(requests=1, input_tokens=first, output_tokens=output, longest=first or 0)
        turns = limits.run_steps
        if first is None or output is None:
            return _Part(requests=turns, input_tokens=None, output_tokens=None)
        results = limits.run_invocations * sizer.measure_results()
        last = sizer.measure_window(first + turns * output + results) or 0
        # A run may go on as long as it has not used up its tokens; the last answer comes on top.
        answers = min(turns * output, limits.run_tokens + output)
        questions = min(turns * last, limits.run_tokens + last)
        return _Part(requests=turns, input_tokens=questions, output_tokens=answers, longest=last)

    def _measure_categories(self, labels: list[str], said: int | None) -> _Part:
        """Measures asking a model which category something is of, where it may be asked."""
        rules = [find_rule(self.check.task.categories, label) for label in labels]
        if all(rule is None or rule.has_rule for rule in rules):
            return _Part()
        words = "\n".join([*labels, *(rule.description for rule in rules if rule is not None)])
        return self._measure_judge(words, said)

    def _measure_goal(self) -> _Part:
        """Measures asking a model about the conditions of the goal."""
        part, goal = _Part(), self.check.task.goal
        for condition in goal.target_conditions:
            expected = condition.expected_value
            if condition.evaluation_type is EvaluationType.JUDGE:
                words = f"{goal.description}\n{condition.description}\n{expected}"
                part += self._measure_judge(words, self.said)
            elif condition.evaluation_type is EvaluationType.CATEGORY_MATCH:
                labels = list(dict.fromkeys([str(expected), *self.check.task.categories]))
                part += self._measure_categories(labels, self.said)
        return part

    def _measure_judge(self, words: str, said: int | None) -> _Part:
        sizer = self.sizer
        output = sizer.measure_output()
        question = add(said, sizer.measure_text(words), _FORM)
        if question is None or output is None:
            return _Part(requests=ATTEMPTS, input_tokens=None, output_tokens=None)
        # An answer that does not fit is quoted, and what would fit is asked for again.
        asked = [question + before * (2 * output + _FORM) for before in range(ATTEMPTS)]
        sent = [sizer.measure_window(each) or 0 for each in asked]
        return _Part(
            requests=ATTEMPTS,
            input_tokens=sum(sent),
            output_tokens=ATTEMPTS * output,
            longest=sent[-1],
        )


_END = "\N{NULL}"
"""What looking at the goal comes to stands under this name; no node is called so."""


def _is_known(values: Mapping[str, float | None]) -> bool:
    return all(each is not None for each in values.values())


def _add_all(total: GreatestSum, values: Mapping[str, float | None]) -> float | None:
    """Adds up what all visits come to, and what comes after the last."""
    known = {name: value for name, value in values.items() if value is not None}
    return total.add(known) + known[_END] if len(known) == len(values) else None


def _price(part: _Part, tariff: tuple[float, float] | None) -> float | None:
    """Returns what a visit costs, in cents."""
    below = part.below.cost_cents if part.below is not None else 0.0
    if part.requests == 0 or tariff == _FREE:
        return below
    if tariff is None or part.input_tokens is None or part.output_tokens is None or below is None:
        return None
    return part.input_tokens * tariff[0] + part.output_tokens * tariff[1] + below


def _find_tariff(parts: list[_Part], sizer: Sizer) -> tuple[float, float] | None:
    """Returns the cents of a token of input and of output, as dear as the longest request is."""
    longest = max((part.longest for part in parts), default=0)
    provider, _, model = sizer.address.partition(":")
    if provider in OWN_MACHINES:
        return _FREE
    usage = Usage(input_tokens=max(longest, 1), output_tokens=_MILLION)
    price = price_usage(usage, provider=provider, model=model)
    if isinstance(price, Unpriced) or not price.is_complete:
        why = price.reason if isinstance(price, Unpriced) else "some of its prices are unknown."
        sizer.miss(f"{why[0].lower()}{why[1:]}")
        return None
    rates = {each.bucket: float(each.amount) * 100 / each.tokens for each in price.buckets}
    return rates.get("input_tokens", 0.0), rates.get("output_tokens", 0.0)
