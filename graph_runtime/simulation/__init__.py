"""When every instruction of a plan would run, and what it would move, without running it."""
