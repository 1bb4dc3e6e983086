"""A long run of two queries in one group, one of which is killed again and again. ``python -m benchmarks.soak``

Each query reads its own topic, so that each waits for the other, and writes a Delta table. One query is never
stopped, so its planner shows the memory of a long run. The other is killed with all its processes, and continues from
its checkpoint. In the end every record must be in the sinks once, no split may ever have been read further ahead than
max-drift allows, and neither memory nor the table may have grown.
"""
