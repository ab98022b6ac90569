"""The native Protobuf decoder; see `frazil.stream.decode.protobuf_native` for what goes in and out."""

from typing import Any

from typing_extensions import Buffer

from frazil.stream.decode.columns import Column, Plan

def columns(description: Plan, /) -> object: ...
def program(columns: object, entries: tuple[Any, ...], /) -> object: ...
def decode(
    columns: object,
    programs: tuple[tuple[bytes, object], ...],
    discard: bool,
    data: Buffer,
    offsets: Buffer,
    validity: Buffer | None,
    offset: int,
    length: int,
    /,
) -> tuple[Column, list[int]]: ...
