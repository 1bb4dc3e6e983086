"""Bearer tokens, of brokers and of schema registries: where they come from, and their cache."""
