"""Models served to others, by replicas on Ray. The extra ``cluster`` installs Ray, which is imported when it
is needed.

Read: datatypes, ports (what a model takes), requests and responses (the inference protocol's bytes),
batch_rows and independent_rows (which rows run together), batcher (queue, batches, deadlines), replays (what
is done about a lost worker), metrics, runner (a bundle that answers batches); catalog (names and versions),
request_bodies, front (HTTP in ASGI's terms). On Ray: rays (starting and joining it), installation, travel
(bundles to other machines), deployment, offers (what a user wants served), http_server, server. status reads
what a server says of itself.
"""
