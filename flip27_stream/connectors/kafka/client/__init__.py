"""The Kafka client of planning: requests to a cluster, and the connections that carry them."""
