"""Programs that the agent carries along and that run on the stack's own interpreter, where torch is installed."""
