"""The native JSON decoder; see `frazil.stream.decode.native` for what goes in and out."""

from typing import TypeAlias

from typing_extensions import Buffer

_Plan: TypeAlias = tuple[int, int, int, int, int, bytes, tuple["_Plan", ...]]
#: Length, then validity, fixed-width values, offsets and bytes as far as there are any, then the children.
_Column: TypeAlias = tuple[
    int, Buffer | None, Buffer | None, Buffer | None, Buffer | None, tuple["_Column", ...]
]

def plan(description: _Plan, /) -> object: ...
def decode(
    plan: object,
    data: Buffer,
    offsets: Buffer,
    validity: Buffer | None,
    offset: int,
    length: int,
    unknown: int,
    lax: bool,
    /,
) -> tuple[_Column, list[int], list[int]]: ...
