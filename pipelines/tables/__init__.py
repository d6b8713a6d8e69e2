"""When the tables of topics are updated while their brokers run."""
