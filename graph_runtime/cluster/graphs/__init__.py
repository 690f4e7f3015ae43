"""Graphs over machines: a plan on devices of several nodes is cut into one part per node, which workers run.

Read: machine_stages and cut (which nodes run together, and which values cross), sheets (a machine's
instructions, and their bundles); mailbox, opened_stage, opened_part and worker (the side of a machine); fleet
(workers, and calls to them), part_opening, flights, recovery and flight_control (runs, and what is done when
a machine is lost), remote_tensor, remote_session; opening; on Ray: ray_fleet, connecting.
"""
