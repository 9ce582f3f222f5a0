"""Use cases, one module each: ``run(context, ...)`` does the work and returns a ``Result``."""
