"""The terminal picture of README.md: a rollout that meets a broken image, played in virtual time.

`python -m support.readme README.md` (with PYTHONPATH=tests) writes it there; a test compares.
"""

import sys
from pathlib import Path

from pykruise.cli.insight.explaining import text
from pykruise.cli.insight.forecasting import Forecast
from pykruise.cli.plan import described
from pykruise.fixtures.kruise import KruiseSandbox
from pykruise.testing.sandbox import START

__all__ = ["picture", "with_picture"]

ROOT = Path(__file__).parents[2]
BEGIN, END = "```\n$ pykruise plan", "```\n\nEvery decision"


def picture() -> str:
    """What the commands of the README print."""
    broken = "nginx:1.28"
    with KruiseSandbox(nodes=3, seed=1) as kruise:
        kruise.apply(ROOT / "examples" / "cloneset.yaml")
        kruise.until(lambda: kruise.explain("clonesets/web").verdict == "done")
        forecast = kruise.plan("clonesets/web", f"image=main={broken}")
        assert isinstance(forecast, Forecast)
        kruise.fail({"image": broken, "image_pull_error": True})
        containers = kruise.get("clonesets", "web")["spec"]["template"]["spec"]["containers"]
        containers[0]["image"] = broken
        kruise.patch("clonesets", "web", {"spec": {"template": {"spec": {"containers": containers}}}})
        kruise.advance(30)
        explanation = text(kruise.explain("clonesets/web"), now=START + kruise.now)
    lines = [
        f"$ pykruise plan clonesets/web --set image=main={broken}",
        *described(forecast)[:7],
        "…",
        f"$ kubectl set image clonesets/web main={broken}",
        "$ pykruise explain clonesets/web",
        *explanation.rstrip("\n").splitlines(),
    ]
    return "\n".join(line if len(line) <= 150 else f"{line[:149]}…" for line in lines)


def with_picture(page: str) -> str:
    """The page with the picture as it is now."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}```\n{picture()}\n{END}{tail}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_picture(page.read_text()))
