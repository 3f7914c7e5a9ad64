"""Child processes that may crash, hang or be killed: `LineProcess` asks them in lines, `Stop` ends what takes too long.

The child's side is `structout.processes.child`.
"""

from structout.processes.lines import Cause, Ended, LineProcess
from structout.processes.stop import Stop

__all__ = ["Cause", "Ended", "LineProcess", "Stop"]
