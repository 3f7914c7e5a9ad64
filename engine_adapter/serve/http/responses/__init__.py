"""``/v1/responses``, text only and without a memory: an input and the model's answer, or the calls it is to make.

`request` has the fields, `reading` makes what is asked of them; `items` makes a text that comes piece by piece into the
items of the output and the events that tell of them, and `form` the reply around these.
"""
