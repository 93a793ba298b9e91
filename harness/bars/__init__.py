"""The four bars, one file each."""
