"""Reports that ttnn-visualizer opens: a plan's run on its boards, all times simulated.

database writes the folder; places gives addresses of a plan's values on boards, forms describes values in
ttnn's notation, tables has the columns and rows of the database, captured the graph of one operation's
allocations, performance the two CSV files.
"""

from .database import write_report

__all__ = ["write_report"]
