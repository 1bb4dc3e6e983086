"""The adapter around kafka-python. All other files only use its error classes.

kafka-python's connections, transports, event loop and message classes are not documented for other projects, so a new
version may move them. ``tests/connectors/kafka/kafka_python`` names each of them and fails by name when one is gone.
"""
