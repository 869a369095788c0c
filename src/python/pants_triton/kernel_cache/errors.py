"""What goes wrong with a cache, by what follows from it."""

from __future__ import annotations


class SettingsError(Exception):
    """A setting can't be used; the message names it and the way out."""


class Refused(Exception):
    """An entry is not what it should be; the message says why."""


class Unavailable(Exception):
    """The server can't be reached, or did not answer in time; the message says which."""


class CallFailed(Exception):
    """The server answered a call with an error; the message is its own."""


class WriteDenied(Exception):
    """The server lets this user read only."""
