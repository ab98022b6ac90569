"""The native CSV decoder; see `frazil.stream.decode.csv_native` for what goes in and out."""

from typing_extensions import Buffer

from frazil.stream.decode.columns import Column, Plan

def plan(description: Plan, /) -> object: ...
def decode(
    plan: object,
    fields: tuple[int, ...],
    delimiter: int,
    quote: int,
    null: bytes,
    discard: bool,
    data: Buffer,
    offsets: Buffer,
    validity: Buffer | None,
    offset: int,
    length: int,
    /,
) -> tuple[Column, list[int]]: ...
