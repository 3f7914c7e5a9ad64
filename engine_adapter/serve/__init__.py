"""The embedded engine's front doors, for clients over a network.

`running` has the engine step on a thread of its own and hands each request's outcomes to the event loop that asked;
`samples` makes n answers out of one request; `served` is what every endpoint needs to know of a model. On these stand
the protocols, each in a package of its own: `http` speaks as OpenAI's API does.
"""
