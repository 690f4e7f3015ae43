"""torch.tt, the module through which torch and users control the device.

Read device_module, memory, streams and generators; accelerator serves torch's functions for any accelerator.
"""
