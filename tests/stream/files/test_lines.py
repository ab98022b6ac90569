from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frazil.core.errors import BadRecord
from frazil.stream.files import lines as lines_module
from frazil.stream.files.arrays import elements
from frazil.stream.files.lines import Numbered, csv_records, lines

cuts = st.lists(st.integers(0, 80), max_size=6)


def pieces(data: bytes, at: list[int]) -> Iterator[bytes]:
    """The data in chunks, empty ones among them."""
    bounds = [0, *sorted(each for each in at if each <= len(data)), len(data)]
    return (data[start:end] for start, end in pairwise(bounds))


def collected(found: Iterable[Numbered]) -> list[tuple[int, bytes]]:
    return [
        pair for values, numbers in found for pair in zip(numbers.tolist(), values.to_pylist(), strict=True)
    ]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"", b"a", b"{}", b'"\\n"', "ü".encode()]), max_size=12), st.booleans(), cuts
)
def test_lines(records: list[bytes], crlf: bool, at: list[int]) -> None:
    for end in (b"", b"\r\n" if crlf else b"\n"):
        data = (b"\r\n" if crlf else b"\n").join(records) + end
        expected = [(number, record) for number, record in enumerate(records) if record]
        assert collected(lines("f", pieces(data, at))) == expected


fields = st.text(st.sampled_from('a,"\n ü'), max_size=6)


@settings(deadline=None)
@given(st.lists(st.lists(fields, min_size=1, max_size=3), max_size=6), st.sampled_from(["\n", "\r\n"]), cuts)
@example([["a\nb", 'c"'], ["d"]], "\n", [3])
def test_csv_records(rows: list[list[str]], end: str, at: list[int]) -> None:
    """What Python's writer wrote is cut where it ended each row."""
    written = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, lineterminator=end).writerow(row)
        written.append(text.getvalue())
    expected = [(n, text.removesuffix(end).encode()) for n, text in enumerate(written)]
    assert collected(csv_records("f", pieces("".join(written).encode(), at), ",", '"')) == expected


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ('5" disk,1\n6" disk,2\n', ['5" disk,1', '6" disk,2']),
        ('a,5"\nb,"x\ny"\n', ['a,5"', 'b,"x\ny"']),
        ('"a"\n"b\n', ['"a"', '"b']),
        ("a\n\n\nb", ["a", "b"]),
        ('"a""\n",1\r\nb', ['"a""\n",1', "b"]),
    ],
)
def test_csv_that_is_odd(text: str, records: list[str]) -> None:
    found = collected(csv_records("f", [text.encode()], ",", '"'))
    assert [record.decode() for _, record in found] == records


def test_csv_without_quotes() -> None:
    assert collected(csv_records("f", [b'"a\nb"\n'], "\t", "")) == [(0, b'"a'), (1, b'b"')]


documents = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('a\\"{}[],ü\n'), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", '}"']), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(documents, max_size=6), st.sampled_from([None, 2]), st.sampled_from(["", "\n", " \n"]), cuts)
def test_elements_of_an_array(found: list[object], indent: int | None, around: str, at: list[int]) -> None:
    text = around + json.dumps(found, indent=indent) + around
    read = collected(elements("f", pieces(text.encode(), at)))
    assert [json.loads(element) for _, element in read] == found
    assert [number for number, _ in read] == list(range(len(found)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1, 2", "ends before the array does"),
        ('[{"a": 1}, {"a"', "ends before the array does"),
        ("[1] [2]", "behind the end"),
        ("[1]\n{}", "behind the end"),
        ("[1}, 2]", "closed that was not opened"),
        ("[1,,2]", "two commas"),
        ("[", "ends before"),
    ],
)
def test_arrays_that_are_broken(text: str, reason: str) -> None:
    with pytest.raises(BadRecord, match=rf"the file f begins as a JSON array, but .*{reason}"):
        collected(elements("f", [text.encode()]))
    with pytest.raises(BadRecord, match=reason):
        collected(elements("f", [bytes([each]) for each in text.encode()]))


@pytest.mark.parametrize(
    "read",
    [
        lines,
        lambda path, chunks: csv_records(path, chunks, ",", '"'),
        lambda path, chunks: csv_records(path, _quoted(chunks), ",", '"'),
        lambda path, chunks: elements(path, _opened(chunks)),
    ],
    ids=["lines", "csv", "quoted", "array"],
)
def test_records_without_an_end(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str, Iterable[bytes]], Iterator[Numbered]]
) -> None:
    monkeypatch.setattr(lines_module, "LARGEST_RECORD", 1000)
    with pytest.raises(BadRecord, match=r"the file big has a .* of more than"):
        collected(read("big", (b"x" * 100 for _ in range(100))))


def _quoted(chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield b'"'
    for chunk in chunks:
        yield chunk + b"\n"


def _opened(chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield b'["'
    yield from chunks


def test_many_lines_at_once() -> None:
    values, numbers = next(lines("f", [b"12345\n" * 100_000]))
    assert len(values) == 100_000
    assert np.array_equal(numbers, np.arange(100_000))
    assert set(values.to_pylist()) == {b"12345"}
