"""Collectives: functions that move values between the chips of a mesh. exchange: the steps over the chips
of a group; placing: groups and placements of results; basic: ttnn's functions."""

from . import basic as basic
