"""The grammar of RFC 8259, over fields that the schema does not have: they are left out, but not unseen."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.stream.decode.conftest import Make

from frazil.core.schema import Field, Schema
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.decoded import Undecodable

_SCHEMA = Schema((Field("id", "long"),))

GOOD_VALUES = [
    b"null",
    b"true",
    b"false",
    b"0",
    b"-0",
    b"123",
    b"-1",
    b"1.5",
    b"0.000",
    b"1e5",
    b"1E5",
    b"1e+5",
    b"1e-05",
    b"0e0",
    b"123456789012345678901234567890.123456789e-1234567890",
    b'""',
    b'"a"',
    rb'"\"\\\/\b\f\n\r\t"',
    rb'"\u0000\uFFFF\uabCD"',
    rb'"\uD801\udc37"',
    b'"\x7f"',
    '"é€😀"'.encode(),
    b'"\xf4\x8f\xbf\xbf"',
    b'"\xef\xbb\xbf"',
    b'"\xe2\x80\xa8"',
    b"[]",
    b"[ ]",
    b"[1]",
    b"[1, 2 ,3]",
    b"[[],[[]]]",
    b'[null, 1, "1", {}]',
    b"{}",
    b'{ "a" : 1 }',
    b'{"a":1,"a":2}',
    b'{"":0}',
    b'{"a":{"b":{"c":[]}}}',
    b'{"a\\u0062":[{}]}',
    b"\t\r\n 1 \n",
    b'"' + b"x" * 1000 + b'"',
    b"[" + b"1," * 999 + b"1]",
]

BAD_VALUES = [
    b"",
    b"nul",
    b"nulL",
    b"True",
    b"truee",
    b"undefined",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"inf",
    b"00",
    b"01",
    b"-01",
    b"-",
    b"+1",
    b"1.",
    b".1",
    b"-.5",
    b"1.e5",
    b"1e",
    b"1e+",
    b"1eE2",
    b"1e1.5",
    b"0x1F",
    b"1_000",
    b"1 2",
    b"0b1",
    b"\xd9\xa1",
    b'"',
    b'"a',
    b'"\\',
    b'"\\"',
    b"'a'",
    b"a",
    rb'"\a"',
    rb'"\x41"',
    rb'"\0"',
    rb'"\u"',
    rb'"\u12"',
    rb'"\u123g"',
    rb'"\U0041"',
    rb'"\u+123"',
    rb'"\u 123"',
    rb'"\ud800"',
    rb'"\udc00"',
    rb'"\ud800\n"',
    rb'"\udc00\udc00"',
    rb'"\ud800\ud800"',
    rb'"\ud800\u"',
    rb'"\ud800\udc0"',
    b'"\n"',
    b'"\t"',
    b'"\x00"',
    b'"\x1f"',
    b'"\x80"',
    b'"\xc3"',
    b'"\xc0\xaf"',
    b'"\xc1\xbf"',
    b'"\xe0\x80\xaf"',
    b'"\xe0\x9f\xbf"',
    b'"\xed\xa0\x80"',
    b'"\xed\xbf\xbf"',
    b'"\xe2\x82"',
    b'"\xf0\x80\x80\xaf"',
    b'"\xf0\x8f\xbf\xbf"',
    b'"\xf4\x90\x80\x80"',
    b'"\xf5\x80\x80\x80"',
    b'"\xff"',
    b'"\xfe"',
    b'"\xe2\x28\xa1"',
    b'"\xf0\x9f\x98"',
    b'"\xf0\x9f\x98x"',
    b"[",
    b"]",
    b"[1",
    b"[1,",
    b"[1,]",
    b"[,]",
    b"[,1]",
    b"[1,,2]",
    b"[1 2]",
    b"[1}",
    b"[1:2]",
    b"[\x0c]",
    b"[\xa0]",
    b"[//\n]",
    b"[/**/]",
    b"{",
    b"}",
    b'{"a"',
    b'{"a"}',
    b'{"a":',
    b'{"a":}',
    b'{"a":1',
    b'{"a":1,',
    b'{"a":1,}',
    b"{,}",
    b'{"a" 1}',
    b"{a:1}",
    b"{1:1}",
    b"{null:1}",
    b'{"a":1 "b":2}',
    b'{"a"::1}',
    b'{"a":1]',
    b'{"a",1}',
    b"{'a':1}",
    b'{"a":1;"b":2}',
    b'{"\\ud800":1}',
    b'{"\xff":1}',
]

BAD_RECORDS = [
    b" ",
    b"\n",
    b"null",
    b"1",
    b'"a"',
    b"[]",
    b"true",
    b"{",
    b"}",
    b"{}{}",
    b"{} {}",
    b"{},",
    b"{}x",
    b"{}\x00",
    b"\x00{}",
    b"\xef\xbb\xbf{}",
    b"\xa0{}",
    b"{}\x0b",
    b'{"id":1}]',
    b"\xff\xfe{\x00}\x00",
    b"{\x00}\x00",
    b"#{}",
    b"// {}\n{}",
    b'{"id":1}\n{"id":2}',
]


def records_around(value: bytes) -> list[bytes]:
    """Alone, before and behind a known field."""
    return [b'{"x":%s}' % value, b'{"x":%s,"id":7}' % value, b'{"id":7,"x" : %s }' % value]


@pytest.mark.parametrize("value", GOOD_VALUES)
def test_well_formed(make: Make, value: bytes) -> None:
    batch = make(_SCHEMA, JsonFormat()).rows(pa.array(records_around(value), pa.binary()))
    assert batch.to_pylist() == [{"id": None}, {"id": 7}, {"id": 7}]


@pytest.mark.parametrize("value", BAD_VALUES)
def test_malformed(make: Make, value: bytes) -> None:
    for record in records_around(value):
        batch, bad = make(_SCHEMA, JsonFormat()).split(pa.array([b"{}", record, b"{}"], pa.binary()))
        assert [one.index for one in bad] == [1], record
        assert len(batch) == 2


@pytest.mark.parametrize("record", BAD_RECORDS)
def test_not_one_object(make: Make, record: bytes) -> None:
    with pytest.raises(Undecodable, match=r"JSON|UTF-8"):
        make(_SCHEMA, JsonFormat()).rows(pa.array([record], pa.binary()))


def test_every_cut_is_bad(make: Make) -> None:
    """Each beginning of a record, with the rest of it right behind in the buffer."""
    whole = (
        rb'{"id":12345678901,"x":[1.5e-3,{"a":"\u00e9\ud83d\ude00\n","b":true}],"y":"%s","z":null}'
        % "é😀".encode()
    )
    decoder = make(_SCHEMA, JsonFormat())
    assert len(decoder.rows(pa.array([whole], pa.binary()))) == 1
    for at in range(1, len(whole)):
        parts = pa.array([whole[:at], whole[at:]], pa.binary())
        batch, bad = decoder.split(parts)
        assert [one.index for one in bad] == [0, 1], whole[:at]
        assert len(batch) == 0


@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth(make: Make, pair: tuple[bytes, bytes]) -> None:
    decoder = make(_SCHEMA, JsonFormat())
    deep, deeper = (b'{"x":' + pair[0] * n + b"1" + pair[1] * n + b"}" for n in (63, 64))
    wide = b'{"x":[' + b"[]," * 500 + b"[]]}"
    assert len(decoder.rows(pa.array([deep, wide], pa.binary()))) == 2
    for record in (deeper, b'{"x":' + pair[0] * 200_000):
        with pytest.raises(Undecodable, match=r"64 deep|not JSON"):
            decoder.rows(pa.array([record], pa.binary()))
