"""Random schemas, records that fit them more or less, and bytes with something wrong."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from random import Random

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type

_PRIMITIVES = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "string",
    "uuid",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "binary",
    "fixed[3]",
    "fixed[16]",
    "decimal(4, 2)",
    "decimal(18, 0)",
    "decimal(38, 10)",
    "decimal(38, 38)",
]
_NAMES = [
    "id",
    "k",
    "timestamp",
    "a_long_column_name",
    "é",
    "x y",
    'quo"te',
    "back\\slash",
    "tab\t",
    "",
    "ID",
]
_TEXTS = [
    "",
    "paid",
    "a\tb",
    'say "hi"',
    "é",
    "日本語のテキスト",
    "😀",
    "\x00",
    "x" * 40,
    "back\\slash",
    "/",
    "\x7f",
]
#: Some differ from columns by case alone, or by dots.
_UNKNOWN = ["other", "other", "", "unknown\u00e9", "new", "Id", "K", "TIMESTAMP", "id.k", "x\x01", "_pos"]
_PIECES = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"0",
    b"-",
    b"e",
    b".",
    b"null",
    b"true",
    b"\\u",
    b"\\ud83d",
    b"\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc0\xaf",
    b"\x00",
    b"\x1f",
    b" ",
    b"\n",
    b"1e999",
    b"NaN",
    b'""',
]
_NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "00",
    "1.",
    ".5",
    "1e5",
    "1E+2",
    "1e-2",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1e400",
    "1e-400",
    "0e999999999999",
    "123456789012345678901234567890",
    "0.1",
    "99.99",
    "100.00",
    "1.005",
    "3.4028235e38",
    "3.4028236e38",
    "1.50",
    "1e99999999999",
    "253402300799999",
    "253402300800000",
    "-62135596800000",
    "1700000000.123456",
    "1700000000000.1234",
    "-",
    "+1",
    "0x1",
]


def schema(rng: Random) -> Schema:
    return Schema(_fields(rng, 0)).with_fresh_ids()


def record(rng: Random, columns: Schema, timestamps: str) -> bytes:
    """A record for these columns; now and then one that does not fit."""
    text = _space(rng) + _object(rng, StructType(columns.fields), timestamps) + _space(rng)
    return text.encode()


def mutated(rng: Random, value: bytes) -> bytes:
    """With a byte or a piece of JSON changed, added, taken out, or the end cut off."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(value))
        piece = rng.choice([rng.choice(_PIECES), bytes([rng.randrange(256)]), b""])
        value = value[:at] + piece + value[at + rng.choice([0, 0, 1, 1, 2, len(value)]) :]
    return value


def _fields(rng: Random, depth: int) -> tuple[Field, ...]:
    names = rng.sample(_NAMES, rng.randint(1, 6))
    return tuple(Field(name, _type(rng, depth), rng.random() < 0.3) for name in names)


def _type(rng: Random, depth: int) -> Type:
    if depth < 3 and rng.random() < 0.35:
        return rng.choice([_list, _map, _struct])(rng, depth + 1)
    return rng.choice(_PRIMITIVES)


def _list(rng: Random, depth: int) -> Type:
    return ListType(_type(rng, depth), rng.random() < 0.3)


def _map(rng: Random, depth: int) -> Type:
    return MapType("string", _type(rng, depth), rng.random() < 0.3)


def _struct(rng: Random, depth: int) -> Type:
    return StructType(_fields(rng, depth))


def _space(rng: Random) -> str:
    return rng.choice(["", "", "", " ", "\n\t\r "])


def _string(rng: Random, text: str) -> str:
    return json.dumps(text, ensure_ascii=rng.random() < 0.5)


