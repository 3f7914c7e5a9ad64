"""``structout bench``: structout beside what people would use without it, in one process, in turn.

`timing` measures, `machine` says on what, `report` prints; `recording` has the masks. Each benchmark is a module of its
own, named after its command.
"""
