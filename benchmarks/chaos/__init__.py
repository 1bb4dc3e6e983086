"""The chaos run: faults and kills, then a time without them and a check of all rows. ``python -m benchmarks.chaos``

Two driver programs run five queries: two topics in one alignment group, a folder of files, a Delta table, and a hybrid
of a Delta table and a topic. Their brokers, and the store in which the split-watermark tables and one Delta table lie,
are reached through a faulty network.

================== ======================================================================
``plan``           the faults and acts with their times: a pure function of the seed
``environment``    brokers, network, topics and the records written to them
``store``          the object store
``files``          the folder and the Delta table that are read
``history``        the topic and the history of the hybrid
``program``        a driver program: starts queries, records their ends, starts them again
``disruptions``    carries out the planned acts
``schedule``       does each act at its time
``allowed_errors`` whether a query may end with such an error at such a moment
``expected_rows``  the rows that the sinks must have, and those that they have
``run``            repeats a fault period, a quiet period (no faults) and a comparison of rows
================== ======================================================================

**The comparison of rows.** A quiet period begins when all faults are healed, and all stopped and killed processes run
again. Then each partition of the topics gets a record of one time, so that alignment holds back no record that was
written before. Within 60 s every query must have written something, and then all rows that existed when the period
began must be in its sink, once. No row may be doubled. Drift in the group must have stayed within max-drift, and each
query that ended must have ended with a documented error, at a time when there was a reason for it.

**What changes of files and tables mean for the comparison.** Files are touched (they get another modification time)
or removed only after a comparison has found all of their rows in the sink, so the expected rows stay the same. While
the folder is hidden no files are written. Rows of the Delta table are deleted only after a comparison has found them
in the sink, and the query ignores the deletion (``ignoreDeletes``); compaction does not change the rows. Between a
comparison and the next fault period the table may be dropped and created again. It is another table then: the query
has to fail with an error of the project's own, and is started with a new checkpoint; its rows are those of both
tables. The hybrid source may be replaced by one with a new history and a new topic, without an error.
"""
