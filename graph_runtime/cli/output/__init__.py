"""Output of commands: progress on stderr, pictures as files, a screen that is rewritten repeatedly, and the
choice of a graph to show for a model that has several.
"""
