"""From a connector's options to platform and name, as DataHub's own sources name their datasets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

Options = Mapping[str, str]


@dataclass(frozen=True)
class Named:
    """A dataset without environment and instance."""

    platform: str
    name: str


@dataclass(frozen=True)
class Unclear:
    """The options do not tell one dataset; why."""

    reason: str


_JDBC = {
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mariadb",
    "sqlserver": "mssql",
    "oracle": "oracle",
    "db2": "db2",
    "redshift": "redshift",
    "snowflake": "snowflake",
    "clickhouse": "clickhouse",
    "trino": "trino",
}
#: The schema that a table name without one is in.
_DEFAULT_SCHEMA = {"postgres": "public", "redshift": "public", "mssql": "dbo"}
_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "abfs": "abs",
    "abfss": "abs",
    "wasb": "abs",
    "wasbs": "abs",
    "hdfs": "hdfs",
    "oss": "oss",
    "file": "file",
    "": "file",
}
#: Catalogs whose tables are all of one platform, named by database and table.
CATALOG_TYPES = {
    "iceberg": "iceberg",
    "paimon": "paimon",
    "hudi": "hudi",
    "fluss": "fluss",
    "delta-catalog": "delta-lake",
}
_REGEX = re.compile(r"[\\*+?()\[\]{}|^$]")
#: Drivers take several hosts, and before them how to use these: `jdbc:mysql:loadbalance://h1,h2/shop`.
_JDBC_URL = re.compile(r"jdbc:\w+:(?:[\w-]+:)?(?://[^/?]*/?)?(?P<database>[^?]*)\??(?P<query>.*)", re.DOTALL)
_SQL_PART = re.compile(r'"(?:[^"]|"")+"|[^\s".]+')
_SQL_NAME = re.compile(rf"(?:{_SQL_PART.pattern})(?:\.(?:{_SQL_PART.pattern}))*")
#: What follows the server in a URL of SQL Server; in braces, a value may have anything in it.
_SQL_SERVER = re.compile(r";\s*([^=;]+?)\s*=\s*(?:\{([^}]*)\}|([^;]*))")
#: Properties that no other format has; Paimon has a `commit.force-compact`.
_OF_ICEBERG = re.compile(
    r"write\.(format|parquet|metadata|target)|format-version$|commit\.(retry|status-check|manifest)"
)


def of_catalog(kind: str, options: Options, path: tuple[str, ...]) -> Named | None:
    """What a table of such a catalog is; None where only the table's own definition tells."""
    database, table = path[-2:]
    if kind == "jdbc":
        platform = jdbc_platform(options.get("base-url", ""))
        return None if platform is None else Named(platform, _in_schema(platform, database, table))
    platform = CATALOG_TYPES.get(kind)
    if platform == "iceberg":
        database = f"{_base(options)}{database}"
    return None if platform is None else Named(platform, f"{database}.{table}")


def below_base(options: Options, path: tuple[str, str, str]) -> tuple[str, str, str]:
    """The path in Flink of a table whose sink prints the namespaces that its catalog leaves out."""
    catalog, database, table = path
    return catalog, database.removeprefix(_base(options)), table


def _base(options: Options) -> str:
    """An Iceberg catalog may show as databases what is below some namespace."""
    return f"{base}." if (base := options.get("base-namespace")) else ""


def of_table(options: Options, path: tuple[str, ...]) -> Named | Unclear | None:
    """What a table with these options is; None when they name no connector."""
    connector = options.get("connector")
    if connector is None:
        return _by_properties(options, path)
    # `elasticsearch-7`, `hbase-2.2`, `opensearch-2`: the version is part of the name.
    known = _CONNECTORS.get(connector) or _CONNECTORS.get(re.sub(r"-[\d.]+$", "", connector))
    if known is None:
        return Unclear(f"the connector {connector!r} is not known here")
    return known(options, path)


def jdbc_platform(url: str) -> str | None:
    """The platform behind a JDBC URL."""
    match = re.match(r"jdbc:(\w+):", url)
    return None if match is None else _JDBC.get(match.group(1))


