"""The model of options that alignment and all connectors share: :class:`Option`, its kinds and its checks.

It depends on no connector and not on Spark. A test compares the options page, ``docs/options.md``, with the lists of
options.
"""
