"""What is sampled: corpora, blocks and named splits."""
