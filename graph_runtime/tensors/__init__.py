"""Handles on values, wherever they are: device memory, transfers, and what the host may ask of them."""
