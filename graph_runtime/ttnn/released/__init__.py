"""What the release ttnn 0.81.1 has: its names, and why this package lacks some of them.

Read: names, absent.
"""
