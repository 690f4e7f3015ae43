"""What people look at. Makes values and text, prints nothing.

report and placement are tables of a plan, dot its graph, profile a table of times. Timelines come from
simulation/ or measured; trace draws them for Perfetto, page as one HTML page made of memory, grid and svg.
"""
