"""Events as frozen values, and ways to subscribe to them.

May import the messages. Must not know vendors, files, or what a listener does with an event. A
listener that fails does not affect others.
"""