def _anything(rng: Random, depth: int = 0) -> str:
    if depth < 3 and rng.random() < 0.3:
        items = [_anything(rng, depth + 1) for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.5:
            return f"[{','.join(items)}]"
        return "{" + ",".join(f"{_string(rng, rng.choice(_TEXTS))}:{item}" for item in items) + "}"
    plain = ["null", "true", "false", "1", "-2.5e3", '"text"', _string(rng, rng.choice(_TEXTS))]
    return rng.choice([*plain, rng.choice(_NUMBERS), '"' + rng.choice(_NUMBERS) + '"'])


def _object(rng: Random, kind: StructType, timestamps: str) -> str:
    members = []
    for field in kind.fields:
        if field.required or rng.random() < 0.85:
            value = _value(rng, field.type, field.required, timestamps)
            members.append((field.name, value))
    if rng.random() < 0.3:
        members.append((rng.choice(_UNKNOWN), _anything(rng)))
    if rng.random() < 0.02:
        members.append(rng.choice(members or [("x", "1")]))
    if rng.random() < 0.3:
        rng.shuffle(members)
    inner = ",".join(
        f"{_space(rng)}{_string(rng, name)}{_space(rng)}:{_space(rng)}{value}{_space(rng)}"
        for name, value in members
    )
    return f"{{{inner}}}"


def _value(rng: Random, kind: Type, required: bool, timestamps: str) -> str:
    odds = rng.random()
    if odds < 0.01:
        return _anything(rng)
    if odds < (0.015 if required else 0.1):
        return "null"
    if isinstance(kind, StructType):
        return _object(rng, kind, timestamps)
    if isinstance(kind, ListType):
        items = [_value(rng, kind.element, kind.element_required, timestamps) for _ in range(_count(rng))]
        return f"[{_space(rng)}{','.join(items)}]"
    if isinstance(kind, MapType):
        keys = rng.sample(_TEXTS + [str(n) for n in range(40)], _count(rng))
        items = [
            f"{_string(rng, key)}:{_value(rng, kind.value, kind.value_required, timestamps)}" for key in keys
        ]
        return "{" + ",".join(items) + "}"
    return _primitive(rng, kind, timestamps)


def _count(rng: Random) -> int:
    return rng.choice([0, 1, 2, 3, 3, 12])


def _primitive(rng: Random, kind: str, timestamps: str) -> str:
    if kind in ("timestamp", "timestamptz") and timestamps != "iso":
        unit = {"s": 1, "ms": 1000, "us": 1_000_000}[timestamps]
        return str(rng.randint(-(10**9), 2 * 10**9) * unit) + rng.choice(["", "", ".5", ".000", "e0"])
    if kind.startswith("decimal"):
        scale = int(kind.split(",")[1][:-1])
        digits = rng.randint(0, 10 ** rng.randint(0, 4))
        number = rng.choice([str(digits), f"{digits}e-{min(scale, 2)}", f"{digits}e-{scale}", f"-{digits}.0"])
        return rng.choice([number, f'"{number}"'])
    if kind.startswith("fixed"):
        return f'"{base64.b64encode(rng.randbytes(int(kind[6:-1]))).decode()}"'
    return _MAKERS[kind](rng)


def _date(rng: Random) -> str:
    year = rng.choice([1, 1582, 1900, 1970, 2000, 2024, 9999])
    return f"{year:04}-{rng.randint(1, 12):02}-{rng.choice([*range(1, 29), 29, 31]):02}"


def _clock(rng: Random) -> str:
    start = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
    seconds = f":{rng.randint(0, 59):02}"
    micros = f"{seconds}.{rng.randrange(10**6):06}"
    ends = ["", seconds, f"{seconds}.5", micros, f"{micros}000", f"{seconds}.123456789"]
    return start + rng.choices(ends, [4, 4, 4, 4, 4, 1])[0]


def _zone(rng: Random) -> str:
    return rng.choices(["Z", "+01:00", "-0330", "+05", "-00:00", "+24:00"], [9, 2, 2, 2, 2, 1])[0]


def _real(rng: Random) -> str:
    return rng.choice(
        [repr(rng.gauss(0, 1e3)), f"{rng.randint(-999, 999)}.{rng.randint(0, 99)}", "1e300", "5e-324"]
    )


_MAKERS: dict[str, Callable[[Random], str]] = {
    "boolean": lambda rng: rng.choice(["true", "false"]),
    "int": lambda rng: str(rng.randint(-(2**31), 2**31 - 1) >> rng.randint(0, 31)),
    "long": lambda rng: str(rng.randint(-(2**63), 2**63 - 1) >> rng.randint(0, 63)),
    "float": lambda rng: rng.choice([_real(rng), "1e38", "16777217"]).replace("1e300", "1e30"),
    "double": _real,
    "string": lambda rng: _string(rng, rng.choice(_TEXTS) + rng.choice(_TEXTS)),
    "uuid": lambda rng: f'"{uuid.UUID(bytes=rng.randbytes(16))}"',
    "date": lambda rng: f'"{_date(rng)}"',
    "time": lambda rng: f'"{_clock(rng)}"',
    "timestamp": lambda rng: f'"{_date(rng)}T{_clock(rng)}"',
    "timestamptz": lambda rng: f'"{_date(rng)} {_clock(rng)}{_zone(rng)}"',
    "binary": lambda rng: f'"{base64.b64encode(rng.randbytes(rng.randint(0, 9))).decode()}"',
}
