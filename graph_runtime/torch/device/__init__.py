"""torch.tt, the module that torch and users ask about the device.

Read device_module, memory, streams and generators; accelerator is what torch says for all accelerators alike.
"""
