"""A page for people, at ``/``: how requests stand, and a place to try a constraint token by token.

A try's way: `typed` makes a spec of what somebody typed; the compile service makes a grammar of it; a `walk` takes
tokens under it, one step after the other and back; `sessions` keeps the walks that are under way, few and not for
long; `aside` runs them beside the event loop. `tokens` says what tokens look like, `views` what the page is told,
`requests` is the JSON API over all of it, and `assets` are the files in ``static``. Nothing of a try touches what the
engine runs; the two share the compile service, in which the page is a tenant among others.
"""
