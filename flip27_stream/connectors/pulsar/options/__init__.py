"""All options, in the words of the Spark connectors that people have."""
