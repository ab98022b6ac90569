"""Locations in Google's and Azure's spelling."""

from __future__ import annotations

import pytest

from frazil.catalog.storage import ancestors, inside
from frazil.catalog.storage.locations import owned_file
from frazil.core.errors import InvalidInput

GCS = "gs://lake/wh"
ADLS = "abfss://lake@account.dfs.core.windows.net/wh"
OTHER = "wasbs://lake@account.blob.core.windows.net/wh"


@pytest.mark.parametrize(
    ("base", "location", "canonical"),
    [
        (GCS, "gs://lake/wh/t/", "gs://lake/wh/t"),
        ("gs://lake", "gs://lake/a b/ü", "gs://lake/a b/ü"),
        (ADLS, f"{ADLS}/t/", f"{ADLS}/t"),
        (ADLS, f"{ADLS}/x@y/t", f"{ADLS}/x@y/t"),
        ("abfss://lake@account.dfs.core.windows.net", f"{ADLS}/t", f"{ADLS}/t"),
    ],
)
def test_inside_accepts(base: str, location: str, canonical: str) -> None:
    assert inside(base, location) == canonical


@pytest.mark.parametrize(
    ("base", "location"),
    [
        (GCS, "gs://lake/wh"),
        (GCS, "gs://lake/wh2/t"),
        (GCS, "gs://Lake/wh/t"),
        (GCS, "GS://lake/wh/t"),
        (GCS, "gs://lake/wh/../t"),
        (GCS, "gs://lake/wh/%2e%2e/t"),
        (GCS, "gs://user@lake/wh/t"),
        (GCS, "s3://lake/wh/t"),
        (GCS, "https://storage.googleapis.com/lake/wh/t"),
        (ADLS, ADLS),
        (ADLS, f"{ADLS}2/t"),
        (ADLS, f"{ADLS}/a\\..\\..\\t"),
        (ADLS, f"{ADLS}/a%5C..%5Ct"),
        (ADLS, "abfss://Lake@account.dfs.core.windows.net/wh/t"),
        (ADLS, "abfss://lake@Account.dfs.core.windows.net/wh/t"),
        (ADLS, "abfss://lake@account.dfs.core.windows.net:443/wh/t"),
        (ADLS, "abfss://lake@other.dfs.core.windows.net/wh/t"),
        (ADLS, "abfss://other@account.dfs.core.windows.net/wh/t"),
        (ADLS, "abfss://lake@account.blob.core.windows.net/wh/t"),
        (ADLS, "abfss://x@lake@account.dfs.core.windows.net/wh/t"),
        (ADLS, "abfss://lake%40account.dfs.core.windows.net/wh/t"),
        (ADLS, "abfss://lake/wh/t"),
        (ADLS, "wasbs://lake@account.dfs.core.windows.net.blob.evil/wh/t"),
        (ADLS, "https://account.dfs.core.windows.net/lake/wh/t"),
    ],
)
@pytest.mark.parametrize("alternatives", [False, True])
def test_inside_refuses(base: str, location: str, alternatives: bool) -> None:
    with pytest.raises(InvalidInput, match="location"):
        inside(base, location, alternatives=alternatives)


@pytest.mark.parametrize("spelling", [f"{OTHER}/t", f"abfs{ADLS.removeprefix('abfss')}/t"])
def test_other_spellings_need_permission_and_name_the_same_place(spelling: str) -> None:
    with pytest.raises(InvalidInput, match="allow-alternative-protocols"):
        inside(ADLS, spelling)
    assert inside(ADLS, spelling, alternatives=True) == f"{ADLS}/t"


def test_a_bucket_of_google_has_one_spelling() -> None:
    with pytest.raises(InvalidInput, match="wrong scheme"):
        inside(GCS, "gcs://lake/wh/t", alternatives=True)


@pytest.mark.parametrize(
    ("base", "location", "canonical"),
    [
        (GCS, "gs://lake/wh/t/p=a%2Fb/f", "gs://lake/wh/t/p=a%2Fb/f"),
        (GCS, "gs://lake/wh//f", None),
        (GCS, "gs://lake/wh/../x", None),
        (GCS, "gs://lake/whx/f", None),
        (ADLS, f"{ADLS}/t/p=a%2Fb/f", f"{ADLS}/t/p=a%2Fb/f"),
        (ADLS, f"{OTHER}/t/f", f"{ADLS}/t/f"),
        (ADLS, f"abfs{ADLS.removeprefix('abfss')}/f", f"{ADLS}/f"),
        (ADLS, f"{ADLS}/t/..\\..\\x", None),
        (ADLS, "wasbs://lake@other.blob.core.windows.net/wh/f", None),
        (ADLS, "wasbs://lake@account.dfs.core.windows.net/wh/f", f"{ADLS}/f"),
    ],
)
def test_owned_file(base: str, location: str, canonical: str | None) -> None:
    assert owned_file(base, location) == canonical


def test_ancestors() -> None:
    assert ancestors(f"{ADLS}/a/b/c", ADLS) == [f"{ADLS}/a", f"{ADLS}/a/b"]
    assert ancestors("gs://lake/a/b", "gs://lake") == ["gs://lake/a"]
