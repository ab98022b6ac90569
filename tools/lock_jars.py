"""Write the lists of jars in src/frazil/jvm/locks: every jar of a set with its SHA-256.

python tools/lock_jars.py [SET ...]

The roots are below; Ivy follows what they depend on, once, here. What users download is the list.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

from frazil.core.cache import cache_dir
from frazil.jvm.jars import (
    APICURIO,
    AVRO_CONVERTER,
    DEBEZIUM,
    FLINK,
    HADOOP_S3A,
    KAFKA,
    KAFKA_CONNECT,
    KEYCLOAK,
    RCK,
    SPARK_ICEBERG,
    SPARK_KAFKA,
    Dependency,
    fetch,
)
from frazil.jvm.maven import Artifact

LOCKS = Path(__file__).resolve().parent.parent / "src" / "frazil" / "jvm" / "locks"

SPARK_ICEBERG_VERSION = "1.12.0"
SPARK_VERSION = "4.1.3"
# Of 4.1.3's own, one that was never published.
SPARK_TOKEN_PROVIDER = "4.1.0-preview1"
FLINK_VERSION = "2.1.3"
# The newest for that Flink, and the Hadoop it was built with.
FLINK_ICEBERG_VERSION = "1.11.0"
FLINK_HADOOP = "3.4.1"
FLINK_JDBC_VERSION = "4.0.0-2.0"
POSTGRES_JDBC = "42.7.5"
KIT_ICEBERG_VERSION = "1.11.0"
# The release that pyspark's own Hadoop jars are of.
HADOOP_AWS = "3.4.2"
AWS_SDK = "2.54.17"
JETTY = "12.1.8"
JUNIT = "5.14.4"
JUNIT_PLATFORM = "1.14.4"
KEYCLOAK_VERSION = "26.7.3"
APICURIO_VERSION = "3.3.3"
KAFKA_VERSION = "4.3.1"
LOG4J = "2.25.4"
DEBEZIUM_VERSION = "3.6.3.Final"
# The newest of each that is published whole.
DEBEZIUM_MARIADB_VERSION = "3.5.0.Final"
AVRO_CONVERTER_VERSION = "2.6.13.Final"

ICEBERG = "org.apache.iceberg"
HADOOP_EXCLUSIONS = (
    "org.slf4j:*",
    "ch.qos.reload4j:*",
    "org.apache.avro:avro",
    "org.apache.curator:*",
    "org.apache.zookeeper:*",
    "org.apache.kerby:*",
    "org.eclipse.jetty:*",
    "com.jcraft:jsch",
    "dnsjava:dnsjava",
    "com.github.pjfanning:jersey-json",
)


def plain(group: str, name: str, version: str, *classifiers: str) -> Dependency:
    return Dependency(group, name, version, classifiers or ("",), transitive=False)


def deep(group: str, name: str, version: str, *classifiers: str, without: tuple[str, ...] = ()) -> Dependency:
    return Dependency(group, name, version, classifiers or ("",), transitive=True, exclusions=without)


SETS: dict[str, list[Dependency]] = {
    SPARK_ICEBERG: [
        plain(ICEBERG, "iceberg-spark-runtime-4.1_2.13", SPARK_ICEBERG_VERSION),
        plain(ICEBERG, "iceberg-aws-bundle", SPARK_ICEBERG_VERSION),
    ],
    # What S3A needs beside SPARK_ICEBERG: iceberg-aws-bundle has most of Amazon's SDK, and its whole bundle
    # is 640 MB. The httpclient is the one that this apache-client links to.
    HADOOP_S3A: [
        plain("org.apache.hadoop", "hadoop-aws", HADOOP_AWS),
        plain("software.amazon.awssdk", "s3-transfer-manager", AWS_SDK),
        plain("software.amazon.awssdk", "apache-client", AWS_SDK),
        plain("org.apache.httpcomponents", "httpclient", "4.5.14"),
        plain("org.apache.httpcomponents", "httpcore", "4.4.16"),
    ],
    RCK: [
        deep(ICEBERG, "iceberg-open-api", KIT_ICEBERG_VERSION, "tests", "test-fixtures"),
        deep(ICEBERG, "iceberg-core", KIT_ICEBERG_VERSION, "", "tests"),
        deep(ICEBERG, "iceberg-api", KIT_ICEBERG_VERSION, "", "tests"),
        deep(ICEBERG, "iceberg-bundled-guava", KIT_ICEBERG_VERSION),
        # The server links to these three; nothing here calls the clouds behind the last two.
        deep(ICEBERG, "iceberg-aws", KIT_ICEBERG_VERSION),
        deep(ICEBERG, "iceberg-gcp", KIT_ICEBERG_VERSION),
        deep(ICEBERG, "iceberg-azure", KIT_ICEBERG_VERSION),
        plain(ICEBERG, "iceberg-aws-bundle", KIT_ICEBERG_VERSION),
        deep("org.apache.hadoop", "hadoop-common", "3.4.3", without=HADOOP_EXCLUSIONS),
        deep("org.eclipse.jetty.ee10", "jetty-ee10-servlet", JETTY),
        deep("org.eclipse.jetty.compression", "jetty-compression-server", JETTY),
        deep("org.eclipse.jetty.compression", "jetty-compression-gzip", JETTY),
        deep("org.xerial", "sqlite-jdbc", "3.53.0.0"),
        deep("org.postgresql", "postgresql", POSTGRES_JDBC),
        deep("org.junit.jupiter", "junit-jupiter", JUNIT),
        deep("org.junit.platform", "junit-platform-suite-api", JUNIT_PLATFORM),
        deep("org.junit.platform", "junit-platform-suite-engine", JUNIT_PLATFORM),
        deep("org.junit.platform", "junit-platform-console", JUNIT_PLATFORM),
        deep("org.assertj", "assertj-core", "3.27.7"),
        deep("org.mockito", "mockito-core", "4.11.0"),
        deep("org.awaitility", "awaitility", "4.3.0"),
        deep("org.slf4j", "slf4j-simple", "2.0.17"),
    ],
    KAFKA: [
        deep("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        plain("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
        deep("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
    ],
    KAFKA_CONNECT: [
        deep("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
        deep("org.apache.kafka", "connect-json", KAFKA_VERSION),
        deep("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
    ],
    # Connect's plugins: each is unpacked into a folder of its own, with all that it needs.
    DEBEZIUM: [
        Dependency("io.debezium", name, version, ("plugin",), extension="tar.gz")
        for name, version in (
            ("debezium-connector-postgres", DEBEZIUM_VERSION),
            ("debezium-connector-mariadb", DEBEZIUM_MARIADB_VERSION),
        )
    ],
    AVRO_CONVERTER: [
        deep(
            "io.apicurio",
            "apicurio-registry-utils-converter",
            AVRO_CONVERTER_VERSION,
            without=(
                "org.apache.kafka:*",
                "org.slf4j:*",
                "io.apicurio:apicurio-registry-serdes-jsonschema-serde",
            ),
        ),
    ],
    # Spark's own Kafka source, for the benchmark; the rest of what it needs is in pyspark.
    SPARK_KAFKA: [
        plain("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
        plain("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_TOKEN_PROVIDER),
        plain("org.apache.kafka", "kafka-clients", "3.9.1"),
        plain("org.apache.commons", "commons-pool2", "2.12.1"),
    ],
    # What a Flink distribution lacks; the distribution itself is on PyPI.
    FLINK: [
        plain("org.apache.flink", "flink-sql-gateway", FLINK_VERSION),
        plain("org.apache.flink", "flink-sql-connector-kafka", "4.0.1-2.0"),
        plain("org.apache.flink", "flink-connector-jdbc-core", FLINK_JDBC_VERSION),
        plain("org.apache.flink", "flink-connector-jdbc-postgres", FLINK_JDBC_VERSION),
        plain("org.postgresql", "postgresql", POSTGRES_JDBC),
        plain(ICEBERG, "iceberg-flink-runtime-2.1", FLINK_ICEBERG_VERSION),
        plain("org.apache.hadoop", "hadoop-client-api", FLINK_HADOOP),
        plain("org.apache.hadoop", "hadoop-client-runtime", FLINK_HADOOP),
    ],
    # Whole servers, unpacked where they are started.
    KEYCLOAK: [Dependency("org.keycloak", "keycloak-quarkus-dist", KEYCLOAK_VERSION, extension="zip")],
    APICURIO: [
        Dependency("io.apicurio", "apicurio-registry-app", APICURIO_VERSION, ("all",), extension="tar.gz")
    ],
}


def resolved() -> list[Artifact]:
    """What the last resolution found, from the report Ivy leaves in its cache."""
    report = ET.parse(cache_dir("ivy") / "frazil-jars-default.xml")
    found = set()
    for module in report.iter("module"):
        for revision in module.iter("revision"):
            if revision.get("evicted") is not None:
                continue
            for artifact in revision.iter("artifact"):
                classifier = next((v for k, v in artifact.attrib.items() if k.endswith("classifier")), "")
                group, version = module.attrib["organisation"], revision.attrib["name"]
                name, extension = artifact.attrib["name"], artifact.attrib["ext"]
                found.add(Artifact(group, name, version, classifier, extension))
    return sorted(found)


def main(names: list[str]) -> None:
    LOCKS.mkdir(exist_ok=True)
    for name in names or list(SETS):
        with tempfile.TemporaryDirectory() as scratch:
            fetch(SETS[name], Path(scratch))
            rows = []
            for artifact in resolved():
                with Path(scratch, artifact.file_name).open("rb") as handle:
                    rows.append(f"{artifact} {hashlib.file_digest(handle, 'sha256').hexdigest()}")
        (LOCKS / f"{name}.txt").write_text("\n".join(["# Written by tools/lock_jars.py", *rows]) + "\n")
        print(f"{name}: {len(rows)} jars")


if __name__ == "__main__":
    main(sys.argv[1:])
