"""Commands that read objects, with their flags: get, describe, image, wait; and exec.

Pure: data for tree.py.
"""

from typing import Final

from pykruise.cli.kubectl.command import (
    EVERYWHERE,
    FILES,
    OUTPUT,
    SELECTOR,
    TIMEOUT,
    TYPES,
    Command,
    switch,
    text,
)
from pykruise.cli.kubectl.flags import KubectlFlag

GET: Final = Command(
    name="get",
    short="Show objects: everything of OpenKruise, one type, or the live tree of a rollout",
    usage="(all | TYPE [NAME…] | TYPE/NAME… | rollout NAME [-w])",
    group="Look",
    run="getting:get_command",
    flags=(
        *FILES,
        *OUTPUT,
        SELECTOR,
        EVERYWHERE,
        TIMEOUT,
        switch(
            "watch", "Watch: a row for each change; a tree is redrawn until the rollout is complete.", "w"
        ),
        switch("no-color", "No colours."),
    ),
    examples=("get all -n prod", "get rollout web -w", "get clone"),
)

DESCRIBE: Final = Command(
    name="describe",
    short="Show an object with its conditions, revisions, pods and events",
    usage=f"{TYPES} | rollout NAME [-w]",
    group="Look",
    run="describing:describe",
    flags=(
        *FILES,
        SELECTOR,
        EVERYWHERE,
        TIMEOUT,
        switch("watch", "Watch a Rollout until Ctrl-C.", "w"),
        switch("no-color", "No colours."),
        switch("all", "Show the pods of all batches of a Rollout."),
    ),
    examples=("describe clone/web", "describe rollout web -w"),
)

IMAGE: Final = Command(
    name="image",
    short="Images that are pulled in advance",
    group="Look",
    children=(
        Command(
            name="status",
            short="Show the progress of an ImagePullJob on each node",
            usage="JOB",
            run="getting:show_image_status",
            examples=("image status pull-nginx",),
        ),
    ),
)

EXEC: Final = Command(
    name="exec",
    short="Run a command in a container",
    usage="(POD | TYPE/NAME | -f FILE) [-c CONTAINER] [-S SIDECAR] [-it] -- COMMAND…",
    group="Look",
    run="executing:exec_command",
    flags=(
        *FILES,
        text("container", "The container.", "c"),
        text(
            "sidecar",
            "Name of a sidecar; for a hot-upgrade sidecar, its working container is used.",
            "S",
        ),
        switch("stdin", "Pass standard input to the container.", "i"),
        switch("tty", "Attach a terminal.", "t"),
        switch("quiet", "Print only the output of the command.", "q"),
        KubectlFlag(
            name="pod-running-timeout",
            type="seconds",
            default="1m",
            help="How long to wait for a running pod.",
        ),
    ),
    examples=("exec pod-1 -S log-agent -it -- sh",),
)