def file_dataset(url: str) -> Named | Unclear:
    """A folder or object of a file system."""
    parts = urlsplit(url)
    platform = _SCHEMES.get(parts.scheme)
    if platform is None:
        return Unclear(f"the file system {parts.scheme!r} is not known here")
    path = parts.path.rstrip("/")
    if platform in ("hdfs", "file"):
        return Named(platform, path)
    before, at, after = parts.netloc.rpartition("@")
    if platform != "abs":
        return Named(platform, f"{after}{path}")
    # `container@account`: DataHub's names have no account.
    return Named(platform, f"{before}{path}") if at else Unclear("its path names no container")


def _in_schema(platform: str, database: str, table: str) -> str:
    schema = _DEFAULT_SCHEMA.get(platform)
    if schema is not None and "." not in table:
        table = f"{schema}.{table}"
    return f"{database}.{table}" if database else table


def _jdbc(options: Options, path: tuple[str, ...]) -> Named | Unclear:
    url, table = options.get("url", ""), options.get("table-name", path[-1])
    platform, match = jdbc_platform(url), _JDBC_URL.fullmatch(url)
    if platform is None or match is None:
        return Unclear("the database behind its JDBC URL is not known here")
    if platform == "mssql":
        return _sql_server(url, table)
    if platform == "oracle":
        return _oracle(options.get("username", ""), table)
    database = match["database"].strip("/")
    if re.search(r"[/:;,=]", database):
        return Unclear("its JDBC URL has a form that is not known here")
    if not database:
        return Unclear("its JDBC URL names no database: which it is depends on who connects")
    if platform == "postgres":
        return _postgres(database, parse_qs(match["query"]), table)
    return Named(platform, _in_schema(platform, database, table))


def _postgres(database: str, query: Mapping[str, list[str]], table: str) -> Named | Unclear:
    """Flink hands the table's name on as it is. What has no quotes in it, PostgreSQL writes small."""
    parts = _identifiers(table)
    if len(parts) == 1:
        schemas = [one for given in query.get("currentSchema", ["public"]) for one in given.split(",")]
        schema = _identifiers(schemas[0].strip())
        if (
            len(schemas) > 1
            or len(schema) != 1
            or any("search_path" in one for one in query.get("options", ()))
        ):
            return Unclear("its JDBC URL has a path of schemas, and the first that has such a table counts")
        parts = [*schema, *parts]
    if len(parts) == 2:
        parts = [database, *parts]
    if len(parts) != 3:
        return Unclear("its table-name has a form that is not known here")
    return Named("postgres", ".".join(parts))


def _identifiers(text: str) -> list[str]:
    """The parts of an SQL name; none if it is no name."""
    if _SQL_NAME.fullmatch(text) is None:
        return []
    return [
        part.lower() if part[0] != '"' else part[1:-1].replace('""', '"') for part in _SQL_PART.findall(text)
    ]


def _sql_server(url: str, table: str) -> Named | Unclear:
    """Properties may be in any case, `database` is `databaseName`, and the last of several counts."""
    given = _SQL_SERVER.findall(url)
    named = [one or other for name, one, other in given if name.lower() in ("database", "databasename")]
    if not named:
        return Unclear("its JDBC URL names no database: which it is depends on who connects")
    return Named("mssql", _in_schema("mssql", named[-1], table))


def _oracle(schema: str, table: str) -> Named | Unclear:
    """Schema and table: DataHub leaves the database out, and writes names in capitals small."""
    if "." not in table:
        # Whoever connects is in the schema of that name.
        if not schema:
            return Unclear("it names no schema, and no user whose schema it would be")
        table = f"{schema.upper()}.{table}"
    return Named("oracle", ".".join(part.lower() if part.isupper() else part for part in table.split(".")))


def _cdc(platform: str) -> Callable[[Options, tuple[str, ...]], Named | Unclear]:
    def found(options: Options, path: tuple[str, ...]) -> Named | Unclear:
        keys = ("database-name", "schema-name", "table-name")
        if platform == "mongodb":
            keys = ("database", "collection")  # type: ignore[assignment]
        elif platform == "oracle":
            keys = keys[1:]  # type: ignore[assignment]
        parts = [options[key] for key in keys if options.get(key)]
        name = ".".join(parts)
        if not parts or _REGEX.search(name):
            return Unclear(f"its tables are given by a pattern ({name!r})")
        return _oracle("", name) if platform == "oracle" else Named(platform, name)

    return found


