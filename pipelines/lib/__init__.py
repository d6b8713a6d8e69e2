"""What the sensors and jobs of several domains share."""
