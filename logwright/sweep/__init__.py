"""Work on many logs at once, in one process: what the command line and Spark's tasks share."""
