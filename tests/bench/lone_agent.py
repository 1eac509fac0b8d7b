"""`pykruise-agent` as in a pod of a cluster: with a service account, not a kubeconfig. bench_agent.py measures it.

PYTHONPATH=tests python -m bench.lone_agent FOLDER [flags of the agent]

It imports only modules that the command imports, so that its memory is that of an agent.
"""

import asyncio
import os
import sys
from pathlib import Path

from bench.orphans import end_with_parent
from pykruise.agent.flags import parse
from pykruise.agent.process import run_process
from pykruise.kube.config.kubeconfig import load_in_cluster
from pykruise.kube.program.logs import set_up


def main() -> None:
    """Run until SIGTERM."""
    settings = parse(sys.argv[2:], environ=os.environ)
    assert settings is not None
    set_up(settings.log)
    asyncio.run(run_process(load_in_cluster(service_account=Path(sys.argv[1])), settings))


if __name__ == "__main__":
    end_with_parent()
    main()
