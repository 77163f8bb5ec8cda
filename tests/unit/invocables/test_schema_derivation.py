"""What a function's annotations become, and that schema and function accept the same."""

from __future__ import annotations

import datetime
import enum
import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, create_model

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.invocables import InvocationContext, produce_invoker, schemas
from vibe_llms.invocables.argument_faults import Misfit
from vibe_llms.invocables.invokers import Invoker, invocable


class Unit(enum.Enum):
    """An enumeration of words."""

    CELSIUS = "celsius"
    KELVIN = "kelvin"


@attrs.frozen
class Tree:
    """A class that holds itself, with a private name."""

    _name: str
    children: tuple[Tree, ...] = ()


@dataclass
class Point:
    """A dataclass with a default."""

    x: float
    tags: list[str] = field(default_factory=list)


class Address(TypedDict):
    """A dictionary with an optional member."""

    street: str
    number: NotRequired[int]


class Span(NamedTuple):
    """A named tuple."""

    start: int
    end: int = 0


class Ticket(BaseModel):
    """A class of pydantic's."""

    id: int
    title: str = ""


Meters = NewType("Meters", float)

LEAVES = [str, int, float, bool, None, Any, Unit, Tree, Point, Address, Span, Meters]
LEAVES += [Literal["a", "b"], Literal[1, True, None], Annotated[int, "a number"]]


