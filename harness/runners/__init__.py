"""Training and measuring through Lightning."""
