"""The adapter around kafka-python. Other files of the product use only documented names, such as the error classes.

kafka-python's connections, transports, event loop and message classes are not documented for other projects, so a new
version may move them. A test in ``tests/connectors/kafka/kafka_python`` names each of them and fails if it is missing.
"""