def combine(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Makes annotations of annotations."""
    one = inner
    return st.one_of(
        one.map(lambda t: list[t]),
        one.map(lambda t: Sequence[t]),
        one.map(lambda t: tuple[t, ...]),
        one.map(lambda t: dict[str, t]),
        one.map(lambda t: Mapping[str, t]),
        st.tuples(one, one).map(lambda pair: tuple[pair[0], pair[1]]),
        st.tuples(one, one).map(lambda pair: pair[0] | pair[1] if all(pair) else list[int]),
    )


annotations = st.recursive(st.sampled_from(LEAVES), combine, max_leaves=4)
words = st.sampled_from(["a", "b", "celsius", "name", "children", "x", "tags", "street", "start"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5, -2.0]) | words
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
JSON_OF = {
    str: words,
    int: st.integers() | st.sampled_from([2.0]),
    float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    bool: st.booleans(),
    None: st.none(),
    Unit: st.sampled_from(["celsius", "kelvin"]),
    Tree: st.recursive(
        st.builds(lambda name: {"name": name}, words),
        lambda inner: st.builds(
            lambda name, inner: {"name": name, "children": inner}, words, st.lists(inner)
        ),
        max_leaves=4,
    ),
    Point: st.fixed_dictionaries({"x": st.integers(-9, 9)}, optional={"tags": st.lists(words)}),
    Address: st.fixed_dictionaries({"street": words}, optional={"number": st.integers()}),
    Span: st.fixed_dictionaries({"start": st.integers()}, optional={"end": st.integers()}),
}


@st.composite
def functions(draw: st.DrawFn) -> Invoker:
    """Makes invokers of functions with any signature that can be derived."""
    kinds = [
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    ]
    hints = draw(st.lists(annotations, max_size=4))
    chosen = sorted(draw(st.sampled_from(kinds)) for _ in hints)
    parameters: list[inspect.Parameter] = []
    has_default = False
    for index, (hint, kind) in enumerate(zip(hints, chosen, strict=True)):
        given_default = draw(st.booleans())
        if kind is not inspect.Parameter.KEYWORD_ONLY:
            given_default = has_default = has_default or given_default
        default = "default" if given_default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(f"p{index}", kind, annotation=hint, default=default))
    others = draw(st.none() | annotations.map(lambda hint: [hint]))
    if others is not None:
        kind = inspect.Parameter.VAR_KEYWORD
        parameters.append(inspect.Parameter("others", kind, annotation=others[0]))

    def function(*args: Any, **kwargs: Any) -> None:
        """Does nothing."""

    signature = inspect.Signature(parameters)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters}
    return produce_invoker(function)


def bind(invoker: Invoker, arguments: dict[str, Any]) -> inspect.BoundArguments | None:
    """Binds as Python itself would; none where a value fits no parameter."""
    try:
        bound = invoker.bind(arguments, InvocationContext())
    except Misfit:
        return None
    return inspect.signature(invoker.function).bind(*bound.positional, **bound.named)


@pytest.mark.slow
@given(functions(), st.data())
def test_the_schema_accepts_exactly_what_the_function_accepts(
    invoker: Invoker, data: st.DataObject
) -> None:
    """A value fits the schema if, and only if, the parameters can be made of it."""
    Draft202012Validator.check_schema(invoker.schema)
    names = [*invoker.schema["properties"], "another"]
    members = {
        name: json_values | st.one_of(*(JSON_OF[leaf] for leaf in JSON_OF)) for name in names
    }
    arguments = data.draw(st.fixed_dictionaries({}, optional=members))
    fits = Draft202012Validator(invoker.schema).is_valid(arguments)

    assert (bind(invoker, arguments) is not None) == fits
    assert (invoker.check(arguments) == ()) == fits


@pytest.mark.parametrize("leaf", list(JSON_OF), ids=str)
@given(data=st.data())
def test_what_is_meant_for_a_type_is_accepted(leaf: Any, data: st.DataObject) -> None:
    """Of each type, values that fit come through: the test above does not only see refusals."""

    def function(value):  # type: ignore[no-untyped-def]
        """Takes it."""

    function.__annotations__ = {"value": leaf}
    invoker = produce_invoker(function)
    arguments = {"value": data.draw(JSON_OF[leaf])}

    assert invoker.check(arguments) == ()
    bound = bind(invoker, arguments)
    assert bound is not None
    if isinstance(leaf, type) and leaf is not Address:
        assert isinstance(bound.arguments["value"], leaf)


def test_a_docstring_becomes_descriptions() -> None:
    """The text tells the model what the invocable is for, the arguments what each is."""

    def weather(place: str, days: int = 3, *, context: InvocationContext) -> str:
        """Tells the weather.

        Only for towns.

        Args:
            place: The town,
                in English.
            days (int): How many.

        Returns:
            A sentence.
        """
        return place

    invoker = produce_invoker(weather)

    assert (
        invoker.description == "Tells the weather.\n\nOnly for towns.\n\nReturns:\n    A sentence."
    )
    assert invoker.schema == {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "The town, in English."},
            "days": {"type": "integer", "default": 3, "description": "How many."},
        },
        "required": ["place"],
        "additionalProperties": False,
    }


def test_values_arrive_as_what_is_annotated() -> None:
    """The function gets objects of its types, not the dictionaries of the model."""

    def function(
        point: Point,
        when: datetime.date,
        unit: Unit,
        ticket: Ticket,
        kinds: frozenset[str],
        tree: Tree | None = None,
    ) -> None:
        """Takes them."""

    bound = produce_invoker(function).bind(
        {
            "point": {"x": 1},
            "when": "2026-01-31",
            "unit": "kelvin",
            "ticket": {"id": 7},
            "kinds": ["a"],
            "tree": {"name": "root", "children": [{"name": "leaf"}]},
        },
        InvocationContext(),
    )

    assert bound.named == {
        "point": Point(1.0),
        "when": datetime.date(2026, 1, 31),
        "unit": Unit.KELVIN,
        "ticket": Ticket(id=7),
        "kinds": frozenset({"a"}),
        "tree": Tree("root", (Tree("leaf"),)),
    }


class Branch(BaseModel):
    """A class of pydantic's that holds itself in a list."""

    name: str
    children: list[Branch] = []


class Link(BaseModel):
    """One that holds itself, or nothing."""

    name: str
    next: Link | None = None


class Shelf(BaseModel):
    """One that holds itself by names."""

    name: str
    shelves: dict[str, Shelf] = {}


class Hen(BaseModel):
    """One that holds another, which holds it."""

    name: str
    egg: Egg | None = None


class Egg(BaseModel):
    """The other."""

    hen: Hen | None = None


@pytest.mark.parametrize(
    ("kind", "fitting", "misfit"),
    [
        (Branch, {"name": "a", "children": [{"name": "b"}]}, {"name": "a", "children": [{}]}),
        (Link, {"name": "a", "next": {"name": "b"}}, {"name": "a", "next": {"name": 1}}),
        (Shelf, {"name": "a", "shelves": {"b": {"name": "c"}}}, {"name": "a", "shelves": {"b": 1}}),
        (Hen, {"name": "a", "egg": {"hen": {"name": "b"}}}, {"name": "a", "egg": {"hen": {}}}),
        (Egg, {"hen": {"name": "a", "egg": {}}}, {"hen": {"name": "a", "egg": 1}}),
    ],
)
def test_a_class_of_pydantics_may_hold_itself(kind: Any, fitting: Any, misfit: Any) -> None:
    """Its own schema begins with a reference; as an argument, in a list, twice and as an answer."""

    def function(one, many, other):  # type: ignore[no-untyped-def]
        """Takes them."""

    function.__annotations__ = {"one": kind, "many": list[kind], "other": Hen | None}
    invoker = produce_invoker(function)
    Draft202012Validator.check_schema(invoker.schema)
    arguments = {"one": fitting, "many": [fitting], "other": None}
    made = kind.model_validate(fitting)

    assert invoker.check(arguments) == ()
    assert invoker.bind(arguments, InvocationContext()).named == {
        "one": made,
        "many": [made],
        "other": None,
    }
    assert invoker.check({**arguments, "one": misfit}) != ()
    assert Parser(kind).kind.schema["type"] == "object"
    assert Parser(kind).kind.make(fitting) == made
    assert Parser(kind).kind.is_valid(misfit) is False
    assert Parser(list[kind]).kind.make({"value": [fitting]}) == [made]


def test_what_has_arrived_of_a_class_that_holds_itself_is_partial_all_the_way_down() -> None:
    """As of any other class."""
    partial = Parser(Branch).kind.view_partial({"name": "a", "children": [{"name": "b"}]})

    assert partial.children[0].name == "b"
    assert partial.children[0].children is ABSENT


def test_classes_of_one_name_stay_apart() -> None:
    """Each refers to its own, also where only what they hold differs."""

    def compose(holder: str, **fields: Any) -> Any:
        item = create_model("Item", **fields)
        line = create_model("Line", items=(list[item], ...))  # type: ignore[valid-type]
        return create_model(holder, line=(line, ...))

    def function(order, parcel, again, tree):  # type: ignore[no-untyped-def]
        """Takes them."""

    order_type = compose("Order", price=(int, ...))
    function.__annotations__ = {
        "order": order_type,
        "parcel": compose("Parcel", weight=(str, ...)),
        "again": order_type,
        "tree": Tree,
    }
    invoker = produce_invoker(function)
    order = {"line": {"items": [{"price": 1}]}}
    parcel = {"line": {"items": [{"weight": "1 kg"}]}}
    arguments = {"order": order, "parcel": parcel, "again": order, "tree": {"name": "oak"}}

    assert invoker.check(arguments) == ()
    assert invoker.check({**arguments, "order": parcel}) != ()
    assert invoker.check({**arguments, "parcel": order}) != ()
    assert sorted(invoker.schema["$defs"]) == ["Item", "Item2", "Line", "Line2", "Tree"]


def test_what_only_python_knows_is_a_misfit_with_its_place() -> None:
    """A date that does not exist fits the schema; the model still learns where it is wrong."""

    def function(days: list[datetime.date]) -> None:
        """Takes them."""

    with pytest.raises(Misfit, match=r"arguments\.days\[1\]: must be a date"):
        produce_invoker(function).bind({"days": ["2026-01-31", "2026-02-31"]}, InvocationContext())


def test_the_context_is_ours() -> None:
    """A parameter for the context gets it, and the model does not hear of it."""

    def function(context: InvocationContext, word: str) -> None:
        """Takes it."""

    context = InvocationContext(invocation_id="i")
    invoker = produce_invoker(function)

    assert list(invoker.schema["properties"]) == ["word"]
    assert invoker.bind({"word": "a"}, context).named == {"context": context, "word": "a"}


def test_a_given_schema_wins() -> None:
    """With a schema, arguments are handed on as they are."""

    def function(value: Any) -> None:
        """Takes it."""

    schema = {"type": "object", "properties": {"value": {"type": "string", "pattern": "^a"}}}
    invoker = produce_invoker(function, schema=schema)

    assert invoker.schema == schema
    assert invoker.bind({"value": "abc"}, InvocationContext()).named == {"value": "abc"}
    assert "must match the pattern" in str(invoker.check({"value": "b"})[0])


def test_a_given_schema_needs_no_annotations() -> None:
    """Whoever says what the arguments are need not say it twice; none is lost in silence."""
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    invoker = produce_invoker(unannotated, schema=schema)

    assert invoker.bind({"word": "a"}, InvocationContext()).named == {"word": "a"}
    with pytest.raises(Misfit, match=r"arguments\.other: is not known"):
        invoker.bind({"word": "a", "other": "b"}, InvocationContext())


def test_partials_methods_and_objects_can_be_invoked() -> None:
    """Whatever can be called and says what it takes is good enough."""

    class Service:
        """Not this."""

        def ask(self, word: str) -> str:
            """Asks."""
            return word

        def __call__(self, word: str) -> str:
            """Calls."""
            return word

    def add(left: int, right: int) -> int:
        """Adds."""
        return left + right

    assert produce_invoker(Service().ask).description == "Asks."
    assert produce_invoker(Service(), name="service").description == "Calls."
    partial = produce_invoker(functools.partial(add, 1), name="increment")
    assert (partial.description, list(partial.schema["properties"])) == ("Adds.", ["right"])


def undescribed(word: str) -> str:
    return word


def unannotated(word) -> str:  # type: ignore[no-untyped-def]
    """Takes anything, and does not say so."""
    return str(word)


def variadic(*words: str) -> str:
    """Takes several."""
    return " ".join(words)


def impossible(value: dict[int, str]) -> str:
    """Takes what JSON cannot say."""
    return str(value)


def complicated(value: complex) -> str:
    """Takes what JSON cannot say."""
    return str(value)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (undescribed, r"no description.*docstring"),
        (unannotated, r"word has no annotation.*Any"),
        (variadic, r"\*words.*list"),
        (impossible, r"impossible\.value.*no counterpart"),
        (complicated, r"complicated\.value.*complex"),
    ],
)
def test_what_cannot_be_an_invocable_is_refused_with_a_remedy(function: Any, words: str) -> None:
    """A mistake shows when the invoker is made, and says what to do."""
    with pytest.raises(RequestError, match=words):
        produce_invoker(function)


def test_a_decorated_function_is_examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the decorator, where mistakes are told; a function that wraps it has its own form."""
    examined: list[Any] = []
    derive = schemas.derive_form

    def note(function: Any, *, name: str = "") -> Any:
        examined.append(function)
        return derive(function, name=name)

    monkeypatch.setattr(schemas, "derive_form", note)

    @invocable
    def look(at: str) -> str:
        """Look at a place."""
        return at

    @functools.wraps(look)
    def wrapper(at: str) -> str:
        return look(at)

    wrapper.__doc__ = "Look twice."
    first, second = produce_invoker(look), produce_invoker(look)

    assert examined == [look]
    assert first.schema == second.schema
    assert produce_invoker(wrapper).description == "Look twice."
    assert produce_invoker(look, name="see").name == "see"
    assert produce_invoker(look).description == "Look at a place."
