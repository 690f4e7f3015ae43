"""Storage: which entries share bytes, where in a device's memory these lie, and whether all of it fits.

Read memory (the pass); order, an order of the nodes in which less is live at once; buffers, values joined by
in-place use, with conflicts and offsets, which find places for them; pools and file_storage, the
storage ids of a plan and of a file; sizes and capacity. packers takes a search from outside; modes compares
the ways of reusing memory.
"""
