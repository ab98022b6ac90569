from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.core.stamp import Mirror, Position, Stamp, check_pipeline_name, config_hash

OFFSETS = st.integers(0, 2**63 - 1)
STAMPS = st.builds(
    Stamp,
    pipeline=st.just("orders"),
    epoch=st.integers(1, 10**6),
    round=st.integers(0, 10**9),
    token=st.uuids().map(lambda value: value.hex),
    source=st.just("kafka:abc"),
    positions=st.dictionaries(
        st.text(min_size=1, max_size=9),
        st.builds(Position, id=st.text(max_size=9), next=st.lists(OFFSETS, max_size=5).map(tuple)),
        max_size=3,
    ),
    read=OFFSETS,
    written=OFFSETS,
    watermark=st.none() | st.integers(-(2**62), 2**62),
)


@given(STAMPS, OFFSETS)
def test_stamps_are_read_back(stamp: Stamp, snapshot: int) -> None:
    assert Stamp.decode(stamp.encode()) == stamp
    assert '"v":1' in stamp.encode()
    assert Mirror.decode(Mirror(snapshot, stamp).encode()) == Mirror(snapshot, stamp)


def test_a_stamp_of_a_newer_frazil_is_refused_not_guessed() -> None:
    with pytest.raises(InvalidInput, match=r"version 2.*upgrade frazil"):
        Stamp.decode('{"v": 2, "somewhere": "else"}')


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v": 1}', '{"v": 1, "pipeline": 3}'])
def test_a_damaged_stamp_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="damaged stamp"):
        Stamp.decode(text)


@pytest.mark.parametrize("name", ["orders", "a", "a-b_c", "0"])
def test_names_of_pipelines(name: str) -> None:
    assert check_pipeline_name(name) == name


@pytest.mark.parametrize("name", ["", "Orders", "a b", "-a", "a-", "a.b", "a/b", "x" * 64, "ö"])
def test_names_that_would_not_fit_a_tag_or_a_file_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="cannot name a pipeline"):
        check_pipeline_name(name)


def test_the_hash_depends_on_content_not_on_order() -> None:
    assert config_hash({"a": 1, "b": [2]}) == config_hash({"b": [2], "a": 1})
    assert config_hash({"a": 1}) != config_hash({"a": 2})
