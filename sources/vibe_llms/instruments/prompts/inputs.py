"""Input values of a prompt: the required ones, and their schema."""

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
        known: Variables of the template or the schema.
        required: Those of them that must be given.
        defaults: Default values.
        schema: The JSON Schema of the values, if there is one.
        gaps: Variables that the template uses and the schema does not describe, in words.
    """

    name: str
    known: frozenset[str]
    required: frozenset[str]
    defaults: Mapping[str, Any]
    schema: JsonObject | None = None
    gaps: tuple[str, ...] = ()
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
        described = _derive_schema(schema, name) if isinstance(schema, type) else schema
        validator = produce_validator(described)
        properties: Any = described.get("properties", {})
        gaps = variables - properties.keys() if not described.get("additionalProperties") else ()
        return cls(
            name=name,
            known=variables | properties.keys(),
            required=required,
            defaults={
                key: each["default"]
                for key, each in properties.items()
                if isinstance(each, Mapping) and "default" in each
            },
            gaps=tuple(
                f"The template uses {each!r}, which the schema does not describe"
                f"{_suggest(each, properties)}."
                for each in sorted(gaps)
            ),
            schema=described,
            validator=validator,
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
                remedy=self._describe(),
                stage=Stage.EXECUTE,
            )
        return complete

    def _describe(self) -> str:
        if not self.known:
            return "It has no variables."
        needed = self.required - self.defaults.keys()
        words = (name if name in needed else f"{name} (optional)" for name in sorted(self.known))
        return f"Its variables: {', '.join(words)}."


def _suggest(word: str, known: Any) -> str:
    nearest = find_nearest(word, known)
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
