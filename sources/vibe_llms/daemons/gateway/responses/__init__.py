"""What the Responses protocol asks for beyond an answer: responses and conversations that are kept.

``keeping`` decides who keeps a response, and puts what was said earlier before what is asked;
``calls`` hears an answer on its way and has it kept before a client learns its id; ``registry``
remembers which responses there are, and whose; what was said lies in the application's
conversation store. ``endpoints`` and ``conversations`` answer for what is kept, ``background`` for
what nobody waits for, ``sockets`` speaks the protocol over web sockets. May import what the
faces import; refuses to know any other protocol.
"""
