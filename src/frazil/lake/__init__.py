"""Tables from Spark's side: what touches the JVM is here and nowhere else."""

from frazil.lake.credentials import TaskKeys, use_s3a

__all__ = ["TaskKeys", "use_s3a"]
