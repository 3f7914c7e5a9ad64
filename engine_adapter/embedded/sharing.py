"""Whose time it is where embeddings and others want the engine at the same time: half and half, by the clock."""


class Sharing:
    """Measures who had how much. Embeddings that are ahead wait until the others have caught up. Who wants less than
    that saves up one step at most.

    Tokens would not do as a measure: each chunk of a prompt takes a forward pass of its own, and what one costs beside
    a step in which others decode depends on its length, on the model and on the machine.
    """

    def __init__(self) -> None:
        self._ahead_s = 0.0

    @property
    def is_embeddings_turn(self) -> bool:
        """Whether embeddings had no more than the others."""
        return self._ahead_s <= 0.0

    def spent(self, embeddings_s: float, others_s: float) -> None:
        """Adds the seconds of one step to each side."""
        self._ahead_s = max(-others_s, self._ahead_s + embeddings_s - others_s)

    def begin_anew(self) -> None:
        """Forgets who had what: there is one side only."""
        self._ahead_s = 0.0
