"""Graphs over machines: a plan on devices of several nodes is cut into a part for each, which workers run.

Read: machine_stages and cut (which nodes run together, and what goes between them), sheets (what a machine
is told), part_bundles; mailbox, opened_stage, opened_part and
worker (what a machine does); fleet (workers, and calls to them), part_opening, flights, recovery and
flight_control (runs, and what a loss does to them), remote_tensor, remote_session, remote_module; opening;
on Ray: ray_fleet, connecting.
"""
