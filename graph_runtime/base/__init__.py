"""The foundations of all other parts; this layer knows nothing of graphs.

Read: errors (the exceptions), config (settings from the environment), dtypes, machine/ (devices and layouts),
json_text (documents), files/ (writing, mapping and finding files), progress (of long steps), version, locks
and unique, showable and providers (filled in by the top of the package)."""
