"""Storage: which entries share bytes, where the bytes are in a device's memory, and whether all of them fit.

Read memory (the pass, and the peak of each way of reusing memory), order (an order of the nodes in which less
is live at once), buffers (values joined by in-place use), offsets (places for buffers, also by a packer from
outside) and file_storage (the storage ids of a file).
"""
