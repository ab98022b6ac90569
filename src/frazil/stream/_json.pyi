"""The native JSON decoder; see `frazil.stream.decode.json_native` for what goes in and out."""

from typing import TypeAlias

from typing_extensions import Buffer

_Plan: TypeAlias = tuple[int, int, int, int, int, tuple["_Plan", ...]]
_Names: TypeAlias = tuple[bytes, tuple["_Names", ...]]
#: Length, then validity, fixed-width values, offsets and bytes as far as there are any, then the children.
_Column: TypeAlias = tuple[
    int, Buffer | None, Buffer | None, Buffer | None, Buffer | None, tuple["_Column", ...]
]

def plan(columns: _Plan, names: _Names, /) -> object: ...
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
