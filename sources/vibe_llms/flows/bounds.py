"""Upper bounds of a flow's requests, tokens and cost, computed before it costs anything.

The computation assumes the worst case: each response has its maximum length, each choice takes the
most expensive path, each loop makes its maximum number of rounds (``visit_sums``), and a model with
tools uses all of its turns. Known texts are counted (``text_sizes``), and a response has the
maximum length that its node permits. So a bound is seldom reached, and never exceeded if tokens are
counted correctly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from vibe_llms.exceptions import Finding
from vibe_llms.flows.categorizing import find_rule
from vibe_llms.flows.checks import DIAGRAM, FlowBound, TaskCheck
from vibe_llms.flows.graphs import WORKING_KINDS, FlowNode, NodeKind
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.subflows import INPUT
from vibe_llms.flows.task_reading import TaskReading
from vibe_llms.flows.tasks import EvaluationType
from vibe_llms.flows.text_sizes import Provision, Sizer, add
from vibe_llms.flows.visit_sums import MaximumSum
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.instruments.parsers.parsers import ATTEMPTS
from vibe_llms.messages.canisters import Usage
from vibe_llms.telemetry.prices import OWN_MACHINES, Unpriced, price_usage

_FORM: Final = 500
"""Tokens of a judge's question without its subject, and of repeating the required form."""

_MILLION: Final = 1_000_000

_FREE: Final = (0.0, 0.0)
"""Price of a token on the user's own machine."""


@frozen(kw_only=True)
class _Part:
    """Upper bounds of one visit.

    Attributes:
        longest: Input tokens of its longest request, on which prices may depend.
        subflow: Upper bounds of its subflow.
    """

    requests: int = 0
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    longest: int = 0
    subflow: FlowBound | None = None

    def __add__(self, other: _Part) -> _Part:
        return _Part(
            requests=self.requests + other.requests,
            input_tokens=add(self.input_tokens, other.input_tokens),
            output_tokens=add(self.output_tokens, other.output_tokens),
            longest=max(self.longest, other.longest),
            subflow=self.subflow or other.subflow,
        )

    @property
    def tokens(self) -> int | None:
        tokens = add(self.input_tokens, self.output_tokens)
        return tokens if self.subflow is None else add(tokens, self.subflow.tokens)


def bound_flow(check: TaskCheck, provision: Provision | None = None) -> FlowBound:
    """Compute the upper bounds of a run of a task.

    Raises:
        ConfigurationError: The task has mistakes; lists all of them.
    """
    return _bound(check, provision or Provision(), {}, {})


def check_budget(bound: FlowBound, config: AdapterConfig, reading: TaskReading) -> list[Finding]:
    """Find the budgets that a run could exceed. With such a finding, a run does not start."""
    found = []
    for name, maximum, unit in (
        ("max_requests", bound.requests, "requests"),
        ("max_tokens", bound.tokens, "tokens"),
        ("max_cost_cents", bound.cost_cents, "cents"),
    ):
        budget: float | None = getattr(config, name)
        if budget is None or (maximum is not None and maximum <= budget):
            continue
        found.append(_compose_finding(bound, reading, name, budget, maximum, unit))
    return found


def _compose_finding(
    bound: FlowBound,
    reading: TaskReading,
    name: str,
    budget: float,
    maximum: float | None,
    unit: str,
) -> Finding:
    if maximum is None:
        reason = next(iter(bound.reasons), "nothing is known about the model.")
        message = f"It is unknown if {name} = {_write(budget)} is enough: {reason}"
        return reading.find(DIAGRAM, message)
    message = f"The flow may need {_write(maximum)} {unit}, but {name} is {_write(budget)}."
    node, line, column = bound.largest, 0, 0
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


_Cache = dict[tuple[int, int | None], FlowBound]


def _bound(
    check: TaskCheck, provision: Provision, variable_sizes: Mapping[str, int | None], cache: _Cache
) -> FlowBound:
    check.access_flow()
    return _Bounder(check, provision, Sizer(check.task, provision, variable_sizes), cache).bound()


