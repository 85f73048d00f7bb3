"""Running a script as the main program of this process."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import ModuleType

from xla_migrate.verify.failures import is_own
from xla_migrate.verify.recorder import EnoughSteps
from xla_migrate.verify.trace import Failure

FRAMES_KEPT = 6


def run_script(path: Path, argv: list[str]) -> Failure | None:
    """Run ``path`` as ``__main__`` with ``argv``; return what ended it, None for a normal end.

    ``sys.exit()``, ``sys.exit(0)`` and the end after enough steps are normal ends.
    The namespace of the script stays alive.
    """
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=__builtins__, __spec__=None)
    sys.modules["__main__"] = main
    sys.argv = [str(path), *argv]
    sys.path.insert(0, str(path.parent))
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        exec(code, main.__dict__)
    except EnoughSteps:
        return None
    except SystemExit as stop:
        return None if stop.code in (None, 0) else Failure("SystemExit", str(stop.code))
    except BaseException as problem:
        traceback.print_exc()
        return failure_of(problem, path)
    return None


def failure_of(problem: BaseException, script: Path) -> Failure:
    """The exception with its last frames, among them the innermost one of the script itself."""
    every = traceback.extract_tb(problem.__traceback__)
    frames = [frame for frame in every if not is_own(frame.filename)]
    own = [frame for frame in frames if frame.filename == str(script)][-1:]
    last = frames[-FRAMES_KEPT:]
    kept = last if not own or own[0] in last else own + last[1:]
    lines = [f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in kept]
    return Failure(type(problem).__name__, str(problem), lines)
