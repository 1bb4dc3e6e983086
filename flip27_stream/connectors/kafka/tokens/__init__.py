"""Bearer tokens for brokers and schema registries: the providers of tokens, and the cache."""