@define
class _Bounder:
    """Calculator of the bound of one task.

    Attributes:
        cache: Cache of the bounds of subflows.
        carried: Maximum tokens of the responses that a branch carries.
    """

    check: TaskCheck
    provision: Provision
    sizer: Sizer
    cache: _Cache
    carried: int | None = 0

    def bound(self) -> FlowBound:
        flow = self.check.access_flow()
        total = MaximumSum(flow, self.provision.max_iterations)
        self._measure_responses(total)
        parts = {name: self._measure(flow.nodes[name]) for name in total.visits}
        end = self._measure_goal()
        tariff = _find_tariff([*parts.values(), end], self.sizer)
        costs = {name: _price(part, tariff) for name, part in parts.items()}
        costs[_END], parts[_END] = _price(end, tariff), end
        tokens = {name: part.tokens for name, part in parts.items()}
        requests: dict[str, float | None] = {
            name: part.requests + (part.subflow.requests if part.subflow else 0)
            for name, part in parts.items()
        }
        # If tokens are unknown, requests show at least which node asks most.
        criterion = tokens if _is_known(tokens) else requests
        sums = {name: (criterion[name] or 0) * visits for name, visits in total.visits.items()}
        largest = max(sums, key=lambda name: sums[name], default="")
        maximum = _add_all(total, tokens)
        return FlowBound(
            requests=int(_add_all(total, requests) or 0),
            tokens=None if maximum is None else int(maximum),
            cost_cents=_add_all(total, costs),
            reasons=tuple(self.sizer.reasons),
            response_tokens=self.carried,
            largest=flow.nodes[largest] if sums.get(largest) else None,
            visits=total.visits.get(largest, 0) if sums.get(largest) else 0,
        )

    def _measure_responses(self, total: MaximumSum) -> None:
        """Measure the response of each node, and then the responses that a branch carries."""
        flow, sizer = self.check.access_flow(), self.sizer
        responding = [
            flow.nodes[name] for name in total.visits if flow.nodes[name].kind in WORKING_KINDS
        ]
        output = (
            sizer.measure_output() if any(each.prompt is not None for each in responding) else 0
        )
        subflows = []
        for node in responding:
            if node.kind is NodeKind.TOOL:
                size = sizer.measure_tool(self.check.invocations[node.id])
            elif node.kind is NodeKind.SUBFLOW:
                subflows.append(node)
                size = output  # its input is not known yet; measured again below
            else:
                size = output
            sizer.responses[node.id] = size
        # Subflow responses and carried responses depend on each other: so measure twice.
        self._measure_carried(total)
        for node in subflows:
            sizer.responses[node.id] = self._bound_subflow(node).response_tokens
        if subflows:
            self._measure_carried(total)

    def _measure_carried(self, total: MaximumSum) -> None:
        sizes = self.sizer.responses
        if not _is_known(sizes):
            self.carried = None
        elif self.check.access_flow().joins:
            # Joins concatenate the responses of their branches, again in each round.
            self.carried = sum((size or 0) * total.visits[name] for name, size in sizes.items())
        else:
            self.carried = max((size or 0 for size in sizes.values()), default=0)

    def _bound_subflow(self, node: FlowNode) -> FlowBound:
        check = self.check.subflows[node.id]
        key = (id(check), self.carried)  # the parent holds the check: ids are unique
        if key not in self.cache:
            sizer = self.sizer
            variable_sizes = {**sizer.variable_sizes, INPUT: self.carried}
            variable_sizes |= {
                name: sizer.measure_value(value) for name, value in sizer.task.variables.items()
            }
            other = self.provision.model or check.task.resource_llm.address
            # Attributes hold for one model only, and the registry belongs to this task.
            attributes = self.provision.attributes if other == sizer.address else None
            provision = attrs.evolve(self.provision, contents={}, attributes=attributes)
            self.cache[key] = _bound(check, provision, variable_sizes, self.cache)
        return self.cache[key]

    def _measure(self, node: FlowNode) -> _Part:
        """Measure one visit of a node."""
        part = _Part()
        if node.kind is NodeKind.SUBFLOW:
            subflow = self._bound_subflow(node)
            self.sizer.reasons.update(dict.fromkeys(subflow.reasons))
            part = _Part(subflow=subflow)
        elif node.prompt is not None:
            part = self._measure_prompt(node.prompt)
        choices = self.check.access_flow().exits[node.id].choices
        if choices and node.kind is not NodeKind.LOOP:
            # A node without a response is categorized by the response before it.
            carried = self.sizer.responses.get(node.id, self.carried)
            part += self._measure_categories([edge.label for edge in choices], carried)
        return part

    def _measure_prompt(self, index: int) -> _Part:
        """Measure an engine's run: one request, or turns that each include all previous turns."""
        sizer, limits = self.sizer, self.provision.limits
        carried = sizer.measure_template(self.check.templates[index])
        if self.check.task.prompts[index].role == "system":
            goal = sizer.measure_text(self.check.task.goal.description)
            carried = add(carried, None if self.carried is None else max(self.carried, goal))
        output, tools, task = sizer.measure_output(), self.provision.tools, self.check.task
        first = sizer.measure_window(add(carried, sizer.measure_tools()))
        if not (tools or task.ensembles or task.mcp):
            return _Part(requests=1, input_tokens=first, output_tokens=output, longest=first or 0)
        turns = limits.run_steps
        if first is None or output is None:
            return _Part(requests=turns, input_tokens=None, output_tokens=None)
        results = limits.run_invocations * sizer.measure_results()
        last = sizer.measure_window(first + turns * output + results) or 0
        # A run continues until its tokens are used up; the last response may exceed them.
        answers = min(turns * output, limits.run_tokens + output)
        questions = min(turns * last, limits.run_tokens + last)
        return _Part(requests=turns, input_tokens=questions, output_tokens=answers, longest=last)

    def _measure_categories(self, labels: list[str], carried: int | None) -> _Part:
        """Measure asking a model for the category of a response, if it may be asked."""
        rules = [find_rule(self.check.task.categories, label) for label in labels]
        if all(rule is None or rule.has_rule for rule in rules):
            return _Part()
        words = "\n".join([*labels, *(rule.description for rule in rules if rule is not None)])
        return self._measure_judge(words, carried)

    def _measure_goal(self) -> _Part:
        """Measure asking a model about the conditions of the goal."""
        part, goal = _Part(), self.check.task.goal
        for condition in goal.target_conditions:
            expected = condition.expected_value
            if condition.evaluation_type is EvaluationType.JUDGE:
                words = f"{goal.description}\n{condition.description}\n{expected}"
                part += self._measure_judge(words, self.carried)
            elif condition.evaluation_type is EvaluationType.CATEGORY_MATCH:
                labels = list(dict.fromkeys([str(expected), *self.check.task.categories]))
                part += self._measure_categories(labels, self.carried)
        return part

    def _measure_judge(self, words: str, carried: int | None) -> _Part:
        sizer = self.sizer
        output = sizer.measure_output()
        question = add(carried, sizer.measure_text(words), _FORM)
        if question is None or output is None:
            return _Part(requests=ATTEMPTS, input_tokens=None, output_tokens=None)
        # A nonconforming answer is quoted, and the required form is requested again.
        request_sizes = [question + before * (2 * output + _FORM) for before in range(ATTEMPTS)]
        input_sizes = [sizer.measure_window(each) or 0 for each in request_sizes]
        return _Part(
            requests=ATTEMPTS,
            input_tokens=sum(input_sizes),
            output_tokens=ATTEMPTS * output,
            longest=input_sizes[-1],
        )


