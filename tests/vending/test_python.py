"""PyIceberg, pyarrow, s3fs, boto3 and DuckDB with the keys of one table."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import boto3
import duckdb
import fsspec
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from pyarrow import fs
from pyiceberg.catalog import Catalog, load_catalog
from tests.vending.support import NAMESPACE, READ_ONLY, VENDED, Lake, elsewhere, location, rows

from frazil.client import VendedCredentials

Fresh = Callable[[str], str]
pytestmark = pytest.mark.usefixtures("untouched")
#: pyarrow's word, s3fs's words.
DENIED = r"(?i)access.denied|forbidden"
LARGE = 12 * 1024 * 1024


def catalog(lake: Lake, properties: dict[str, str]) -> Catalog:
    uri = lake.server.catalog_uri
    return load_catalog("vended", type="rest", uri=uri, warehouse=lake.warehouse, **properties)


@pytest.mark.parametrize("io", ["PyArrowFileIO", "FsspecFileIO"])
def test_pyiceberg(lake: Lake, fresh: Fresh, io: str) -> None:
    package = {"PyArrowFileIO": "pyarrow", "FsspecFileIO": "fsspec"}[io]
    how = {"py-io-impl": f"pyiceberg.io.{package}.{io}"}
    name = fresh("t1")
    with catalog(lake, VENDED | how) as full:
        table = full.create_table((NAMESPACE, name), schema=rows().schema, location=location(name))
        table.append(rows(1, 2, 3))
        table.delete("id = 2")
        assert sorted(full.load_table(table.name()).scan().to_arrow()["id"].to_pylist()) == [1, 3]
        for uri in lake.foreign.values():
            with pytest.raises(OSError, match=DENIED):
                table.io.new_input(uri).open().read()
            with pytest.raises(OSError, match=DENIED), table.io.new_output(uri).create(True) as out:
                out.write(b"overwritten")
            # s3fs deletes in bulk and does not read which keys the store refused; `untouched` looks.
            with contextlib.suppress(OSError):
                table.io.delete(uri)
    with catalog(lake, READ_ONLY | how) as reader:
        table = reader.load_table((NAMESPACE, name))
        assert table.scan().to_arrow().num_rows == 2
        with pytest.raises(OSError, match=DENIED):
            table.append(rows(4))
        assert reader.load_table((NAMESPACE, name)).scan().to_arrow().num_rows == 2


def test_pyarrow(lake: Lake, fresh: Fresh) -> None:
    name = fresh("g1")
    keys = lake.generic(name)
    files = keys.to_pyarrow()
    pq.write_table(rows(1, 2), f"{keys.path}/day=1/a.parquet", filesystem=files)
    with files.open_output_stream(f"{keys.path}/large") as out:  # a multipart upload
        out.write(bytes(LARGE))
    files.move(f"{keys.path}/large", f"{keys.path}/moved")
    assert files.get_file_info(f"{keys.path}/moved").size == LARGE
    assert pq.read_table(f"{keys.path}/day=1", filesystem=files).num_rows == 2
    listed = {info.path for info in files.get_file_info(fs.FileSelector(keys.path, recursive=True))}
    assert {f"{keys.path}/day=1/a.parquet", f"{keys.path}/moved"} <= listed
    files.delete_file(f"{keys.path}/moved")
    for uri in lake.foreign.values():
        _pyarrow_is_refused(files, uri.removeprefix("s3://"), f"{keys.path}/stolen")
    reader = lake.client.generic_tables.credentials(NAMESPACE, name, read_only=True).to_pyarrow()
    assert pq.read_table(f"{keys.path}/day=1", filesystem=reader)["id"].to_pylist() == [1, 2]
    _pyarrow_is_refused(reader, f"{keys.path}/day=1/a.parquet", f"{keys.path}/copy", readable=True)


def _pyarrow_is_refused(files: fs.FileSystem, path: str, mine: str, *, readable: bool = False) -> None:
    def write() -> None:
        with files.open_output_stream(path) as out:
            out.write(b"overwritten")

    attempts: list[Callable[[], object]] = [write, lambda: files.delete_file(path)]
    attempts.append(lambda: files.copy_file(path, mine))
    if not readable:
        attempts.append(lambda: files.open_input_file(path).read())
        attempts.append(lambda: files.get_file_info(path))
        attempts.append(lambda: files.get_file_info(fs.FileSelector(path.rpartition("/")[0])))
    for attempt in attempts:
        with pytest.raises(OSError, match=DENIED):
            attempt()


def test_fsspec(lake: Lake, fresh: Fresh) -> None:
    name = fresh("g1")
    keys = lake.generic(name)
    files = fsspec.filesystem("s3", skip_instance_cache=True, **keys.to_fsspec())
    files.pipe_file(f"{keys.path}/a.json", b'{"id": 1}\n')
    assert files.cat_file(f"{keys.path}/a.json") == b'{"id": 1}\n'
    for uri in lake.foreign.values():
        with pytest.raises(PermissionError):
            files.cat_file(uri)
        with pytest.raises(PermissionError):
            files.pipe_file(uri, b"overwritten")
    read_only = lake.client.generic_tables.credentials(NAMESPACE, name, read_only=True)
    reader = fsspec.filesystem("s3", skip_instance_cache=True, **read_only.to_fsspec())
    assert reader.cat_file(f"{keys.path}/a.json") == b'{"id": 1}\n'
    with pytest.raises(PermissionError):
        reader.pipe_file(f"{keys.path}/b.json", b"")


def test_boto3(lake: Lake, fresh: Fresh) -> None:
    name = fresh("g1")
    keys = lake.generic(name)
    s3 = boto3.client("s3", **keys.to_boto3())
    inside = _place(f"{keys.prefix}/a.json")
    s3.put_object(**inside, Body=b'{"id": 1}\n')
    for uri in lake.foreign.values():
        for call in (s3.get_object, s3.head_object, s3.put_object, s3.delete_object):
            _is_refused(call, **_place(uri))
        _is_refused(s3.copy_object, **inside, CopySource=_place(uri))
    read_only = lake.client.generic_tables.credentials(NAMESPACE, name, read_only=True)
    reader = boto3.client("s3", **read_only.to_boto3())
    assert reader.get_object(**inside)["Body"].read() == b'{"id": 1}\n'
    for call in (reader.put_object, reader.delete_object, reader.create_multipart_upload):
        _is_refused(call, **inside)


def _place(uri: str) -> dict[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}


def _is_refused(call: Callable[..., object], **arguments: Any) -> None:
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_duckdb_attached_to_the_catalog(lake: Lake, duck: Any, fresh: Fresh) -> None:
    name = fresh("t1")
    with catalog(lake, VENDED) as full:
        full.create_table((NAMESPACE, name), schema=rows().schema, location=location(name))
    duck.execute(
        f"ATTACH '{lake.warehouse}' AS lake (TYPE iceberg, ENDPOINT '{lake.server.catalog_uri}', "
        "AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'vended_credentials')"
    )
    duck.execute(f"INSERT INTO lake.{NAMESPACE}.{name} VALUES (1), (2), (3)")
    duck.execute(f"DELETE FROM lake.{NAMESPACE}.{name} WHERE id = 2")
    assert duck.sql(f"FROM lake.{NAMESPACE}.{name} ORDER BY id").fetchall() == [(1,), (3,)]
    with catalog(lake, READ_ONLY) as reader:
        assert reader.load_table((NAMESPACE, name)).scan().count() == 2


def test_duckdb_with_a_secret(lake: Lake, duck: Any, fresh: Fresh) -> None:
    name = fresh("g1")
    keys = lake.generic(name)
    duck.execute(keys.to_duckdb())
    duck.execute(f"COPY (SELECT 1 AS id) TO '{keys.prefix}/a.parquet'")
    assert duck.sql(f"SELECT id FROM '{keys.prefix}/*.parquet'").fetchall() == [(1,)]
    for uri in lake.foreign.values():
        _duckdb_is_refused(duck, elsewhere(keys, uri), f"SELECT * FROM read_json('{uri}')")
        _duckdb_is_refused(duck, elsewhere(keys, uri), f"COPY (SELECT 1 AS id) TO '{uri}'")
    read_only = lake.client.generic_tables.credentials(NAMESPACE, name, read_only=True)
    duck.execute("DROP SECRET frazil")
    duck.execute(read_only.to_duckdb())
    assert duck.sql(f"SELECT id FROM '{keys.prefix}/a.parquet'").fetchall() == [(1,)]
    _duckdb_is_refused(duck, read_only, f"COPY (SELECT 1 AS id) TO '{keys.prefix}/b.parquet'")


def _duckdb_is_refused(duck: Any, keys: VendedCredentials, statement: str) -> None:
    duck.execute(keys.to_duckdb("tried"))
    try:
        with pytest.raises(duckdb.Error, match="403"):
            duck.sql(statement).fetchall()
    finally:
        duck.execute("DROP SECRET tried")
