"""``python -m xla_migrate`` is ``xla-migrate``."""

import sys

from xla_migrate.cli import main

if __name__ == "__main__":
    sys.exit(main())
