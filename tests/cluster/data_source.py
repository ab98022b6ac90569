"""A program with a Python data source on a cluster: FILE MASTER SECRET; prints where frazil was found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from frazil.lake.session import spark_session
from frazil.stream.config import load_pipelines
from frazil.stream.submission import prepare


class Reader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        import frazil

        return [InputPartition(frazil.__file__)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str]]:
        import frazil

        yield partition.value, frazil.__file__


class Places(DataSource):
    @classmethod
    def name(cls) -> str:
        return "places"

    def schema(self) -> str:
        return "planned string, read string"

    def reader(self, schema: StructType) -> Reader:
        return Reader()


def main(file: Path, master: str, secret: Path) -> None:
    settings = {
        "spark.authenticate.secret": secret.read_text(),
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
    }
    found = prepare(load_pipelines(file), file, master=master, settings=settings)
    spark = spark_session(found.settings, master=master)
    spark.dataSource.register(Places)
    (row,) = spark.read.format("places").load().collect()
    print(json.dumps([row.planned, row.read]))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
