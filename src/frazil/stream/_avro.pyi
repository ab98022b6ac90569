"""The native Avro decoder; see `frazil.stream.decode.avro_native` for what goes in and out."""

from typing import TypeAlias

from typing_extensions import Buffer

_Layout: TypeAlias = tuple[int, int, int, int, int, tuple["_Layout", ...]]
_Step: TypeAlias = tuple[int, int, int, int, int, tuple[int, ...], tuple[bytes, ...]]
#: Length, then validity, fixed-width values, offsets and bytes as far as there are any, then the children.
_Column: TypeAlias = tuple[
    int, Buffer | None, Buffer | None, Buffer | None, Buffer | None, tuple["_Column", ...]
]

def layout(description: _Layout, /) -> object: ...
def program(layout: object, steps: list[_Step], /) -> object: ...
def ids(data: Buffer, offsets: Buffer, validity: Buffer | None, offset: int, length: int, /) -> list[int]: ...
def decode(
    layout: object,
    programs: tuple[tuple[int, object], ...],
    header: bool,
    data: Buffer,
    offsets: Buffer,
    validity: Buffer | None,
    offset: int,
    length: int,
    /,
) -> tuple[_Column, list[int]]: ...
