"""Log directories, policies, clock and Spark. Only these modules read the environment."""
