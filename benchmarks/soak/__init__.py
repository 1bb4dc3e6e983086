"""A long run of two queries in one group, one of which is killed again and again. ``python -m benchmarks.soak``

Each query reads a topic of its own, so that each waits for the other, and writes a Delta table. One is never
stopped, so its planner shows what the memory of a long run is; the other is killed with all its processes, and comes
back from its checkpoint. In the end everything must be in the sinks once, no split may ever have been read further
ahead than max-drift allows, and nothing may have grown.
"""
