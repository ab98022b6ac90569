"""`frazil submit`: run pipelines on a Spark cluster."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.pipelines import load
from frazil.cli.remote import print_json
from frazil.cli.run import run, run_pipelines
from frazil.core.errors import InvalidInput
from frazil.lake.session import is_secret

if TYPE_CHECKING:
    from frazil.stream.config import Pipelines
    from frazil.stream.submission import Mode, Submission

#: Spark's own name for it; daemons and executors read it too.
_VARIABLE = "_SPARK_AUTH_SECRET"
_SECRET = "spark.authenticate.secret"  # noqa: S105 - the name, not the secret


@click.command(short_help="Run pipelines on a Spark cluster: packs what the executors need.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("names", nargs=-1, metavar="[PIPELINE]...")
@click.option(
    "--master",
    metavar="URL",
    help="spark://HOST:PORT, yarn, or k8s://https://HOST:PORT.  [default: spark.master of FILE]",
)
@click.option(
    "--deploy-mode",
    "mode",
    type=click.Choice(["client", "cluster"]),
    default="client",
    show_default=True,
    help="Where the driver runs: here, or on the cluster (YARN and Kubernetes).",
)
@click.option(
    "--conf", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable."
)
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help=f"The secret of a standalone cluster.  [default: ${_VARIABLE}]",
)
@click.option(
    "--insecure", is_flag=True, help="A standalone cluster without a secret: keys cross it in clear."
)
@click.option("--dry-run", is_flag=True, help="Pack, and show the command of spark-submit; start nothing.")
def submit(
    file: Path,
    names: tuple[str, ...],
    master: str | None,
    mode: Mode,
    settings: tuple[str, ...],
    secret_file: Path | None,
    insecure: bool,
    dry_run: bool,
    **running: Any,
) -> None:
    """Run the pipelines of FILE, or only those that are named, on a Spark cluster.

    The cluster needs Spark and a Python of this minor version; frazil and its packages are packed here and
    sent. In client mode the driver is this process, as with `frazil run`; its machine must be within reach of
    the executors.

    \b
    frazil submit pipelines.yaml --master spark://head:7077 --secret-file secret
    frazil submit pipelines.yaml --master yarn --deploy-mode cluster --dry-run
    """
    pipelines = load(file, names)
    from frazil.stream.submission import manager_of, prepare

    master = master or pipelines.spark.master
    given = _pairs(settings)
    if manager_of(master) == "standalone":
        given |= _secret(pipelines, secret_file, insecure)
    found = prepare(
        pipelines,
        file,
        master=master,
        mode=mode,
        settings=given,
        arguments=[*names, *_arguments(running, shown=not dry_run)],
    )
    if dry_run:
        _show(found, as_json=running["as_json"])
    elif mode == "cluster":
        sys.exit(_spark_submit(found))
    else:
        spark = dataclasses.replace(pipelines.spark, master=found.master, settings=found.settings)
        run_pipelines(dataclasses.replace(pipelines, spark=spark), **running)


#: In client mode it is `frazil run`, elsewhere.
submit.params += [option for option in run.params if isinstance(option, click.Option)]


def _pairs(settings: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise InvalidInput(f"--conf {key}: write --conf spark.KEY=VALUE")
        if is_secret(key):
            raise InvalidInput(
                f"--conf {key}: everybody on this machine can read the command line. Write it in the file of "
                f"pipelines, under spark.settings, as {key}: ${{VARIABLE}}"
            )
        found[key] = value
    return found


def _arguments(running: Mapping[str, Any], *, shown: bool) -> list[str]:
    """The options of `frazil run` as they were given; `--json` of a dry run is not among them."""
    found: list[str] = []
    for option in run.params:
        if not isinstance(option, click.Option) or (option.name == "as_json" and not shown):
            continue
        value = running[option.name or ""]
        # By identity: a port of 0 is no False.
        if value is not None and value is not False and value != option.default:
            found += [option.opts[0]] if option.is_flag else [option.opts[0], str(value)]
    return found


def _secret(pipelines: Pipelines, file: Path | None, insecure: bool) -> dict[str, str]:
    """Of a standalone cluster; YARN and Kubernetes make one for each job."""
    secret = os.environ.get(_VARIABLE) if file is None else _content(file)
    if secret:
        return {_SECRET: secret}
    if _SECRET in pipelines.spark.settings:
        return {}
    if insecure:
        return {"spark.authenticate": "false", "spark.network.crypto.enabled": "false"}
    raise InvalidInput(
        "what is sent to executors holds the keys of Kafka and of the tables. Give the cluster's secret with "
        f"--secret-file or ${_VARIABLE}; for a cluster without one, in a network of your own, say --insecure"
    )


def _content(file: Path) -> str:
    """Of a file with a secret, which an error must not repeat."""
    try:
        found = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        found = ""
    if not found or not found.isprintable():
        raise InvalidInput(
            f"--secret-file {file}: it holds no secret. Write the text that {_VARIABLE} of master and "
            "workers is, in one line"
        )
    return found


def _show(found: Submission, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "master": found.master,
                "deploy-mode": found.mode,
                "archives": [str(found.packed.packages), str(found.packed.code)],
                "bytes": found.packed.size,
                "packages": dict(found.packed.versions),
                "command": list(found.command),
                "withheld": list(found.withheld),
            }
        )
        return
    click.echo(f"{len(found.packed.versions)} packages and frazil, {found.packed.size / 1e6:,.0f} MB packed:")
    click.echo(f"  {found.packed.packages}\n  {found.packed.code}\n")
    click.echo(" \\\n  ".join(_lines(found.command)))
    if found.withheld:
        click.echo(
            f"\nNot on the command line: {', '.join(found.withheld)}. Set them in spark-defaults.conf."
        )


def _lines(command: Sequence[str]) -> list[str]:
    """An option and its value on one line."""
    found: list[str] = []
    for word in map(shlex.quote, command):
        if found and found[-1].startswith("--") and " " not in found[-1] and not word.startswith("--"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _spark_submit(found: Submission) -> int:
    """The exit code of `spark-submit`: of $SPARK_HOME, or else PySpark's own."""
    if found.withheld:
        raise InvalidInput(
            f"{', '.join(found.withheld)}: secrets do not go on the command line of spark-submit. Take them "
            "out of the file, and set them in the cluster's spark-defaults.conf or its secrets"
        )
    import pyspark

    from frazil.jvm.java import java_home

    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    program = Path(home, "bin", found.command[0])
    if not program.is_file():
        raise InvalidInput(f"there is no {program}: SPARK_HOME is not the folder of a Spark")
    environment = os.environ | {"SPARK_HOME": home, "JAVA_HOME": str(java_home())}
    return subprocess.run([program, *found.command[1:]], check=False, env=environment).returncode
