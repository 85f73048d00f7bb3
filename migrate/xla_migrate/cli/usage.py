"""What ``xla-migrate --help`` prints; the options themselves stand in ``migrate.py``."""

HELP = """\
Usage: xla-migrate [OPTIONS] PATHS...
       xla-migrate COMMAND ...

Turn native PyTorch (CUDA) training scripts and notebooks into PyTorch/XLA.

Without an option the changes and findings are shown and nothing is written.
PATHS are files or directories (walked for *.py and *.ipynb as git sees them);
all of them are analysed as one program. "-" reads one script from standard
input and writes the migrated script to standard output.

Which files:
  -m MODULE                The file that "python -m MODULE" runs, with the
                           files that it imports; in place of PATHS.
  --follow                 PATHS with all files that they import, no others.

What to do with the changes:
  --inplace                Write the changed files back.
  --check                  Show no diff, only say what would change.
  --diff                   Print a plain patch for "git apply".
  -o, --output FILE        Write the result to FILE (one input; "-" for
                           standard output).

  --add-ignore             Write a comment behind each finding that says to
                           ignore it (# xla-migrate: ignore[XLA701]).

Which changes:
  --unsafe-fixes           Make the changes, too, that may alter what a script
                           does.
  --interactive            Ask for each change, with its diff.
  --max-changes N          Make N changes at most, for a first pull request.
  --select RULES           Only these rules: XLA301, XLA3, autocast, ALL
                           (commas between them).  [default: ALL]
  --ignore RULES           Not these rules.
  --exclude PATTERN        Pass over such files in directories; patterns are
                           those of .gitignore.

How to migrate:
  --target RELEASE         The torch_xla release to write for: 2.9, 2.5 (to
                           2.8), 2.1 (to 2.4), sagemaker (its Training
                           Compiler), or auto (what the project asks to have
                           installed).  [default: 2.9]
  --syncfree WHEN          Use syncfree optimizers: amp (under mixed
                           precision), always, never.  [default: amp]
  --distributed / --no-distributed
                           Train in replicas, one for each device, or on one
                           device.  [default: as the script did]
  --stdin-filename PATH    The name of the script read from standard input.

How to work:
  --jobs N                 Share the work among N processes.  [default: as many
                           as there are processors, where that pays]
  --no-cache               Neither use nor keep what earlier runs found (in
                           XLA_MIGRATE_CACHE_DIR, or the user's cache).

How to report:
  --fail-on SEVERITY       Exit with 1 where findings of this severity are
                           left: info, warning, error, never.
                           [default: error]
  --output-format FORMAT   text (findings by kind, with their lines), concise (a
                           line a finding), json, sarif, github (annotations
                           in its log), gitlab (code quality), rdjson
                           (reviewdog), markdown (for a comment), html (one
                           page).  [default: text]
  --verified FILE          In html and markdown, show the result of a report
                           that the command verify wrote for programs.
  -q, --quiet              No findings and no summary, only what was asked for
                           and failures.
  --color WHEN             auto, always, never.  [default: auto]
  --version                Print the version.
  -h, --help               Print this text.

Commands:
  map PATHS                Show what a project does: entries, loops, loaders,
                           optimizers, steps, saves, and what stays unknown.
  doctor [PATH]            Check whether migrated code can run here.
  lsp                      Serve an editor (needs xla-migrate[lsp]).
  rules                    List the rules.
  explain RULE             Say what a rule does and why.
  explain TOPIC [PATHS]    Say why a job fails, learns badly or is slow, and
                           which of the causes are seen in PATHS.
  verify SCRIPT -- ARGS    Run a script natively and migrated, in copies, and
                           compare what it trained.
  bot run|publish|serve    The pull-request bot (needs xla-migrate[bot]).
  record SCRIPT -- ARGS    Run a script and write a trace of what it did.
  compare NATIVE MIGRATED  Compare two traces.
  (A file of such a name is written ./rules.)

[tool.xla-migrate] in pyproject.toml has the keys target, distributed, select,
ignore, per-file-ignores and exclude; an option takes the place of its key.

Exit status:
  0  nothing to migrate, or all of it applied
  1  changes pending, or findings left at or above --fail-on
  2  a wrong command line, or a file that could not be processed (the other
     files are done all the same)
  130  interrupted (Ctrl-C): every file is as it was, or migrated
"""
