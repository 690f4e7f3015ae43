"""A program bound to memory: inline runs, and submissions to queues."""
