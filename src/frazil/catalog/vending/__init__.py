"""Credentials that are short-lived and reach one table's files only."""

from frazil.catalog.vending.base import Access, Vended, Vendor

__all__ = ["Access", "Vended", "Vendor"]
