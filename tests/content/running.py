"""What can be said of code blocks by running and compiling them: Python, TypeScript, Go, Rust."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from content.blocks import UNCHECKED, Block, projects

SECONDS = 300
"""After so long a Python block hangs; on a busy machine one that works takes a minute."""

TSCONFIG = """{
  "compilerOptions": {
    "strict": true, "noEmit": true, "skipLibCheck": true, "allowJs": true, "checkJs": true,
    "target": "esnext", "module": "preserve", "moduleResolution": "bundler", "moduleDetection": "force",
    "lib": ["esnext", "dom", "dom.iterable"], "jsx": "react-jsx", "types": ["node"], "noImplicitAny": true,
    "allowImportingTsExtensions": true, "resolveJsonModule": true, "experimentalDecorators": true
  },
  "include": ["**/*"], "exclude": ["node_modules"]
}
"""
SUFFIXES = {"typescript": ".ts", "tsx": ".tsx", "javascript": ".js"}
DIAGNOSTIC = re.compile(r"^(?P<file>[^(\s]+)\((?P<line>\d+),\d+\): error (?P<what>.*)$", re.MULTILINE)
IMPLICIT_ANY = re.compile(r"TS70\d\d:")
"""What is said of names without a type, which JavaScript cannot give."""

GO_IMPORT = re.compile(r'^\s*(?:import\s+)?(?:[\w.]+\s+)?"(?P<path>[^"\s]+)"\s*$', re.MULTILINE)
RUST_CRATE = re.compile(r"^\s*(?:pub\s+)?use\s+(?:::)?(?!std\b|core\b|alloc\b|crate\b|super\b|self\b)", re.MULTILINE)


def is_run(block: Block) -> bool:
    """Tell whether the author lets a block be run or compiled."""
    return not block.only_syntax and UNCHECKED not in block.words


def python_problems(blocks: Iterable[Block], python: Path) -> list[str]:
    """Run each Python block, and each document's Python project, with *python*; return what fails."""
    runnable = [block for block in blocks if block.language == "python" and is_run(block)]
    runs = [_Run(block.place, {"block.py": block.text}, ["block.py"]) for block in runnable if not block.file]
    for document, files in projects(runnable).items():
        texts = {block.file: block.text for block in files}
        tests = [name for name in texts if Path(name).name.startswith("test_")]
        arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests] if tests else ["-c", _importing(texts)]
        runs.append(_Run(f"{document.parent.name}/{document.name}", texts, arguments))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for problem in pool.map(lambda run: _run_python(run, python), runs) if problem]


@dataclass(frozen=True, slots=True)
class _Run:
    """Files that are written into an empty folder, and what Python is called with there."""

    place: str
    files: Mapping[str, str]
    arguments: Sequence[str]


def _importing(names: Iterable[str]) -> str:
    return "import runpy\n" + "\n".join(f"runpy.run_path({name!r}, run_name='imported')" for name in names)


def _run_python(run: _Run, python: Path) -> str:
    """Return what went wrong with a run, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), run.files)
        path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        environment = {"PATH": path, "HOME": folder, "LANG": "C.UTF-8", "NO_COLOR": "1"}
        try:
            done = subprocess.run(
                [str(python), *run.arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                capture_output=True, check=False, text=True, timeout=SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{run.place} is not done after {SECONDS} s"
    return f"{run.place} exit {done.returncode}: {_last_lines(done.stderr or done.stdout)}" if done.returncode else ""


def typescript_problems(blocks: Iterable[Block], node_modules: Path, tsc: Sequence[str]) -> list[str]:
    """Return what the TypeScript compiler says of blocks and projects, with the packages of *node_modules*."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "node_modules").symlink_to(node_modules)
        (folder / "tsconfig.json").write_text(TSCONFIG, encoding="utf-8")
        places = {}
        for number, block in enumerate(blocks):
            if block.language in SUFFIXES and is_run(block):
                stem = f"{block.document.parent.name}-{block.document.stem}"
                path = Path(
                    f"project-{stem}/{block.file}" if block.file else f"{stem}-{number}/block{SUFFIXES[block.language]}"
                )
                _write(folder, {str(path): block.text})
                places[path.as_posix()] = block
        if not places:
            return []
        done = subprocess.run([*tsc, "-p", "."], cwd=folder, capture_output=True, check=False, text=True)
    if done.returncode and not DIAGNOSTIC.search(done.stdout):
        return [_last_lines(done.stdout + done.stderr)]
    return [
        f"{places[one['file']].place} line {one['line']}: {one['what']}"
        for one in DIAGNOSTIC.finditer(done.stdout)
        if not (one["file"].endswith(".js") and IMPLICIT_ANY.match(one["what"]))
    ]


def go_problems(blocks: Iterable[Block], go: Path) -> list[str]:
    """Return what the Go compiler says of blocks that are whole files and import the standard library only."""
    with tempfile.TemporaryDirectory() as name:
        folder, places = Path(name), {}
        _write(folder, {"go.mod": "module example.com/blocks\n\ngo 1.27\n"})
        for number, block in enumerate(blocks):
            if block.language == "go" and is_run(block) and re.search(r"^package \w", block.text, re.MULTILINE):
                if any("." in one["path"].partition("/")[0] for one in GO_IMPORT.finditer(block.text)):
                    continue
                package = f"p{number}" if not block.file else f"project_{block.document.stem.replace('-', '_')}"
                _write(folder, {f"{package}/{Path(block.file).name or 'block.go'}": block.text})
                places[package] = block.place
        if not places:
            return []
        environment = os.environ | {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
        done = subprocess.run(
            [str(go), "vet", "./..."], cwd=folder, env=environment, capture_output=True, check=False, text=True
        )
    lines = [line for line in done.stderr.splitlines() if not line.startswith("#")]
    return [re.sub(r"^(?:vet: )?(?:\./)?(p\w+)/", lambda m: f"{places[m[1]]} ", line) for line in lines]


def rust_problems(blocks: Iterable[Block], rustc: str) -> list[str]:
    """Return what the Rust compiler says of blocks that use the standard library only."""
    problems = []
    for block in blocks:
        if block.language == "rust" and is_run(block) and not RUST_CRATE.search(block.text):
            with tempfile.TemporaryDirectory() as folder:
                _write(Path(folder), {"block.rs": block.text})
                kind = "bin" if re.search(r"^fn main\(", block.text, re.MULTILINE) else "lib"
                command = [
                    rustc,
                    "--edition=2024",
                    "--emit=metadata",
                    f"--crate-type={kind}",
                    "--error-format=short",
                    "block.rs",
                ]
                done = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)
            errors = [line for line in done.stderr.splitlines() if ": error" in line]
            problems += [f"{block.place} {line}" for line in errors]
    return problems


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _last_lines(text: str) -> str:
    return " | ".join(line.strip() for line in text.strip().splitlines()[-4:])
