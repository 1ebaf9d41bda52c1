"""The serving side in a simulated world: its clock, processes, pipes, connections and threads are drawn from a seed.

The product's own coroutines run, from `server.http.serve.live` down to uvicorn, the SDK and SQLite, unchanged, on an
event loop whose clock stands still while code runs and jumps to the next timer when there is nothing to do. A minute
takes some milliseconds, and the same seed gives the same minute.

    loop       the event loop: simulated clock, process table, listening sockets
    children   what the programs do that the server starts: a builder, and workers, which run the product's code
    network    connections with buffers, and clients: good, slow, deaf, hasty, hostile ones
    threads    threads that are held up before statements of SQL, one of them at a time
    library    editions of an index, and which was in place when
    world      one run: what happens, and what must be true
    run        `python -m simulation.run --seed N` plays one seed and prints what happened

Source of the method: TigerBeetle's simulator VOPR; FoundationDB's simulation, whose constants are drawn as well.
"""


class Broken(Exception):
    """Something that is promised was not true in a simulated run."""
