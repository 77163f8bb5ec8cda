"""What a conversation cost: listens and reckons, and never steers.

May import the messages, events and models. Refuses to know how requests are sent.
"""
