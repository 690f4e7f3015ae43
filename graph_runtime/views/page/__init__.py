"""One HTML page on which a person understands a plan: placement, time, memory, accuracy; docs/view.md.

    Shown --data--> page data (JSON-able) --html--> one file: the data as a JSON block, style and script

Each view has a module that makes its part of the data from frozen values, so that tests read it without a
browser: nodes, prefixes and ranks (the graph), events (time), addresses and cores (memory), roofline,
node_errors, tensors, answers (the overview), two_plans. traces and comparisons read files of runs, bare makes
pages of these alone, opened shows a page; assets/ has the style and the scripts, one script per view.
"""