_END = "\N{NULL}"
"""Key for the cost of evaluating the goal; no node has this id."""


def _is_known(values: Mapping[str, float | None]) -> bool:
    return all(each is not None for each in values.values())


def _add_all(total: MaximumSum, values: Mapping[str, float | None]) -> float | None:
    """Add up all visits, and the evaluation of the goal after the last."""
    cache = {name: value for name, value in values.items() if value is not None}
    return total.add(cache) + cache[_END] if len(cache) == len(values) else None


def _price(part: _Part, tariff: tuple[float, float] | None) -> float | None:
    """Return the cost of a visit in cents."""
    subflow = part.subflow.cost_cents if part.subflow is not None else 0.0
    if part.requests == 0 or tariff == _FREE:
        return subflow
    if tariff is None or part.input_tokens is None or part.output_tokens is None or subflow is None:
        return None
    return part.input_tokens * tariff[0] + part.output_tokens * tariff[1] + subflow


def _find_tariff(parts: list[_Part], sizer: Sizer) -> tuple[float, float] | None:
    """Return the cents per input and output token, at the rate of the longest request."""
    longest = max((part.longest for part in parts), default=0)
    provider, _, model = sizer.address.partition(":")
    if provider in OWN_MACHINES:
        return _FREE
    usage = Usage(input_tokens=max(longest, 1), output_tokens=_MILLION)
    price = price_usage(usage, provider=provider, model=model)
    if isinstance(price, Unpriced) or not price.is_complete:
        why = price.reason if isinstance(price, Unpriced) else "some of its prices are unknown."
        sizer.note_unknown(f"{why[0].lower()}{why[1:]}")
        return None
    rates = {each.bucket: float(each.amount) * 100 / each.tokens for each in price.buckets}
    return rates.get("input_tokens", 0.0), rates.get("output_tokens", 0.0)
