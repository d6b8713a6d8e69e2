"""Settings of topics and of the cleaner, and the policies that contain them."""
