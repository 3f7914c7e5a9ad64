"""Child processes that may crash, hang or be killed: `LineProcess` asks them in lines, `Stop` ends what takes too long,
and a `ForkServer` has their libraries loaded when they begin.

The child's side is `structout.processes.child`.
"""

from structout.processes.fork_server import ForkServer
from structout.processes.lines import Cause, Ended, LineProcess
from structout.processes.stop import Stop

__all__ = ["Cause", "Ended", "ForkServer", "LineProcess", "Stop"]
