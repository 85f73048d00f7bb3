"""Starts a recording process in any interpreter, whether or not this package is installed there.

    python boot.py --serve xla

Run by its path. The package is loaded from where this file lies, and nothing else from there: the
other packages of one interpreter are wrong for another one, and the script is to find what it finds
without being recorded.
"""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

HERE = Path(__file__).resolve().parent


def load_package(folder: Path) -> None:
    """Make ``folder`` importable under its name."""
    places = [str(folder)]
    spec = spec_from_file_location(folder.name, folder / "__init__.py", submodule_search_locations=places)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[folder.name] = module_from_spec(spec)
    spec.loader.exec_module(module)


def main() -> None:
    """Record, or say on standard output which package is missing."""
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != HERE]
    load_package(HERE.parent)
    try:
        from xla_migrate.verify import record
    except ModuleNotFoundError as error:
        print(json.dumps({"missing": error.name}), flush=True)
        return
    record.main(sys.argv[1:])


if __name__ == "__main__":
    main()
