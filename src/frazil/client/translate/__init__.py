"""Vended keys in the words of those who use them."""

from frazil.client.translate.hadoop import hadoop_configuration
from frazil.client.translate.table import ADLS, GCS, S3, Column

__all__ = ["ADLS", "GCS", "S3", "Column", "hadoop_configuration"]
