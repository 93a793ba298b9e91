"""The models under test, by reference, as data and in memory."""
