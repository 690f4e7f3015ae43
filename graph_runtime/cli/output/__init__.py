"""Output of commands: progress on stderr, pictures as files, a screen that is written again and again, and
which program of a model of several is shown.
"""
