"""What happens: events as frozen values, and the ways to hear of them.

May import the messages. Refuses to know vendors, files, and what a listener does with an event;
a listener that fails harms nobody.
"""
