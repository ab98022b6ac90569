"""`frazil warehouse`: where tables are kept."""

from __future__ import annotations

import time
from typing import Any

import click

from frazil.cli.remote import Remote, confirm, print_json, print_table, remote, yes_option
from frazil.cli.storage_options import credential_given, storage_given, storage_options
from frazil.core.errors import PurgeUnfinished

#: Between two attempts to delete a warehouse whose files are on their way out.
_ASK_SECONDS = 0.5


@click.group()
def warehouse() -> None:
    """Warehouses: where tables are kept.

    \b
    frazil warehouse list
    frazil warehouse create scratch --local /srv/scratch
    frazil warehouse create lake --s3 my-bucket --region eu-central-1 --role-arn arn:aws:iam::1:role/lake
    """


@warehouse.command("list")
@remote(warehouse=False)
def list_warehouses(server: Remote) -> None:
    """List the warehouses of the project, inactive ones too."""
    server.show(
        sorted(server.client.warehouses.list(), key=lambda found: found.name),
        {
            "name": lambda found: found.name,
            "status": lambda found: found.status,
            "storage": lambda found: place(found.storage_profile),
            "id": lambda found: found.warehouse_id,
        },
    )


@warehouse.command()
@click.argument("name")
@remote(warehouse=False)
def show(server: Remote, name: str) -> None:
    """Show a warehouse, by name or id."""
    found = server.client.warehouses.get(name)
    kind = found.storage_credential_type
    fields: dict[str, object] = {
        "name": found.name,
        "id": found.warehouse_id,
        "project": found.project_id,
        "status": found.status,
        "protected": found.protected,
        "storage": place(found.storage_profile),
        "credential": None if kind is None else f"{kind.type} {kind.credential_type}",
    }
    settings = {key: value for key, value in found.storage_profile.items() if value is not None}
    fields |= {f"  {key}": value for key, value in settings.items() if key != "type"}
    server.describe(found, fields)


@warehouse.command()
@click.argument("name")
@storage_options
@click.option("--dry-run", is_flag=True, help="Try the storage and say how it went; make nothing.")
@remote(warehouse=False)
def create(server: Remote, /, name: str, dry_run: bool, **given: Any) -> None:
    """Create a warehouse. The server tries the storage before it says yes.

    A file given with --from-file is the request itself: a JSON object with "storage-profile" and, if needed,
    "storage-credential". Secrets come from that file, from --credential-file, from AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY, or are asked for; they are never options, because everybody on a machine can read
    command lines.

    \b
    frazil warehouse create scratch --local /srv/scratch
    frazil warehouse create lake --s3 my-bucket --region eu-central-1 --role-arn arn:aws:iam::1:role/lake
    frazil warehouse create lake --s3 my-bucket --endpoint http://127.0.0.1:9000 --region us-east-1 --sts
    frazil warehouse create lake --from-file lake.json --dry-run
    """
    profile, credential, delete_profile = storage_given(given)
    warehouses = server.client.warehouses
    if not dry_run:
        made = warehouses.create(name, profile, credential, delete_profile=delete_profile)
        server.say(
            f"created warehouse {made.name} ({made.warehouse_id}) at {place(profile)}{_without_keys(made)}",
            made,
        )
        return
    tried = warehouses.validate(name, profile, credential)
    if server.as_json:
        print_json(tried)
    else:
        rows = [(check.name, check.status, _remark(check)) for check in tried.checks]
        print_table(("check", "result", "remark"), rows)
    if not tried.valid:
        raise click.exceptions.Exit(1)


