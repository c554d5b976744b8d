"""Tables: what their columns are, and how they are read and written."""

from bellman_diffusion.tables.reading import read_table, write_table
from bellman_diffusion.tables.schema import Column, Schema, find_schema

__all__ = ["Column", "Schema", "find_schema", "read_table", "write_table"]
