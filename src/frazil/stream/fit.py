"""Whether rows of one schema can be written to a table of another, and what is wrong if not."""

from __future__ import annotations

from dataclasses import replace

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type, show_type
from frazil.stream.config.model import PipelineConfig

#: What may be widened without loss, as Iceberg promotes types.
_WIDER = {"int": {"long"}, "float": {"double"}}


def problems(rows: Schema, table: Schema) -> list[str]:
    """What keeps rows from fitting the table, in words; empty if they fit.

    Whether a column may be null is not compared: Spark calls most of what it computes nullable. A null where
    the table wants a value is refused when it is met.
    """
    return _struct_problems(rows.fields, table.fields, "")


def followed(config: PipelineConfig, table: Schema) -> Schema:
    """The columns that values are decoded into: where the contract lets it grow, those of the table."""
    contract = config.contract
    if config.transform is not None or "evolve" not in (contract.columns, contract.types):
        return config.schema
    given = {field.name: field for field in config.schema}
    beside = {field.name for field in config.metadata.fields()}
    fields = [
        replace(given[field.name], type=field.type) if field.name in given else replace(field, required=False)
        for field in table
        if field.name in given or (contract.columns == "evolve" and field.name not in beside)
    ]
    there = {field.name for field in fields}
    return Schema((*fields, *(field for field in config.schema if field.name not in there)))


def _struct_problems(rows: tuple[Field, ...], table: tuple[Field, ...], path: str) -> list[str]:
    there = {field.name: field for field in table}
    given = {field.name for field in rows}
    found = []
    for field in rows:
        name = f"{path}{field.name}"
        if field.name not in there:
            found.append(f"the table has no column '{name}'")
        else:
            found += _type_problems(field.type, there[field.name].type, name)
    found += [
        f"the table requires '{path}{field.name}', which the rows do not have"
        for field in table
        if field.required and field.name not in given
    ]
    return found


def _type_problems(rows: Type, table: Type, name: str) -> list[str]:
    if isinstance(rows, StructType) and isinstance(table, StructType):
        return _struct_problems(rows.fields, table.fields, f"{name}.")
    if isinstance(rows, ListType) and isinstance(table, ListType):
        return _type_problems(rows.element, table.element, f"{name}.element")
    if isinstance(rows, MapType) and isinstance(table, MapType):
        return [
            *_type_problems(rows.key, table.key, f"{name}.key"),
            *_type_problems(rows.value, table.value, f"{name}.value"),
        ]
    if rows == table or (isinstance(rows, str) and isinstance(table, str) and _widens(rows, table)):
        return []
    return [f"'{name}' is {show_type(table)} in the table, {show_type(rows)} in the rows"]


def _widens(rows: str, table: str) -> bool:
    if table in _WIDER.get(rows, ()):
        return True
    if not (rows.startswith("decimal(") and table.startswith("decimal(")):
        # Spark has no type for these two; the writer turns its texts and binaries into them.
        return (rows, table) == ("string", "uuid") or (rows == "binary" and table.startswith("fixed["))
    (precision, scale), (wider, same) = (_decimal(text) for text in (rows, table))
    return scale == same and precision <= wider


def _decimal(text: str) -> tuple[int, int]:
    precision, scale = text[len("decimal(") : -1].split(",")
    return int(precision), int(scale)
