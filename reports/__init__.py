"""What a stranger reads and checks: pages, bundles, verification."""