def _one_of(platform: str, *keys: str) -> Callable[[Options, tuple[str, ...]], Named | Unclear]:
    """The option that names the thing; a list or a pattern of several names is not one dataset."""

    def found(options: Options, path: tuple[str, ...]) -> Named | Unclear:
        for key in keys:
            if value := options.get(key):
                if ";" in value or "," in value:
                    return Unclear(f"it has several ({value})")
                if "{" in value:
                    return Unclear(f"each record tells which it is ({value})")
                return Named(platform, value)
        return Unclear(f"it is given by a pattern, not by {' or '.join(keys)}")

    return found


def _joined(platform: str, *keys: str) -> Callable[[Options, tuple[str, ...]], Named | Unclear]:
    def found(options: Options, path: tuple[str, ...]) -> Named | Unclear:
        parts = [options.get(key, "") for key in keys]
        if not all(parts):
            return Unclear(f"it does not tell {' and '.join(keys)}")
        return Named(platform, ".".join(parts))

    return found


def _own_name(platform: str) -> Callable[[Options, tuple[str, ...]], Named | Unclear]:
    return lambda options, path: Named(platform, ".".join(path[-2:]))


def _iceberg(options: Options, path: tuple[str, ...]) -> Named | Unclear:
    database = f"{_base(options)}{options.get('catalog-database', path[-2])}"
    return Named("iceberg", f"{database}.{options.get('catalog-table', path[-1])}")


def _filesystem(options: Options, path: tuple[str, ...]) -> Named | Unclear:
    return file_dataset(options["path"]) if "path" in options else Unclear("it has no path")


def _kinesis(options: Options, path: tuple[str, ...]) -> Named | Unclear:
    stream = options.get("stream") or options.get("stream.arn", "").rpartition("/")[2]
    return Named("kinesis", stream) if stream else Unclear("it names no stream")


def _by_properties(options: Options, path: tuple[str, ...]) -> Named | None:
    """Before Flink 1.20, tables of Iceberg and Paimon name no connector; their own properties tell them."""
    if options.get("path", "").rstrip("/").endswith(f"/{path[-2]}.db/{path[-1]}"):
        return Named("paimon", ".".join(path[-2:]))
    if any(_OF_ICEBERG.match(key) for key in options):
        return Named("iceberg", ".".join(path[-2:]))
    return None


_CONNECTORS: dict[str, Callable[[Options, tuple[str, ...]], Named | Unclear]] = {
    "kafka": _one_of("kafka", "topic"),
    "upsert-kafka": _one_of("kafka", "topic"),
    "jdbc": _jdbc,
    "filesystem": _filesystem,
    "iceberg": _iceberg,
    "paimon": _own_name("paimon"),
    "hive": _own_name("hive"),
    "hudi": _own_name("hudi"),
    "fluss": _own_name("fluss"),
    "kinesis": _kinesis,
    "pulsar": _one_of("pulsar", "topics", "topic"),
    "rabbitmq": _one_of("rabbitmq", "queue"),
    "elasticsearch": _one_of("elasticsearch", "index"),
    "opensearch": _one_of("opensearch", "index"),
    "hbase": _one_of("hbase", "table-name"),
    "dynamodb": _one_of("dynamodb", "table-name"),
    "mongodb": _joined("mongodb", "database", "collection"),
    "cassandra": _joined("cassandra", "keyspace", "table-name"),
    "clickhouse": _joined("clickhouse", "database-name", "table-name"),
    "starrocks": _joined("starrocks", "database-name", "table-name"),
    "doris": _one_of("doris", "table.identifier"),
    "mysql-cdc": _cdc("mysql"),
    "postgres-cdc": _cdc("postgres"),
    "sqlserver-cdc": _cdc("mssql"),
    "oracle-cdc": _cdc("oracle"),
    "mongodb-cdc": _cdc("mongodb"),
    "datagen": _own_name("datagen"),
    "print": _own_name("print"),
    "blackhole": _own_name("blackhole"),
}
