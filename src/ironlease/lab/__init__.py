"""The lab: throw-away machines with a real systemd, sshd, apt and reboot, on this computer.

``ironlease.lab.lab.Lab`` is the one class that others use; docs/concepts/lab.md explains how it works.
"""
