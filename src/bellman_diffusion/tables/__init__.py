"""Tables: what their columns are, a model of their rows, and how good it is (Section 5.2)."""

from bellman_diffusion.tables.evaluation import Evaluation, evaluate_rows
from bellman_diffusion.tables.metric import MetricSpace
from bellman_diffusion.tables.model import ConditionalRows, TableModel
from bellman_diffusion.tables.reading import read_table, write_table
from bellman_diffusion.tables.schema import Column, Schema, find_schema

__all__ = [
    "Column",
    "ConditionalRows",
    "Evaluation",
    "MetricSpace",
    "Schema",
    "TableModel",
    "evaluate_rows",
    "find_schema",
    "read_table",
    "write_table",
]
