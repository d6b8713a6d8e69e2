"""Settings: of topics, of the cleaner, and the policies that hold them."""
