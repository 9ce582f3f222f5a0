"""Control side of ironlease: decides, drives Ansible, keeps the evidence."""

__version__ = "0.1.0"
