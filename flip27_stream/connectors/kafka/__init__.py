"""The Kafka source, and the factory that makes it from options."""

from flip27_stream.connectors.kafka.source import KafkaSource, KafkaSourceFactory

__all__ = ["KafkaSource", "KafkaSourceFactory"]
