"""The adapter around kafka-python. All other files use only the error classes of kafka-python.

kafka-python's connections, transports, event loop and message classes are not documented for other projects, so a new
version may move them. A test in ``tests/connectors/kafka/kafka_python`` names each of them and fails if it is missing.
"""
