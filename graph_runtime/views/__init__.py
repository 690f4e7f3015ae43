"""Reports, profiles, traces and pages that people read. The folder makes values and text, and prints nothing.

report and placement make tables of a plan, dot its graph, profile a table of times. Timelines come from
simulation/ or from measured; trace writes them for Perfetto, page/ as part of one HTML page.
"""
