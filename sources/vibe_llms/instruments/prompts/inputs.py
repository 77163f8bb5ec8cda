"""Input values of a prompt: their names, defaults and schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.suggestions import find_nearest
from vibe_llms.invocables.validation import Validator, produce_validator


@frozen(kw_only=True)
class Inputs:
    """Inputs of a prompt.

    Attributes:
        name: The prompt's name.
        known: Names of the variables of the template and the schema.
        required: Names of the variables that the template needs.
        defaults: Default values.
        schema: The JSON Schema of the values, if there is one.
        undescribed: Messages about variables that the template uses and the schema does not
            describe.
    """

    name: str
    known: frozenset[str]
    required: frozenset[str]
    defaults: Mapping[str, Any]
    schema: JsonObject | None = None
    undescribed: tuple[str, ...] = ()
    _validator: Validator | None = None

    @classmethod
    def produce(
        cls,
        name: str,
        variables: frozenset[str],
        required: frozenset[str],
        schema: JsonObject | type | None,
    ) -> Self:
        """Create the inputs of a prompt.

        Raises:
            RequestError: The schema is invalid, or its class has no counterpart in JSON.
        """
        if schema is None:
            return cls(name=name, known=variables, required=required, defaults={})
        json_schema = _derive_schema(schema, name) if isinstance(schema, type) else schema
        properties: Any = json_schema.get("properties", {})
        allows_others = json_schema.get("additionalProperties")
        undescribed = () if allows_others else variables - properties.keys()
        return cls(
            name=name,
            known=variables | properties.keys(),
            required=required,
            defaults={
                key: each["default"]
                for key, each in properties.items()
                if isinstance(each, Mapping) and "default" in each
            },
            undescribed=tuple(
                f"The template uses {each!r}, which the schema does not describe"
                f"{_suggest(each, properties)}."
                for each in sorted(undescribed)
            ),
            schema=json_schema,
            validator=produce_validator(json_schema),
        )

    def check(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values, completed with the defaults.

        Raises:
            RequestError: With all faults.
        """
        complete = {**self.defaults, **values}
        missing = sorted(self.required - complete.keys())
        unknown = sorted(complete.keys() - self.known)
        problems = [f"{name!r} is missing" for name in missing]
        problems += [f"unknown variable {name!r}{_suggest(name, self.known)}" for name in unknown]
        for fault in self._validator.check(complete) if self._validator else ():
            path = fault.path.removeprefix("arguments").removeprefix(".")
            if path not in (*missing, *unknown):
                problems.append(f"{path or 'the values'}: {fault.rule}")
        if problems:
            raise RequestError(
                path=self.name,
                detail=f"Cannot render the prompt {self.name!r}: {'; '.join(problems)}.",
                remedy=self._describe_variables(),
                stage=Stage.EXECUTE,
            )
        return complete

    def _describe_variables(self) -> str:
        if not self.known:
            return "It has no variables."
        needed = self.required - self.defaults.keys()
        names = (name if name in needed else f"{name} (optional)" for name in sorted(self.known))
        return f"Its variables: {', '.join(names)}."


def _suggest(name: str, known: Any) -> str:
    nearest = find_nearest(name, known)
    return f" (did you mean {nearest!r}?)" if nearest else ""


def _derive_schema(kind: Any, name: str) -> JsonObject:
    from vibe_llms.invocables.members import is_pydantic
    from vibe_llms.invocables.schema_derivation import Deriver

    if is_pydantic(kind):
        schema: JsonObject = kind.model_json_schema()
        return schema
    deriver = Deriver()
    shape = deriver.derive(kind, name)
    definitions: JsonObject = {"$defs": deriver.definitions} if deriver.definitions else {}
    return {**shape.schema, **definitions}
