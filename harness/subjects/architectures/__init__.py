"""One file of data per architecture family."""
