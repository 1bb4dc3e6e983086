"""SASL: the steps that all mechanisms share, and a module for each mechanism beside its settings."""