@warehouse.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if it is protected.")
@click.option(
    "--wait",
    "patience",
    type=click.FloatRange(0, 3600),
    default=60.0,
    metavar="SECONDS",
    show_default=True,
    help="How long the files of tables that were dropped before may take to go.",
)
@yes_option
@remote(warehouse=False)
def delete(server: Remote, name: str, force: bool, patience: float, yes: bool) -> None:
    """Delete a warehouse that is empty."""
    found = server.client.warehouses.get(name)
    confirm(f"Delete the warehouse {found.name} ({found.warehouse_id})?", yes)
    until = time.monotonic() + patience
    waiting = False
    while True:
        try:
            server.client.warehouses.delete(found.warehouse_id, force=force)
            break
        except PurgeUnfinished:
            if time.monotonic() >= until:
                raise
        if not waiting:
            click.echo("waiting for the files of dropped tables to be deleted", err=True)
            waiting = True
        time.sleep(_ASK_SECONDS)
    server.say(f"deleted warehouse {found.name}")


@warehouse.command()
@click.argument("name")
@click.argument("new_name")
@remote(warehouse=False)
def rename(server: Remote, name: str, new_name: str) -> None:
    """Give a warehouse another name; its id stays."""
    renamed = server.client.warehouses.rename(name, new_name)
    server.say(f"renamed warehouse {name} to {renamed.name}", renamed)


@warehouse.command()
@click.argument("name")
@remote(warehouse=False)
def activate(server: Remote, name: str) -> None:
    """Let clients use a warehouse again."""
    server.client.warehouses.activate(name)
    server.say(f"activated warehouse {name}")


@warehouse.command()
@click.argument("name")
@yes_option
@remote(warehouse=False)
def deactivate(server: Remote, name: str, yes: bool) -> None:
    """Refuse all use of a warehouse until it is activated; nothing is lost."""
    confirm(f"Refuse all use of the warehouse {name} from now on?", yes)
    server.client.warehouses.deactivate(name)
    server.say(f"deactivated warehouse {name}")


@warehouse.command()
@click.argument("name")
@click.option("--credential-file", metavar="FILE", help="JSON of a storage-credential; - is standard input.")
@remote(warehouse=False)
def credential(server: Remote, name: str, credential_file: str | None) -> None:
    """Give a warehouse new keys. The server tries them before it says yes.

    They come from the file, from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or are asked for.
    """
    found = server.client.warehouses.get(name)
    new = credential_given(str(found.storage_profile.get("type")), credential_file)
    changed = server.client.warehouses.update_credential(found.warehouse_id, new)
    server.say(f"warehouse {found.name} has new keys", changed)


@warehouse.command()
@click.argument("name")
@click.option("--from-file", "file", metavar="FILE", required=True, help="JSON; - is standard input.")
@remote(warehouse=False)
def storage(server: Remote, name: str, file: str) -> None:
    """Replace the storage profile and credential. Where the data lies cannot change.

    The file is a JSON object with "storage-profile" and "storage-credential".
    """
    profile, new, _ = storage_given({"from_file": file})
    changed = server.client.warehouses.update_storage(name, profile, new)
    server.say(f"warehouse {changed.name} has new storage settings", changed)


def place(profile: Any) -> str:
    """Where a warehouse keeps its files, in one word."""
    match profile.get("type"):
        case "s3":
            return _joined(f"s3://{profile.get('bucket')}", profile.get("key-prefix"))
        case "gcs":
            return _joined(f"gs://{profile.get('bucket')}", profile.get("key-prefix"))
        case "adls":
            host = profile.get("host") or "dfs.core.windows.net"
            root = f"abfss://{profile.get('filesystem')}@{profile.get('account-name')}.{host}"
            return _joined(root, profile.get("key-prefix"))
        case "local":
            return f"file://{profile.get('path')}"
        case other:
            return str(other)


def _without_keys(made: Any) -> str:
    """Said at once, because it is noticed only when the first table is to be written."""
    if made.storage_profile.get("type") != "s3" or made.storage_profile.get("sts-enabled"):
        return ""
    return "; it vends no keys, for which --role-arn (or --sts) is needed"


def _joined(root: str, prefix: object) -> str:
    return f"{root}/{prefix}" if prefix else root


def _remark(check: Any) -> str:
    if check.error:
        return str(check.error.get("message", "")).splitlines()[0]
    return check.reason or ""
