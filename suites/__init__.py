"""The suites that ship with prebench."""
