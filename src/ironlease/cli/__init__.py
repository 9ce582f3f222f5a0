"""The command line: reads it strictly, explains itself, and turns every outcome into words, JSON and an exit code."""
