"""Reports that ttnn-visualizer opens: what a plan would do on its boards, every time simulated.

database writes the folder; places says where a plan's values lie on boards, forms how ttnn writes what they
are, tables makes the rows of the database (schema: its columns), captured one operation's graph of
allocations, performance the two CSV files.
"""

from .database import write_report

__all__ = ["write_report"]
