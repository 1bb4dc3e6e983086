"""The model of options that alignment and all connectors share: :class:`Option`, its kinds and its checks.

Knows no connector and no Spark. The options page, ``docs/options.md``, is held against the lists of options.
"""
