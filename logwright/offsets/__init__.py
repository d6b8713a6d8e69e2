"""Why Kafka's internal topics grow: what keeps the cleaner from them, and whose records they are.

Planning only: `read` looks at one log, `transactions` and `judge` are pure.
"""
