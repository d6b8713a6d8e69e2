"""Whether a broker starts on its log directories, and what to do if it does not."""
