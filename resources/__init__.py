"""With what: log directories, policies, clock and Spark. The only readers of the environment."""
