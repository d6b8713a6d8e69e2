"""What the assets of several domains share."""
