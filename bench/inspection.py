"""Measures the inspection page: the time to make it, its size, and what a browser takes to show and to filter it.

The browser is Chromium, without a window, which opens the file from disk. `painted` is its first paint, `shown` the
moment at which the first view stands, both since it began to open the file. `filtered` is the time that the main thread
takes from a word in the box of the view Fragments until the page is laid out again, the median over WORDS.

Usage: python bench/inspection.py [--write | --picture]

--write writes the figures into docs/inspect.md, --picture only the picture of the shipped library, docs/inspect.png.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from corpus import make_corpus
from judged import SHARED
from playwright.sync_api import Browser, sync_playwright

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.inspection.assembly import render_page
from orchestr8_sqlite.inspection.collecting import inspect

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "inspect.md"
PICTURE, WIDTH, HEIGHT = ROOT / "docs" / "inspect.png", 1100, 700
PICTURED = "search?q=flaky"
BEGIN, END = "<!-- written by bench/inspection.py from here -->", "<!-- to here -->"
CORPORA = ("orchestr8", "skills")
GROWN = 10_000
OPENINGS = 5
WORDS = ("test", "api data", "zzz", "python", "")
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")

WATCH = """
new MutationObserver((_, watcher) => {
  const view = document.getElementById("view");
  if (!view || view.hasAttribute("aria-busy")) return;
  window.shown = performance.now();
  watcher.disconnect();
}).observe(document, { subtree: true, childList: true, attributes: true });
"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
FILTER = """
(word) => {
  const box = document.querySelector("#view input[type=search]");
  const begun = performance.now();
  box.value = word;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  document.body.offsetHeight;
  return performance.now() - begun;
}
"""


def libraries(folder: Path) -> Iterator[Path]:
    """Yield the shipped library, the collections of others that there are, and the shipped library grown."""
    yield ROOT / "resources"
    yield from (corpus for name in CORPORA if (corpus := SHARED / "corpora" / name).is_dir())
    yield make_corpus(ROOT / "resources", GROWN, folder, seed=1).root


def measure(root: Path, folder: Path, browser: Browser) -> str:
    """Return the row of the table for a library."""
    index, page = folder / "index.db", folder / "report.html"
    build_index([root], index, category="skill", full=True)
    begun = time.perf_counter()
    data = inspect(index)
    page.write_text(render_page(data), encoding="utf-8")
    seconds = time.perf_counter() - begun
    painted, shown = zip(*(_open(browser, page) for _ in range(OPENINGS)), strict=True)
    fragments, library = f"{len(data['fragments']):,}", data["library"]
    asked = f"{library['asked']:,} of {library['scenarios']:,}"
    size = f"{page.stat().st_size / 1e6:.1f} MB"
    times = (statistics.median(painted), statistics.median(shown), _filter(browser, page))
    cells = (fragments, asked, f"{seconds:.0f} s", size, *(f"{one:.0f} ms" for one in times))
    return f"| {' | '.join(cells)} |"


def _open(browser: Browser, page: Path) -> tuple[float, float]:
    """Return when the page is painted and shown, in milliseconds."""
    tab = browser.new_page()
    tab.add_init_script(WATCH)
    tab.goto(page.as_uri())
    tab.wait_for_selector("#view:not([aria-busy])")
    times = tab.evaluate(PAINTED), tab.evaluate("window.shown")
    tab.close()
    return times


def _filter(browser: Browser, page: Path) -> float:
    """Return the milliseconds that a filter takes."""
    tab = browser.new_page()
    tab.goto(f"{page.as_uri()}#fragments")
    tab.wait_for_selector("#view input[type=search]")
    times: list[float] = [tab.evaluate(FILTER, word) for _ in range(OPENINGS) for word in WORDS]
    tab.close()
    return statistics.median(times)


def take_picture(folder: Path, browser: Browser) -> None:
    """Write the picture of what the page shows at PICTURED."""
    page = folder / "report.html"
    build_index([ROOT / "resources"], folder / "bundled.db", full=True)
    page.write_text(render_page(inspect(folder / "bundled.db")), encoding="utf-8")
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    tab.goto(f"{page.as_uri()}#{PICTURED}")
    tab.wait_for_selector("#view:not([aria-busy])")
    tab.screenshot(path=PICTURE)


def main() -> None:
    """Print the table, or write it into the document; or take the picture."""
    rows = []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=[*FLAGS])
        if "--picture" in sys.argv[1:]:
            take_picture(folder, browser)
            return
        for root in libraries(folder):
            rows.append(measure(root, folder, browser))
            sys.stderr.write(f"{rows[-1]}\n")
    head = "| fragments | scenarios asked | made in | file | painted | shown | filtered |"
    table = "\n".join((head, "|--:|--:|--:|--:|--:|--:|--:|", *rows))
    if "--write" in sys.argv[1:]:
        before, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
        DOCUMENT.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")
    else:
        sys.stdout.write(f"{table}\n")


if __name__ == "__main__":
    main()
