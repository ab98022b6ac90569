"""The native decoder: plans as its programs. No import where it was not built."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.stream import _avro
from frazil.stream.decode.avro_plan import Plan, Step
from frazil.stream.decode.columns import batch_of, input_of, plan_of


class NativeReader:
    """Decodes in one pass over the bytes, whatever schemas the records of a batch have."""

    def __init__(self, schema: Schema) -> None:
        self._type = pa.struct(list(schema.to_arrow()))
        self._layout = _avro.layout(plan_of(schema))
        self._programs: WeakKeyDictionary[Step, object] = WeakKeyDictionary()

    def ids(self, values: pa.BinaryArray) -> list[int]:
        """Of the schemas that the headers name, each once."""
        return _avro.ids(*input_of(values))

    def read(
        self, values: pa.BinaryArray, plans: dict[int, Plan], *, header: bool
    ) -> tuple[pa.RecordBatch, list[int]]:
        """The good records in their order, and the places of the bad ones."""
        programs = tuple((number, self._program(plan.root)) for number, plan in plans.items())
        columns, bad = _avro.decode(self._layout, programs, header, *input_of(values))
        return batch_of(self._type, columns), bad

    def _program(self, root: Step) -> object:
        found = self._programs.get(root)
        if found is None:
            found = self._programs[root] = _avro.program(self._layout, _numbered(root))
        return found


def _numbered(root: Step) -> list[Any]:
    """Steps by number, the root first; they may lead in circles."""
    numbers = {root: 0}
    steps = [root]
    for step in steps:
        for child in (*step.children, *([step.skip] if step.skip else ())):
            if child not in numbers:
                numbers[child] = len(steps)
                steps.append(child)
    return [
        (
            int(step.op),
            step.column.index if step.column else -1,
            step.number,
            int(step.discards),
            numbers[step.skip] if step.skip else -1,
            tuple(numbers[child] for child in step.children),
            tuple(symbol.encode() for symbol in step.symbols),
        )
        for step in steps
    ]
