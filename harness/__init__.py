"""The harness: subjects, corpora, cases and runners; `harness.cli` is the command line."""
