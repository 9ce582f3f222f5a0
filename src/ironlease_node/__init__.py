"""The host side of ironlease: one file, Python >= 3.9, nothing but the standard library.

``src/ironlease/agent_archive.py`` packs this package into ``agent.pyz``. It runs before anything is installed on a host
and goes on working when the control side is gone. docs/developer/architecture.md has the table of its commands.
"""

__version__ = "0.1.0"
